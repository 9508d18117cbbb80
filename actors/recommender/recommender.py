"""The state of the recommender of one app: applies changes and replaces snapshots. No store, clock or threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from actors.language.hashing_embedder import Embedder
from actors.recommender.state.engine_state import BlendWeights, EngineState
from actors.recommender.state.global_signals import GlobalSignalsCache
from actors.recommender.state.live_cohorts import LiveCohorts
from actors.recommender.state.overlay import Overlay
from actors.recommender.state.serving_model import ServingModel
from actors.retrieval.autocomplete.field_index import FieldIndex
from actors.retrieval.autocomplete.field_indexes import FieldIndexes
from actors.retrieval.autocomplete.text_index import RowTextIndex
from cluster.ids import DEFAULT_ENGINE, VERSION_MARK
from cluster.store.data.change_log import ChangeLogEntry

ENGINE_ROW_BYTES = 60
"Priors and signals of one engine: about fifteen arrays of float32 by row."


def text_engine_order(engine_id: str) -> tuple[bool, str]:
    """Return the place of an engine among those whose snapshots may bring the text index: the default one first."""
    return engine_id != DEFAULT_ENGINE, engine_id


class Recommender:
    """One overlay for an app, and one state for each engine. Not safe for several threads at a time."""

    def __init__(self, embedder: Embedder, *, blend: BlendWeights | None = None, refresh_ms: int = 0) -> None:
        self.overlay = Overlay(embedder)
        self._weights = blend
        self._global_signals = GlobalSignalsCache(self.overlay, refresh_ms)
        self._cohorts = LiveCohorts(self.overlay, refresh_ms)
        self.completions = FieldIndexes()
        # Before any load, so completions see every product that the catalog gets.
        self.overlay.catalog.subscribe(self.completions.record)
        self._engines: dict[str, EngineState] = {}
        self.text_engine = ""
        "The engine whose snapshot has the text and completion indexes that serve; empty: this process builds them."

    @property
    def default_engine_state(self) -> EngineState:
        return self.get_engine_state(DEFAULT_ENGINE)

    def get_engine_state(self, engine_id: str) -> EngineState:
        """Return the state of one engine. Engines of an app differ in their snapshots only."""
        state = self._engines.get(engine_id)
        if state is None:
            state = EngineState(
                self.overlay,
                blend=self._weights,
                global_signals=self._global_signals,
                cohorts=self._cohorts,
                completions=self.completions,
            )
            self._engines[engine_id] = state
        return state

    @property
    def nbytes(self) -> int:
        """Return an estimate of the resident memory in bytes: overlay, indexes, logged queries and item priors.

        Two apps of 50,000 products with six words of title and 25 of description, searched and completed, took 480 MiB
        of one process; the estimate is 484 MiB.
        """
        rows = len(self.overlay.catalog)
        parts = self.overlay.nbytes + self.completions.nbytes + self.overlay.logged_queries.popular.nbytes
        return int(parts + len(self._engines) * rows * ENGINE_ROW_BYTES)

    def set_serving_model(self, engine_id: str, model: ServingModel | None, now_ms: int = 0) -> None:
        """Replace the snapshot of an engine; None removes it. With a time, the priors are computed at once."""
        if model is None and engine_id == self.text_engine:
            self.text_engine = ""  # its indexes serve on until another engine or a load brings others
        if model is None and engine_id != DEFAULT_ENGINE:
            # the engine's state beside the overlay ends with its snapshot
            self._engines.pop(engine_id, None)
            return
        state = self.get_engine_state(engine_id)
        state.set_serving_model(model)
        # all engines share one text index: that of the first engine, whatever the order of the adoptions
        if model is not None and VERSION_MARK not in engine_id and self._may_bring_texts(engine_id):
            if model.completions is not None:
                self.completions.adopt(model.completions, self.overlay.catalog)
            if model.search is not None:
                self.overlay.texts.bind_rows(model.search)
                self.text_engine = engine_id
        if now_ms:
            # Now rather than at the first request, which would pay for the priors of the new snapshot.
            state.get_item_priors(now_ms)

    def _may_bring_texts(self, engine_id: str) -> bool:
        return not self.text_engine or text_engine_order(engine_id) <= text_engine_order(self.text_engine)

    def refresh_global_signals(self, now_ms: int) -> None:
        """Compute the signals that engines share from the present state, however old the last ones are."""
        self._global_signals.compute(now_ms)

    def plan_completion_rebuild(self, now_ms: int) -> tuple[FieldIndex, Callable[[], RowTextIndex]] | None:
        """Plan the rebuild of a completion index that has changed much; the work can run in another thread."""
        return (
            self.overlay.popular_queries.plan_rebuild(now_ms)
            or self.overlay.logged_queries.popular.plan_rebuild(now_ms)
            or self.completions.plan_rebuild(
                lambda: self.default_engine_state.get_item_priors(now_ms).popularity_counts
            )
        )

    def apply(self, *changes: ChangeLogEntry) -> None:
        """Apply changes of the log. A change that was applied before has no effect."""
        self.overlay.apply(*changes)

    def apply_in_steps(self, changes: Iterable[ChangeLogEntry]) -> Iterator[None]:
        """Apply changes in steps of about a millisecond."""
        return self.overlay.apply_in_steps(changes)
