"""V-SkNN: people in a session like this one went on to these items. No training but sorting.

A query looks up the sessions that share an item with it, keeps the newest few hundred, weighs them by what they share
(later items of the query count more), and adds up the items of the nearest hundred, rare ones a little more.

Source:
    M. Ludewig, D. Jannach, Evaluation of session-based recommendation algorithms, UMUAI 2018 (V-SkNN)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from pydantic import Field

from actors.vectors.types import Floats, Rows
from jobs.refresh.dataset import Interactions
from jobs.refresh.histories import Histories, spread
from jobs.refresh.learner import Batch, PartRecipe, Parts


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
    "A pause of so long ends a session; none: all of a reader's events are one."


@dataclass(frozen=True, slots=True)
class SessionKnn:
    """The learner."""

    recipe: SessionKnnRecipe = field(default_factory=SessionKnnRecipe)

    def train(self, data: Interactions, rng: np.random.Generator) -> Sessions:
        """Sort sessions by their end and index them by item.

        Cost:
            1,000,000 events: 1 s on one core
        """
        liked = data.pick(data.weight > 0)
        session = sessions_of(liked, self.recipe.gap_minutes)
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
        by_session = _indexed(pairs[0], pairs[1], len(newest))
        order = np.lexsort((pairs[0], pairs[1]))
        by_item = _indexed(pairs[1][order], pairs[0][order], data.n_items)
        frequency = np.diff(by_item[0])
        idf = np.log(max(len(newest), 1) / np.maximum(frequency, 1)).astype(np.float32)
        return Sessions(*by_session, *by_item, idf, self.recipe)

    def load(self, parts: Parts) -> Sessions:
        """Bring the index back."""
        return Sessions(
            session_starts=parts.array("session_starts"),
            session_items=parts.array("session_items"),
            item_starts=parts.array("item_starts"),
            item_sessions=parts.array("item_sessions"),
            idf=parts.array("idf"),
            recipe=SessionKnnRecipe(**parts.facts["recipe"]),
        )


@dataclass(frozen=True, slots=True)
class Sessions:
    """The model: sessions newest first, and where each item occurs.

    Shapes:
        session_starts: int64 [s + 1]; session_items: int32 [m]; item_starts: int64 [n + 1]; item_sessions: int32 [m],
        newest session first; idf: float32 [n]
    """

    session_starts: Rows
    session_items: npt.NDArray[np.int32]
    item_starts: Rows
    item_sessions: npt.NDArray[np.int32]
    idf: npt.NDArray[np.float32]
    recipe: SessionKnnRecipe

    def score(self, histories: Histories) -> Batch:
        """Score every item for every history.

        Shapes:
            returns: float32 [q, n]
        """
        batch: Batch = self.sparse(histories).toarray()
        return batch

    def sparse(self, histories: Histories) -> Any:
        """Score what the neighbours of every history hold.

        Shapes:
            returns: CSR float32 [q, n]
        """
        found = [
            self.near(histories.items[first:last], histories.weights[first:last])
            for first, last in pairwise(histories.starts.tolist())
        ]
        lengths = [len(rows) for rows, _ in found]
        starts = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        rows = np.concatenate([rows for rows, _ in found]) if found else np.zeros(0, np.int64)
        shares = np.concatenate([shares for _, shares in found]) if found else np.zeros(0)
        scores = sp.csr_matrix((shares, rows, starts), shape=(len(histories), histories.n_items))
        scores.sum_duplicates()
        return scores.astype(np.float32)

    def near(self, items: Rows, weights: npt.NDArray[np.float32]) -> tuple[Rows, Floats]:
        """Find what the neighbours of one session hold; an item comes once per neighbour.

        Shapes:
            items: int64 [h], oldest first; weights: float32 [h]
            returns: int64 [m] and float64 [m]
        Cost:
            0.2 ms
        """
        items = items[(items >= 0) & (weights > 0)][-self.recipe.steps :]
        places = {item: len(items) - 1 - at for at, item in enumerate(items.tolist())}
        if not places:
            return np.zeros(0, np.int64), np.zeros(0)
        found, owner = self._candidates(list(places))
        if not len(found):
            return np.zeros(0, np.int64), np.zeros(0)
        back = np.fromiter(places.values(), np.int64, len(places))[owner]
        newest = np.unique(found)[: self.recipe.candidates]
        at = np.searchsorted(newest, found)
        inside = at < len(newest)
        at, back = at[inside], back[inside]
        likeness = np.bincount(at, 1.0 - back / len(items), len(newest))
        nearest_shared = np.full(len(newest), self.recipe.steps)
        np.minimum.at(nearest_shared, at, back)
        worth = likeness * (1.0 - nearest_shared / self.recipe.steps)
        best = np.argsort(-worth, kind="stable")[: self.recipe.neighbours]
        best = best[worth[best] > 0]
        return self._items_of(newest[best], worth[best])

    def save(self) -> Parts:
        """Give the index."""
        return Parts(
            {
                "session_starts": self.session_starts,
                "session_items": self.session_items,
                "item_starts": self.item_starts,
                "item_sessions": self.item_sessions,
                "idf": self.idf,
            },
            {"recipe": self.recipe.model_dump()},
        )

    def _candidates(self, items: list[int]) -> tuple[Rows, Rows]:
        """List the newest sessions of each item, and which item it was."""
        most = self.recipe.candidates
        lists = [
            self.item_sessions[self.item_starts[item] : self.item_starts[item + 1]][:most] for item in items
        ]
        owner = np.repeat(np.arange(len(lists)), [len(sessions) for sessions in lists])
        return np.concatenate(lists).astype(np.int64), owner

    def _items_of(self, sessions: Rows, worth: Floats) -> tuple[Rows, Floats]:
        first = self.session_starts[sessions]
        lengths = self.session_starts[sessions + 1] - first
        rows = self.session_items[spread(first, lengths)].astype(np.int64)
        return rows, np.repeat(worth, lengths) * (1.0 + self.recipe.idf * self.idf[rows])


def sessions_of(data: Interactions, gap_minutes: float | None) -> Rows:
    """Number the sessions of ordered events: a new one for each reader and after each long pause.

    Shapes:
        returns: int64 [m], ascending from 0
    """
    breaks = np.zeros(len(data), np.bool_)
    breaks[1:] = data.reader[1:] != data.reader[:-1]
    if gap_minutes is not None and data.clock:
        breaks[1:] |= data.at_s[1:] - data.at_s[:-1] > 60.0 * gap_minutes
    numbers: Rows = np.cumsum(breaks).astype(np.int64)
    return numbers


def _indexed(owner: Rows, values: Rows, count: int) -> tuple[Any, Any]:
    starts = np.searchsorted(owner, np.arange(count + 1)).astype(np.int64)
    return starts, values.astype(np.int32)
