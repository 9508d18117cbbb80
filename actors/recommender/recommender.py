"""One app's recommender: answers queries, learns from changes. Plain: no store, no clock, no threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from actors.language.embedder import Embedder
from actors.recommender import group_pipeline, pipeline
from actors.recommender.field_warnings import list_field_warnings
from actors.recommender.messages import QUERY_SOURCES, QueryKind, RecommendationResult, UserQuery
from actors.recommender.ranking.query_context import QueryContext
from actors.recommender.ranking.user_profile import parse_recent_events
from actors.recommender.state.catalog import ATTRIBUTE
from actors.recommender.state.engine_state import BlendWeights, EngineState
from actors.recommender.state.global_signals import GlobalSignalsCache
from actors.recommender.state.live_cohorts import LiveCohorts
from actors.recommender.state.overlay import Overlay
from actors.recommender.state.serving_model import ServingModel
from actors.retrieval.autocomplete.field_index import FieldIndex
from actors.retrieval.autocomplete.field_indexes import FieldIndexes
from actors.retrieval.autocomplete.text_index import RowTextIndex
from actors.search import completions, passage_answers, search_pipeline
from cluster.ids import DEFAULT_ENGINE
from cluster.query.columnar.column_source import Key
from cluster.query.columnar.column_store import column_keys_of_filter
from cluster.query.language.field_values import canonical
from cluster.store.ports.stores import ChangeLogEntry

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
    "user_to_categories": group_pipeline.user_to_categories,
    "user_to_attributes": group_pipeline.user_to_attributes,
    "autocomplete": completions.complete,
    "search": search_pipeline.search,
    "mget": search_pipeline.get_products,
    "question_answering": passage_answers.answer_question,
}


def list_columns(query: UserQuery) -> list[Key]:
    """Name the columns that a query asks by its filters, boosts, circles and grouping."""
    nodes = [rule.filter for rule in (*query.boosts, *query.removed)]
    nodes += [query.filter] if query.filter is not None else []
    keys = [key for node in nodes for key in column_keys_of_filter(node)]
    keys += [("points", circle.field) for circle in (*query.circles, *query.boost_circles)]
    return [*keys, (ATTRIBUTE, query.field_name)] if query.field_name else keys


class Recommender:
    """Everything one app's engines know: one overlay, and for each engine its holdings. One thread at a time."""

    def __init__(self, embedder: Embedder, *, blend: BlendWeights | None = None, refresh_ms: int = 0) -> None:
        self.overlay = Overlay(embedder)
        self._weights = blend
        self._global_signals = GlobalSignalsCache(self.overlay, refresh_ms)
        self._cohorts = LiveCohorts(self.overlay, refresh_ms)
        self.completions = FieldIndexes()
        self.overlay.catalog.subscribe(self.completions.record)
        self._engines: dict[str, EngineState] = {}

    @property
    def default_engine_state(self) -> EngineState:
        """What the default engine knows."""
        return self.get_engine_state(DEFAULT_ENGINE)

    def get_engine_state(self, engine_id: str) -> EngineState:
        """Give what one engine knows; engines of an app differ in their snapshots only."""
        holdings = self._engines.get(engine_id)
        if holdings is None:
            holdings = EngineState(
                self.overlay,
                blend=self._weights,
                crowds=self._global_signals,
                cohorts=self._cohorts,
                completions=self.completions,
            )
            self._engines[engine_id] = holdings
        return holdings

    def answer(
        self, query: UserQuery, recent: Sequence[bytes], shown: Sequence[str], now_ms: int
    ) -> RecommendationResult:
        """Answer one query.

        `recent` is the reader's recent list (packed, newest first), `shown` what earlier pages of the query's
        `pagination_id` returned.

        Cost:
            user_to_products, 10 rows: see benchmarks/recommender_inprocess.py
        """
        holdings = self.get_engine_state(query.engine_id)
        request = QueryContext(
            query=query,
            recent_events=parse_recent_events(recent, query.simulated),
            shown_ids=list(shown),
            engine_state=holdings,
            item_priors=holdings.get_item_priors(now_ms),
            now_ms=now_ms,
        )
        result = ANSWERS[query.kind](request)
        warnings = list_field_warnings(query, holdings.catalog)
        return replace(result, warnings=warnings) if warnings else result

    def build_missing_columns(self, thought: Callable[[], RecommendationResult]) -> RecommendationResult:
        """Have an answer thought however many records must be read for its columns."""
        with self.overlay.catalog.columns.build_missing_columns():
            return thought()

    def set_serving_model(self, engine_id: str, champion: ServingModel | None, now_ms: int = 0) -> None:
        """Let another snapshot serve an engine, or none; with a time the next answer finds everything ready."""
        if champion is None and engine_id != DEFAULT_ENGINE:
            # what it knew beside the overlay goes with its snapshot
            self._engines.pop(engine_id, None)
            return
        holdings = self.get_engine_state(engine_id)
        holdings.set_serving_model(champion)
        if champion is not None and champion.completions is not None:
            self.completions.adopt(champion.completions, self.overlay.catalog)
        if champion is not None and champion.search is not None:
            self.overlay.texts.bind_rows(champion.search)
        if now_ms:
            holdings.get_item_priors(now_ms)

    def is_light(self, query: UserQuery) -> bool:
        """Tell whether answering takes about a millisecond at most, so that no thread is worth its hop."""
        catalog = self.overlay.catalog
        if (
            query.kind in _SHOWING
            and max(query.rows, len(query.anchors)) * (len(query.fields) + 1) > _MUCH_TO_SHOW
        ):
            return False
        if query.kind == "autocomplete":
            return len(query.completion_fields) <= _FEW_SOURCES and all(
                name in QUERY_SOURCES
                or self.completions.has_field((canonical(name), query.language, query.only_language))
                for name in query.completion_fields
            )
        if query.kind == "question_answering":
            return False
        if query.kind == "search":
            return catalog.products <= _FEW_TO_SEARCH and (query.search is None or query.search.is_plain)
        if catalog.products <= _FEW_PRODUCTS or query.kind == "mget":
            return True
        if catalog.products > _MANY_PRODUCTS or self.get_engine_state(query.engine_id).serving_model is None:
            return False
        return catalog.columns.has_columns(list_columns(query))

    def plan_rebuild(self, now_ms: int) -> tuple[FieldIndex, Callable[[], RowTextIndex]] | None:
        """Give the work of building an index of completions again that has changed much, for another thread."""
        return (
            self.overlay.popular_queries.plan_rebuild(now_ms)
            or self.overlay.logged_queries.popular.plan_rebuild(now_ms)
            or self.completions.plan_rebuild(
                lambda: self.default_engine_state.get_item_priors(now_ms).relative_popularity
            )
        )

    def apply(self, *changes: ChangeLogEntry) -> None:
        """Learn changes of the log; one that was applied before does nothing."""
        self.overlay.apply(*changes)

    def apply_in_steps(self, changes: Iterable[ChangeLogEntry]) -> Iterator[None]:
        """Learn changes in steps of about a millisecond."""
        return self.overlay.apply_in_steps(changes)
