"""V-SkNN: people in a session like this one went on to these items. No training but sorting."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from pydantic import Field

from actors.models.sessions import SessionModel, SessionSearchConfig
from actors.vectors.snapshot_arrays import ModelState
from actors.vectors.types import Rows
from jobs.refresh.data.dataset import Interactions, number_sessions
from jobs.refresh.learners.protocol import PartRecipe


class SessionKnnRecipe(PartRecipe):
    """Parameters of session neighbours."""

    learner: Literal["session_knn"] = "session_knn"
    neighbours: int = Field(default=200, ge=1)
    "Nearest sessions that count."
    candidates: int = Field(default=1_000, ge=1)
    "Newest sessions with a shared item that are compared."
    idf: float = Field(default=0.3, ge=0)
    "How much rare items count above frequent ones."
    steps: int = Field(default=30, ge=1)
    "Only so many of the newest events of the query count."
    sessions: int = Field(default=200_000, ge=1)
    "Newest sessions that are kept."
    longest: int = Field(default=100, ge=1)
    "Newest items of a session that are kept."
    gap_minutes: float | None = Field(default=None, gt=0)
    "A pause of so long ends a session; none: all of a user's events are one."

    @property
    def search_scope(self) -> SessionSearchConfig:
        """How far the model looks."""
        return SessionSearchConfig(self.neighbours, self.candidates, self.idf, self.steps)


@dataclass(frozen=True, slots=True)
class SessionKnnLearner:
    """The learner."""

    recipe: SessionKnnRecipe = field(default_factory=SessionKnnRecipe)

    def train(self, data: Interactions, rng: np.random.Generator) -> SessionModel:
        """Sort sessions by their end and index them by item.

        Cost:
            1,000,000 events: 1 s on one core
        """
        liked = data.pick(data.weight > 0)
        session = number_sessions(liked, self.recipe.gap_minutes)
        count = int(session.max(initial=-1)) + 1
        lengths = np.bincount(session, minlength=count)
        from_end = np.cumsum(lengths)[session] - np.arange(len(session))
        ends = np.zeros(count)
        np.maximum.at(ends, session, liked.at_s)
        newest = np.argsort(-ends, kind="stable")[: self.recipe.sessions]
        rank = np.full(count, -1, np.int64)
        rank[newest] = np.arange(len(newest))
        kept = (rank[session] >= 0) & (from_end <= self.recipe.longest)
        rows, items = rank[session[kept]], liked.item[kept]
        pairs = np.unique(np.stack((rows, items)), axis=1) if len(rows) else np.zeros((2, 0), np.int64)
        by_session = _build_index(pairs[0], pairs[1], len(newest))
        order = np.lexsort((pairs[0], pairs[1]))
        by_item = _build_index(pairs[1][order], pairs[0][order], data.n_items)
        frequency = np.diff(by_item[0])
        idf = np.log(max(len(newest), 1) / np.maximum(frequency, 1)).astype(np.float32)
        return SessionModel(*by_session, *by_item, idf, self.recipe.search_scope)

    def load(self, parts: ModelState) -> SessionModel:
        """Bring the index back."""
        return SessionModel.load(parts)


def _build_index(owner: Rows, values: Rows, count: int) -> tuple[Any, Any]:
    starts = np.searchsorted(owner, np.arange(count + 1)).astype(np.int64)
    return starts, values.astype(np.int32)
