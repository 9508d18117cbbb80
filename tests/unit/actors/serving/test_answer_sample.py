from __future__ import annotations

from actors.serving.answer_sample import build_queries

TITLES = {"p1": "Steel trowel of the north", "p2": "Oak chair"}


def test_queries_alternate_between_users_products_searches_and_engines() -> None:
    queries = build_queries("shop", ["a", "b"], ["u:gina", "a:visitor"], TITLES, 10)
    assert [(query.kind, query.engine_id) for query in queries] == [
        ("user_to_products", "a"), ("product_to_products", "b"), ("search", "a"),
        ("user_to_products", "b"), ("product_to_products", "a"), ("search", "b"),
    ]  # fmt: skip
    assert [query.user_keys for query in queries[::3]] == [("u:gina",), ("a:visitor",)]
    assert queries[2].search is not None
    assert queries[2].search.text == "Steel trowel of"


def test_queries_are_bounded_and_can_leave_searches_out() -> None:
    assert len(build_queries("shop", ["a"], ["u:gina"], TITLES, 2)) == 2
    kinds = {query.kind for query in build_queries("shop", ["a"], ["u:gina"], TITLES, 10, searches=False)}
    assert kinds == {"user_to_products", "product_to_products"}
