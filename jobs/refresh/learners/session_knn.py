"""V-SkNN: recommends items of the most similar past sessions. The training only sorts and indexes sessions."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import Field

from actors.models.sessions import SessionModel, SessionSearchConfig
from actors.vectors.row_selection import distinct_pairs
from actors.vectors.types import Rows
from jobs.refresh.data.dataset import Interactions, sessionize_events
from jobs.refresh.learners.protocol import BuiltInLearner, PartRecipe


class SessionKnnRecipe(PartRecipe):
    """Parameters of session neighbours."""

    learner: Literal["session_knn"] = "session_knn"
    neighbours: int = Field(default=200, ge=1)
    "Number of nearest sessions that are used."
    candidates: int = Field(default=1_000, ge=1)
    "Number of newest sessions with a common item that are compared."
    idf: float = Field(default=0.3, ge=0)
    "Weight of the inverse document frequency of items."
    steps: int = Field(default=30, ge=1)
    "Number of newest events of the query that are used."
    sessions: int = Field(default=200_000, ge=1)
    "Number of newest sessions in the model."
    longest: int = Field(default=100, ge=1)
    "Number of newest items kept per session."
    gap_minutes: float | None = Field(default=None, gt=0)
    "Pause that ends a session; None: all events of a user form one session."

    @property
    def search_scope(self) -> SessionSearchConfig:
        """Return the limits of the session search."""
        return SessionSearchConfig(self.neighbours, self.candidates, self.idf, self.steps)


class SessionKnnLearner(BuiltInLearner[SessionKnnRecipe]):
    """Learner of session neighbours."""

    def train(self, data: Interactions, rng: np.random.Generator) -> SessionModel:
        """Sort sessions by their end, index them by item and return the model.

        Cost:
            1,000,000 events: 1 s on one core
        """
        liked = data.pick(data.weight > 0)
        session = sessionize_events(liked, self.recipe.gap_minutes)
        count = int(session.max(initial=-1)) + 1
        lengths = np.bincount(session, minlength=count)
        # 1 for the newest event of a session: events are sorted by session, and by time within it.
        from_end = np.cumsum(lengths)[session] - np.arange(len(session))
        ends = np.zeros(count)
        np.maximum.at(ends, session, liked.at_s)
        # Sessions get numbers from the newest on, which the search relies on.
        newest = np.argsort(-ends, kind="stable")[: self.recipe.sessions]
        rank = np.full(count, -1, np.int64)
        rank[newest] = np.arange(len(newest))
        kept = (rank[session] >= 0) & (from_end <= self.recipe.longest)
        rows = rank[session[kept]]
        items = liked.item[kept]
        rows, items = distinct_pairs(rows, items)
        by_session = _build_index(rows, items, len(newest))
        # stable, so the sessions of an item stay in order
        order = np.argsort(items, kind="stable")
        by_item = _build_index(items[order], rows[order], data.n_items)
        frequency = np.diff(by_item[0])
        # At least 1: an item that no kept session has would divide by 0.
        idf = np.log(max(len(newest), 1) / np.maximum(frequency, 1)).astype(np.float32)
        return SessionModel(*by_session, *by_item, idf, self.recipe.search_scope)


def _build_index(owner: Rows, values: Rows, count: int) -> tuple[Any, Any]:
    starts = np.searchsorted(owner, np.arange(count + 1)).astype(np.int64)
    return starts, values.astype(np.int32)
