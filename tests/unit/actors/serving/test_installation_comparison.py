from __future__ import annotations

from typing import Any

from actors.serving.installation_comparison import SampledAnswer, build_queries, describe_difference

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


def answer(*products: dict[str, Any], **parts: str) -> SampledAnswer:
    return SampledAnswer(products, **{"served_by": "live", "snapshot": "v1", **parts})


def scored(product_id: str, score: float) -> dict[str, Any]:
    return {"product_id": product_id, "title": f"Lamp {product_id}", "_search_score": score}


def test_equal_answers_have_no_difference() -> None:
    assert describe_difference(answer(scored("a", 2.0)), answer(scored("a", 2.0))) == ""


def test_another_score_is_named_with_its_place() -> None:
    text = describe_difference(
        answer(scored("a", 3.0), scored("b", 2.0)), answer(scored("a", 3.0), scored("b", 1.5))
    )
    assert text == "place 2: restored _search_score 2.0, installation _search_score 1.5"


def test_another_product_is_named_without_its_fields() -> None:
    text = describe_difference(answer(scored("a", 3.0)), answer(scored("b", 3.5)))
    assert text == (
        "place 1: restored product_id a, _search_score 3.0, installation product_id b, _search_score 3.5"
    )


def test_a_shorter_list_a_refusal_and_a_snapshot_are_named() -> None:
    refused = SampledAnswer((), "", "", "not_found: there is no such product")
    assert describe_difference(refused, answer(scored("a", 1.0))) == (
        "refusal: restored not_found: there is no such product, installation none; snapshot: restored none, "
        "installation v1; served_by: restored none, installation live; "
        "place 1: restored product_id None, _search_score None, installation product_id a, _search_score 1.0"
    )


def test_of_many_places_the_first_are_described() -> None:
    first, second = ([scored(name, score) for name in "abcde"] for score in (1.0, 2.0))
    text = describe_difference(answer(*first), answer(*second))
    assert text.count("place ") == 3
    assert text.endswith("; 5 places differ")
