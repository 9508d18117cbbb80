"""From the kind of a query to the pipeline that answers it, and warnings for fields that no product has.

A filter on such a field matches nothing, and an order by it orders nothing. The query is answered, and the warning
names the field that was probably meant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from actors.recommender import group_pipeline, pipeline
from actors.recommender.messages import QUERY_SOURCES, QueryKind, RecommendationResult, UserQuery
from actors.recommender.ranking.pipeline_inputs import (
    Draw,
    PageWindow,
    UserSignals,
    build_user_signals,
    find_page_window,
)
from actors.recommender.ranking.user_profile import parse_recent_events
from actors.recommender.recommender import Recommender
from actors.recommender.state.catalog import ATTRIBUTE, Catalog
from actors.recommender.state.engine_state import EngineState, ItemPriors
from actors.retrieval.autocomplete.field_indexes import FieldKey
from actors.retrieval.messages import SCORES, SearchQuery
from actors.search import completions, passage_answers, search_pipeline
from cluster.query.columnar.column_source import Key
from cluster.query.columnar.column_store import column_keys_of_filter
from cluster.query.columnar.formula import is_plain_field, parse_formula
from cluster.query.language.field_names import FieldNames
from cluster.query.language.field_values import canonical_field
from cluster.query.language.parser import FULL_TEXT
from cluster.records.product import Product

# Bounds of work that a millisecond suffices for; `is_light` says which.
_FEW_PRODUCTS = 20_000
_MANY_PRODUCTS = 300_000
_FEW_TO_SEARCH = 5_000
_FEW_SOURCES = 3
_MUCH_TO_SHOW = 500
"Products times fields."
_SHOWING = frozenset({"autocomplete", "search", "mget"})

ListFunction = Callable[
    [UserQuery, UserSignals, PageWindow, EngineState, ItemPriors, int], RecommendationResult
]

LISTS: Mapping[QueryKind, ListFunction] = {
    "user_to_products": pipeline.user_to_products,
    "user_to_trending": pipeline.user_to_trending,
    "product_to_products": pipeline.product_to_products,
    "user_to_categories": group_pipeline.user_to_categories,
    "user_to_attributes": group_pipeline.user_to_attributes,
}


def answer(
    recommender: Recommender,
    query: UserQuery,
    recent: Sequence[bytes],
    shown: Sequence[str],
    now_ms: int,
    draw: Draw = None,
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
    result = _answer_kind(query, recent, shown, state, now_ms, draw)
    warnings = list_field_warnings(query, state.catalog)
    return replace(result, warnings=(*result.warnings, *warnings)) if warnings else result


def _answer_kind(
    query: UserQuery,
    recent: Sequence[bytes],
    shown: Sequence[str],
    state: EngineState,
    now_ms: int,
    draw: Draw,
) -> RecommendationResult:
    kind = query.kind
    if kind == "mget":
        return search_pipeline.get_products(query, state.catalog)
    if kind == "question_answering":
        return passage_answers.answer_question(query, state, now_ms)
    tiers = query.tiers
    priors = state.get_item_priors(now_ms) if tiers is None else state.get_readable_priors(tiers, now_ms)
    recent_events = parse_recent_events(recent, query.simulated)
    if kind == "autocomplete":
        return completions.complete(query, recent_events, state, priors, now_ms)
    user = build_user_signals(query, recent_events, state, priors, now_ms)
    if kind == "search":
        return search_pipeline.search(query, user, state, priors, now_ms)
    page = find_page_window(query, shown, state.catalog, draw)
    if kind == "user_to_history":
        return pipeline.user_to_history(query, recent_events, user, page, state, priors, now_ms)
    return LISTS[kind](query, user, page, state, priors, now_ms)


def answer_and_build_columns(
    recommender: Recommender,
    query: UserQuery,
    recent: Sequence[bytes],
    shown: Sequence[str],
    now_ms: int,
    draw: Draw = None,
) -> RecommendationResult:
    """Answer one query like `answer`, and build every missing column of its filters on the way."""
    with recommender.overlay.catalog.columns.build_missing_columns():
        return answer(recommender, query, recent, shown, now_ms, draw)


def is_light(recommender: Recommender, query: UserQuery) -> bool:
    """Return whether an answer takes about a millisecond at most, so that a thread would cost more."""
    catalog = recommender.overlay.catalog
    if (
        query.kind in _SHOWING
        and max(query.rows, len(query.anchors)) * (len(query.fields) + 1) > _MUCH_TO_SHOW
    ):
        return False
    if query.kind == "autocomplete":
        # Popular queries are searched then, to check whether the user may read a product with their words.
        if (
            query.tiers is not None
            and not QUERY_SOURCES.isdisjoint(query.completion_fields)
            and recommender.completions.access_key_of(query.tiers)
        ):
            return False
        return len(query.completion_fields) <= _FEW_SOURCES and all(
            recommender.completions.has_field(key) for key in list_completion_keys(recommender, query)
        )
    # Its passages are embedded and compared, which takes several milliseconds.
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
    # A missing column is built from the records of all products.
    return catalog.columns.has_columns(list_columns(query))


def list_completion_keys(recommender: Recommender, query: UserQuery) -> list[FieldKey]:
    """List the fields whose completion indexes a query reads."""
    return [
        key
        for name in query.completion_fields
        if name not in QUERY_SOURCES
        for key in recommender.completions.readable_keys(
            FieldKey(canonical_field(name), query.language, query.only_language), query.tiers
        )
    ]


def list_columns(query: UserQuery) -> list[Key]:
    """List the columns that the filters, boosts, circles and groups of a query read."""
    nodes = [rule.filter for rule in (*query.boosts, *query.removed)]
    nodes += [query.filter] if query.filter is not None else []
    keys = [key for node in nodes for key in column_keys_of_filter(node)]
    keys += [("points", circle.field) for circle in (*query.circles, *query.boost_circles)]
    return [*keys, (ATTRIBUTE, query.field_name)] if query.field_name else keys


MOST_WARNINGS = 10
_PRODUCT_FIELDS = frozenset(Product.model_fields)
_SHOWN = 100


def list_field_warnings(query: UserQuery, catalog: Catalog) -> tuple[dict[str, str], ...]:
    """List the fields a query names that no product ever had: `field`, `parameter`, `message`, `did_you_mean`.

    Products count that the user may read.

    Cost:
        0.5 microseconds for a query that names no field, 3 for a repeated filter
    """
    if not _has_field_names(query) or not catalog.products:
        return ()
    fields = catalog.field_access.find_readable(query.tiers)
    missing: dict[tuple[str, str], None] = {}
    for parameter, name in _list_missing(query, fields):
        missing[parameter, name] = None
        # A filter may name thousands of fields; ten warnings show the mistake.
        if len(missing) == MOST_WARNINGS:
            break
    return tuple(_build_warning(parameter, name, fields) for parameter, name in missing)


def _has_field_names(query: UserQuery) -> bool:
    search = query.search
    return bool(
        not _PRODUCT_FIELDS.issuperset(query.fields)
        or query.filter is not None
        or query.boosts
        or query.field_name
        or query.completion_fields
        or query.spacing
        or query.circles
        or query.boost_circles
        or (search and (search.order or search.facets or search.facet_filters or search.advanced))
    )


def _build_warning(parameter: str, name: str, fields: FieldNames) -> dict[str, str]:
    # A field of the schema is a valid name, even if no product has it yet.
    meant = "" if name in Product.model_fields else fields.suggest(name)
    warning = {
        "field": name[:_SHOWN],
        "parameter": parameter,
        "message": f"no product has the field {name[:_SHOWN]}",
    }
    return {**warning, "did_you_mean": meant} if meant else warning


def _list_missing(query: UserQuery, fields: FieldNames) -> Iterator[tuple[str, str]]:
    """Name parameter and field; stored rules are not the caller's, so their fields are left out."""
    if not _PRODUCT_FIELDS.issuperset(query.fields):
        # A part of an object, a pattern and a translation need not have a column.
        plain = (name for name in query.fields if name.isidentifier() and name not in _PRODUCT_FIELDS)
        yield from (("fl", name) for name in fields.missing(plain) if not name.startswith(("_", "i18n_")))
    if query.filter is not None:
        yield from (("fq", name) for name in fields.missing_in(query.filter))
    for boost in query.boosts:
        if boost.label.startswith("boost_"):
            parameter = boost.label if boost.label == "boost_fq" else f"{boost.label}.boost_fq"
            yield from ((parameter, name) for name in fields.missing_in(boost.filter))
    if query.search is not None:
        yield from _list_missing_in_search(query.search, fields)
    if query.field_name:
        yield from (("field", name) for name in fields.missing((query.field_name,)))
    if query.completion_fields:
        sources = [name for name in query.completion_fields if name not in QUERY_SOURCES]
        yield from (("completion_fields", name) for name in fields.missing(sources))
    named = (
        ("diversification", query.spacing),
        ("geo.filter", query.circles),
        ("geo.boost", query.boost_circles),
    )
    for parameter, parts in named:
        if parts:
            yield from ((parameter, name) for name in fields.missing(part.field for part in parts))


def _list_missing_in_search(search: SearchQuery, fields: FieldNames) -> Iterator[tuple[str, str]]:
    if search.advanced is not None:
        names = [name for name in fields.missing_in(search.advanced) if name != FULL_TEXT]
        yield from (("advanced_q", name) for name in names)
    for key in search.order:
        plain = is_plain_field(key.expression)
        named = (key.expression,) if plain else parse_formula(key.expression).fields
        missing = fields.missing(name for name in named if name not in SCORES)
        yield from (("order_by", name) for name in missing)
    for facet in search.facets:
        if facet.keys is None:
            yield from (("facets", name) for name in fields.missing((facet.field,)))
        for _, node in facet.keys or ():
            yield from (("facets", name) for name in fields.missing_in(node))
    for chosen in search.facet_filters:
        yield from (("facet_filters", name) for name in fields.missing_in(chosen.filter))
