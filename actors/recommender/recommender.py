"""One app's recommender: answers queries, learns from changes. Plain: no store, no clock, no threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from actors.language.embedder import Embedder
from actors.recommender import group_pipeline, pipeline
from actors.recommender.field_warnings import warn_of_fields
from actors.recommender.messages import QUERIES, Kind, ReaderQuery, RecommendationResult
from actors.recommender.ranking.query_context import Request
from actors.recommender.ranking.user_profile import unpack
from actors.recommender.state.catalog import ATTRIBUTE
from actors.recommender.state.engine_state import Blend, Holdings
from actors.recommender.state.global_signals import Crowds
from actors.recommender.state.live_cohorts import LiveCohorts
from actors.recommender.state.overlay import Overlay
from actors.recommender.state.serving_model import Champion
from actors.retrieval.autocomplete.field_index import FieldTexts
from actors.retrieval.autocomplete.field_indexes import Completions
from actors.retrieval.autocomplete.text_index import Laid
from actors.search import completions, passage_answers, search_pipeline
from cluster.ids import DEFAULT_ENGINE
from cluster.query.columnar.column_source import Key
from cluster.query.columnar.column_store import keys_of
from cluster.query.language.field_values import canonical
from cluster.store.ports.stores import Change

_FEW_PRODUCTS = 20_000
_MANY_PRODUCTS = 300_000
_FEW_TO_SEARCH = 5_000
_FEW_SOURCES = 3
_MUCH_TO_SHOW = 500
"Products times fields."
_SHOWING = frozenset({"autocomplete", "search", "mget"})

Answer = Callable[[Request], RecommendationResult]

ANSWERS: Mapping[Kind, Answer] = {
    "user_to_products": pipeline.products,
    "user_to_trending": pipeline.trending,
    "product_to_products": pipeline.similar,
    "user_to_history": pipeline.history,
    "user_to_categories": group_pipeline.categories,
    "user_to_attributes": group_pipeline.attributes,
    "autocomplete": completions.complete,
    "search": search_pipeline.search,
    "mget": search_pipeline.several,
    "question_answering": passage_answers.answer,
}


def columns_of(query: ReaderQuery) -> list[Key]:
    """Name the columns that a query asks by its filters, boosts, circles and grouping."""
    nodes = [rule.filter for rule in (*query.boosts, *query.removed)]
    nodes += [query.filter] if query.filter is not None else []
    keys = [key for node in nodes for key in keys_of(node)]
    keys += [("points", circle.field) for circle in (*query.circles, *query.boost_circles)]
    return [*keys, (ATTRIBUTE, query.field_name)] if query.field_name else keys


class Recommender:
    """Everything one app's engines know: one overlay, and for each engine its holdings. One thread at a time."""

    def __init__(self, embedder: Embedder, *, blend: Blend | None = None, refresh_ms: int = 0) -> None:
        self.overlay = Overlay(embedder)
        self._blend = blend
        self._crowds = Crowds(self.overlay, refresh_ms)
        self._cohorts = LiveCohorts(self.overlay, refresh_ms)
        self.completions = Completions()
        self.overlay.catalog.watch(self.completions.note)
        self._engines: dict[str, Holdings] = {}

    @property
    def holdings(self) -> Holdings:
        """What the default engine knows."""
        return self.of(DEFAULT_ENGINE)

    def of(self, engine_id: str) -> Holdings:
        """Give what one engine knows; engines of an app differ in their snapshots only."""
        holdings = self._engines.get(engine_id)
        if holdings is None:
            holdings = Holdings(
                self.overlay,
                blend=self._blend,
                crowds=self._crowds,
                cohorts=self._cohorts,
                completions=self.completions,
            )
            self._engines[engine_id] = holdings
        return holdings

    def answer(
        self, query: ReaderQuery, recent: Sequence[bytes], shown: Sequence[str], now_ms: int
    ) -> RecommendationResult:
        """Answer one query.

        `recent` is the reader's recent list (packed, newest first), `shown` what earlier pages of the query's
        `pagination_id` returned.

        Cost:
            user_to_products, 10 rows: see benchmarks/recommender_inprocess.py
        """
        holdings = self.of(query.engine_id)
        request = Request(
            query=query,
            did=unpack(recent, query.simulated),
            shown=list(shown),
            holdings=holdings,
            standing=holdings.standing(now_ms),
            now_ms=now_ms,
        )
        result = ANSWERS[query.kind](request)
        warnings = warn_of_fields(query, holdings.catalog)
        return replace(result, warnings=warnings) if warnings else result

    def at_any_cost(self, thought: Callable[[], RecommendationResult]) -> RecommendationResult:
        """Have an answer thought however many records must be read for its columns."""
        with self.overlay.catalog.columns.at_any_cost():
            return thought()

    def adopt(self, engine_id: str, champion: Champion | None, now_ms: int = 0) -> None:
        """Let another snapshot serve an engine, or none; with a time the next answer finds everything ready."""
        if champion is None and engine_id != DEFAULT_ENGINE:
            # what it knew beside the overlay goes with its snapshot
            self._engines.pop(engine_id, None)
            return
        holdings = self.of(engine_id)
        holdings.adopt(champion)
        if champion is not None and champion.completions is not None:
            self.completions.adopt(champion.completions, self.overlay.catalog)
        if champion is not None and champion.search is not None:
            self.overlay.texts.lay(champion.search)
        if now_ms:
            holdings.standing(now_ms)

    def is_light(self, query: ReaderQuery) -> bool:
        """Tell whether answering takes about a millisecond at most, so that no thread is worth its hop."""
        catalog = self.overlay.catalog
        if (
            query.kind in _SHOWING
            and max(query.rows, len(query.anchors)) * (len(query.fields) + 1) > _MUCH_TO_SHOW
        ):
            return False
        if query.kind == "autocomplete":
            return len(query.completion_fields) <= _FEW_SOURCES and all(
                name in QUERIES
                or self.completions.knows((canonical(name), query.language, query.only_language))
                for name in query.completion_fields
            )
        if query.kind == "question_answering":
            return False
        if query.kind == "search":
            return catalog.products <= _FEW_TO_SEARCH and (query.search is None or query.search.is_plain)
        if catalog.products <= _FEW_PRODUCTS or query.kind == "mget":
            return True
        if catalog.products > _MANY_PRODUCTS or self.of(query.engine_id).champion is None:
            return False
        return catalog.columns.are_ready(columns_of(query))

    def rebuilding(self, now_ms: int) -> tuple[FieldTexts, Callable[[], Laid]] | None:
        """Give the work of building an index of completions again that has changed much, for another thread."""
        return (
            self.overlay.asked.rebuilding(now_ms)
            or self.overlay.logged.popular.rebuilding(now_ms)
            or self.completions.rebuilding(lambda: self.holdings.standing(now_ms).popular)
        )

    def apply(self, *changes: Change) -> None:
        """Learn changes of the log; one that was applied before does nothing."""
        self.overlay.apply(*changes)

    def steps(self, changes: Iterable[Change]) -> Iterator[None]:
        """Learn changes in steps of about a millisecond."""
        return self.overlay.steps(changes)
