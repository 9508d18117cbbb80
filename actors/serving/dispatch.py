"""From the kind of a query to the pipeline that answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from actors.recommender import pipeline
from actors.recommender.field_warnings import list_field_warnings
from actors.recommender.messages import QUERY_SOURCES, QueryKind, RecommendationResult, UserQuery
from actors.recommender.ranking.query_context import QueryContext
from actors.recommender.ranking.user_profile import parse_recent_events
from actors.recommender.recommender import Recommender
from actors.recommender.state.catalog import ATTRIBUTE
from actors.search import completions, passage_answers, search_pipeline
from cluster.query.columnar.column_source import Key
from cluster.query.columnar.column_store import column_keys_of_filter
from cluster.query.language.field_values import canonical

_FEW_PRODUCTS = 20_000
_MANY_PRODUCTS = 300_000
_FEW_TO_SEARCH = 5_000
_FEW_SOURCES = 3
_MUCH_TO_SHOW = 500
"Products times fields."
_SHOWING = frozenset({"autocomplete", "search", "mget"})

AnswerFunction = Callable[[QueryContext], RecommendationResult]

ANSWERS: Mapping[QueryKind, AnswerFunction] = {
    "user_to_products": pipeline.user_to_products,
    "user_to_trending": pipeline.user_to_trending,
    "product_to_products": pipeline.product_to_products,
    "user_to_history": pipeline.user_to_history,
    "user_to_categories": pipeline.user_to_categories,
    "user_to_attributes": pipeline.user_to_attributes,
    "autocomplete": completions.complete,
    "search": search_pipeline.search,
    "mget": search_pipeline.get_products,
    "question_answering": passage_answers.answer_question,
}


def answer(
    recommender: Recommender, query: UserQuery, recent: Sequence[bytes], shown: Sequence[str], now_ms: int
) -> RecommendationResult:
    """Answer one query.

    `recent` is the recent list of the user (packed, newest first). `shown` holds what earlier pages of the query's
    `pagination_id` returned.

    Errors:
        ColumnsNotReady: a filter needs columns that take too many reads to build here

    Cost:
        user_to_products, 10 rows: see tests/benchmarks/recommender_inprocess.py
    """
    state = recommender.get_engine_state(query.engine_id)
    request = QueryContext(
        query=query,
        recent_events=parse_recent_events(recent, query.simulated),
        shown_ids=shown,
        engine_state=state,
        item_priors=state.get_item_priors(now_ms),
        now_ms=now_ms,
    )
    result = ANSWERS[query.kind](request)
    warnings = list_field_warnings(query, state.catalog)
    return replace(result, warnings=warnings) if warnings else result


def answer_and_build_columns(
    recommender: Recommender, query: UserQuery, recent: Sequence[bytes], shown: Sequence[str], now_ms: int
) -> RecommendationResult:
    """Answer one query like `answer`, and build every missing column of its filters on the way."""
    with recommender.overlay.catalog.columns.build_missing_columns():
        return answer(recommender, query, recent, shown, now_ms)


def is_light(recommender: Recommender, query: UserQuery) -> bool:
    """Tell whether an answer takes about a millisecond at most, so that a thread would cost more."""
    catalog = recommender.overlay.catalog
    if (
        query.kind in _SHOWING
        and max(query.rows, len(query.anchors)) * (len(query.fields) + 1) > _MUCH_TO_SHOW
    ):
        return False
    if query.kind == "autocomplete":
        return len(query.completion_fields) <= _FEW_SOURCES and all(
            name in QUERY_SOURCES
            or recommender.completions.has_field((canonical(name), query.language, query.only_language))
            for name in query.completion_fields
        )
    if query.kind == "question_answering":
        return False
    if query.kind == "search":
        return catalog.products <= _FEW_TO_SEARCH and (query.search is None or query.search.is_plain)
    if catalog.products <= _FEW_PRODUCTS or query.kind == "mget":
        return True
    if (
        catalog.products > _MANY_PRODUCTS
        or recommender.get_engine_state(query.engine_id).serving_model is None
    ):
        return False
    return catalog.columns.has_columns(list_columns(query))


def list_columns(query: UserQuery) -> list[Key]:
    """List the columns that the filters, boosts, circles and groups of a query read."""
    nodes = [rule.filter for rule in (*query.boosts, *query.removed)]
    nodes += [query.filter] if query.filter is not None else []
    keys = [key for node in nodes for key in column_keys_of_filter(node)]
    keys += [("points", circle.field) for circle in (*query.circles, *query.boost_circles)]
    return [*keys, (ATTRIBUTE, query.field_name)] if query.field_name else keys
