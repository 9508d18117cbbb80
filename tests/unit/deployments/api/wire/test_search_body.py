"""Bodies of searches become queries; what is refused stands in tests/contract/rest/search.yaml."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from actors.recommender.messages import UserQuery
from actors.retrieval.messages import Anchoring, Facet, FacetFilter, OrderKey, SearchQuery
from cluster.errors import FilterSyntax, Unprocessable
from cluster.query.language.parser import parse
from cluster.query.language.tree import Any as AnyOf
from cluster.query.language.tree import Range, Term
from deployments.api.wire.ask import AskQuestion, AskSearch
from deployments.api.wire.search import MOST_SOUGHT, ManyProducts, SearchBody, to_mget_query, to_search_query
from tests.fakes.request_handler import NOW_MS


def parse_search(**body: Any) -> SearchQuery:
    query = to_search_query(
        SearchBody.model_validate({"q": "*", **body}), app_id="shop", user_id="", now_ms=NOW_MS
    )
    assert query.search is not None
    return query.search


def test_a_body_with_nothing_but_words_has_the_defaults_of_the_specification() -> None:
    query = to_search_query(SearchBody.model_validate({"q": "red"}), app_id="shop", user_id="", now_ms=NOW_MS)
    assert query == UserQuery(
        "search", "shop", "default", rows=5, dedupe=True, search=SearchQuery(text="red", original="red")
    )


@pytest.mark.parametrize("everything", ["*", " * ", "   "])
def test_a_star_and_blanks_ask_for_everything(everything: str) -> None:
    search = parse_search(q=everything)
    assert (search.text, search.original) == ("", everything)


def test_a_long_text_is_read_as_far_as_anybody_types() -> None:
    search = parse_search(q="ab " * 5_000)
    assert len(search.text) <= MOST_SOUGHT
    assert len(search.original) == 15_000


def test_every_parameter_arrives() -> None:
    search = parse_search(
        q="red", advanced_q="brand:Alder", category=["Garden", "Tools"], include=["a"], like="spade", language="DE",
        order_by=[{"field": "attributes.x"}, {"field": "price*2", "order": "asc", "default_value": "3",
                   "tie_breaker": {"type": "relative_difference", "threshold": "0.5"}},
                  {"field": "_geo_distance", "geo": {"lat": 1, "lon": 2}}],
        facets=["attributes.x", {"field": "price", "alias": "band", "size": 3, "include": "a", "exclude": "b"},
                {"field": "price", "ranges": [{"from": 1, "key": "k"}], "queries": [{"query": "a:1", "key": "q"}]}],
        facet_filters={"tags": {"terms": ["s", 1, True]}, "x": {},
                       "price": {"ranges": [{"to": "2024-01", "key": "k"}]}},
        anchoring_settings=[{"product_id": "p", "anchor_ids": ["a"], "relative_position": 2,
                             "start_time": "1970-01-02", "end_time": "1970-01-03T00:00:00+01:00"}],
        spellcheck={"enable_auto_spelling_correction": False}, exclude_fields_from_search=["title", "title"],
        enable_partial_match=True, partial_match_mode="separated", enable_partial_match_threshold=2,
        enable_semantic_search=True, semantic_search_threshold=0.3, enable_matched_fields=True,
        enable_boosting_campaigns=False, query_product_existence={"product_ids": ["x"]}, personalization_weight="2",
    )  # fmt: skip
    assert search == SearchQuery(
        text="red", original="red", advanced=parse("brand:Alder"), prefer_language="de", category=("Garden", "Tools"),
        include=("a",), like="spade",
        order=(OrderKey("custom_attributes.x"), OrderKey("price*2", True, 0.5, 3.0),
               OrderKey("_geo_distance", at=(1, 2))),
        facets=(
            Facet("custom_attributes.x", "attributes.x"), Facet("price", "band", 3, "a", "b"),
            Facet("price", "price", keys=(("k", Range("price", "1", None, True, False)), ("q", Term("a", "1")))),
        ),
        facet_filters=(
            FacetFilter("tags", AnyOf((Term("tags", "s"), Term("tags", "1"), Term("tags", "true")))),
            FacetFilter("price", Range("price", None, "2024-01", True, False)),
        ),
        anchorings=(Anchoring("p", ("a",), 2, 86_400_000, 2 * 86_400_000 - 3_600_000),),
        correct=False, left_out_fields=("title",), partial=True, separated=True, partial_threshold=2, meaning=0.3,
        matched_fields=True, campaigns=False, existence=("x",), personalization=2,
    )  # fmt: skip
    assert pickle.loads(pickle.dumps(search)) == search


def test_ranges_of_one_facet_and_queries_of_all_have_a_budget() -> None:
    ranges = [{"from": at, "key": "k"} for at in range(150)]
    with pytest.raises(Unprocessable, match="at most 200 ranges"):
        parse_search(facets=[{"field": "price", "ranges": ranges}, {"field": "rating", "ranges": ranges}])
    patterns = [{"query": "tags:*a*", "key": "k"}] * 9
    parse_search(facets=[{"field": "x", "queries": patterns}])
    with pytest.raises(FilterSyntax, match="clauses"):
        parse_search(facets=[{"field": "x", "queries": patterns}, {"field": "y", "queries": patterns}])
    with pytest.raises(Unprocessable, match="formulas"):
        parse_search(order_by=[{"field": "price +" + " " * 900 + "1"}] * 2)


def test_products_are_requested_by_id_with_all_fields() -> None:
    body = ManyProducts.model_validate({"product_ids": ["b", "a"], "user_id": "x", "rows": 3, "other": {}})
    assert to_mget_query(body, app_id="shop") == UserQuery(
        "mget", "shop", "default", anchors=("b", "a"), fields=("*",)
    )


@pytest.mark.parametrize(("body", "text"), [(SearchBody, "q"), (AskSearch, "q"), (AskQuestion, "question")])
def test_a_query_with_an_empty_type_is_about_every_product(body: type[Any], text: str) -> None:
    assert body.model_validate({text: "Which tulips are red?", "type": ""}).type is None
    assert body.model_validate({text: "Which tulips are red?", "type": "book"}).type == "book"
