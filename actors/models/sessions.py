"""V-SkNN: session-based nearest neighbours.

The model finds the sessions that share an item with the query and keeps the newest few hundred. It weighs them by the
shared items (later items of the query count more), and sums the items of the nearest hundred. Rare items count more.

Source:
    M. Ludewig, D. Jannach, Evaluation of session-based recommendation algorithms, UMUAI 2018 (V-SkNN)
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from actors.models.model import Batch
from actors.models.user_histories import UserHistories
from actors.models.user_history import UserHistory
from actors.vectors.row_selection import expand_runs
from actors.vectors.snapshot_arrays import ModelState
from actors.vectors.types import Floats, Rows, Scores

_FEW = 2_000
"Up to this number, sessions are sorted; more are marked in an array of all sessions."


@dataclass(frozen=True, slots=True)
class SessionSearchConfig:
    """Limits of the neighbour search."""

    neighbours: int
    "Nearest sessions that count."
    candidates: int
    "Newest sessions with a shared item that are compared."
    idf: float
    "Extra weight of rare items."
    steps: int
    "Number of newest events of the query that count."


@dataclass(frozen=True, slots=True)
class SessionModel:
    """Sessions, newest first, and the sessions of each item.

    Shapes:
        session_starts: int64 [s + 1]; session_items: int32 [m]; item_starts: int64 [n + 1]; item_sessions: int32 [m],
        newest session first; idf: float32 [n]
    """

    session_starts: Rows
    session_items: npt.NDArray[np.int32]
    item_starts: Rows
    item_sessions: npt.NDArray[np.int32]
    idf: npt.NDArray[np.float32]
    looking: SessionSearchConfig

    def score(self, histories: UserHistories) -> Batch:
        """Score every item for every history.

        Shapes:
            returns: float32 [q, n]
        """
        batch: Batch = self.sparse(histories).toarray()
        return batch

    def sparse(self, histories: UserHistories) -> Any:
        """Return the scores of the items in the neighbour sessions of every history.

        Shapes:
            returns: CSR float32 [q, n]
        """
        scored = [
            self.find_neighbour_items(histories.items[first:last], histories.weights[first:last])
            for first, last in pairwise(histories.starts.tolist())
        ]
        lengths = [len(rows) for rows, _ in scored]
        starts = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        rows = np.concatenate([rows for rows, _ in scored]) if scored else np.zeros(0, np.int64)
        shares = np.concatenate([shares for _, shares in scored]) if scored else np.zeros(0)
        scores = sp.csr_matrix((shares, rows, starts), shape=(len(histories), histories.n_items))
        # A session may have an item twice, and several neighbours the same item.
        scores.sum_duplicates()
        return scores.astype(np.float32)

    def quick(self, past: UserHistory) -> tuple[npt.NDArray[np.integer], Scores]:
        """Return the scores of the items in the neighbour sessions of one history.

        Shapes:
            returns: int [m], items, and float32 [m], their scores; scores of repeated items add up
        """
        rows, shares = self.find_neighbour_items(past.items[::-1], past.weights[::-1])
        return rows, shares.astype(np.float32)

    def find_neighbour_items(self, items: Rows, weights: npt.NDArray[np.floating]) -> tuple[Rows, Floats]:
        """Return the items of the neighbours of one session with weights. An item comes once for each neighbour.

        Shapes:
            items: int64 [h], oldest first; weights: float [h]
            returns: int64 [m] and float64 [m]
        Cost:
            0.2 ms
        """
        items = items[(items >= 0) & (weights > 0)][-self.looking.steps :]
        # back(i): the last event of an item overwrites earlier ones (equation 20)
        places = {item: len(items) - 1 - at for at, item in enumerate(items.tolist())}
        if not places:
            return np.zeros(0, np.int64), np.zeros(0)
        sessions, owner = self._candidates(list(places))
        if not len(sessions):
            return np.zeros(0, np.int64), np.zeros(0)
        back = np.fromiter(places.values(), np.int64, len(places))[owner]
        newest, at = self._select_newest(sessions)
        inside = at >= 0
        at = at[inside]
        back = back[inside]
        # sum over shared items of 1 - back(i) / length (equation 20)
        likeness = np.bincount(at, 1.0 - back / len(items), len(newest))
        nearest_shared = np.full(len(newest), self.looking.steps)
        np.minimum.at(nearest_shared, at, back)
        # near(S) = ... * (1 - min back(i) / steps)
        worth = likeness * (1.0 - nearest_shared / self.looking.steps)
        best = np.argsort(-worth, kind="stable")[: self.looking.neighbours]
        best = best[worth[best] > 0]
        return self._read_items(newest[best], worth[best])

    def save(self) -> ModelState:
        """Return the arrays of the index, and the limits as facts."""
        return ModelState(
            {
                "session_starts": self.session_starts,
                "session_items": self.session_items,
                "item_starts": self.item_starts,
                "item_sessions": self.item_sessions,
                "idf": self.idf,
            },
            {"looking": asdict(self.looking)},
        )

    @classmethod
    def load(cls, parts: ModelState) -> SessionModel:
        """Return the model of a saved state."""
        return cls(
            session_starts=parts.array("session_starts"),
            session_items=parts.array("session_items"),
            item_starts=parts.array("item_starts"),
            item_sessions=parts.array("item_sessions"),
            idf=parts.array("idf"),
            looking=SessionSearchConfig(**parts.facts["looking"]),
        )

    def _candidates(self, items: list[int]) -> tuple[Rows, Rows]:
        """Return the newest sessions of each item, and the position of that item."""
        most = self.looking.candidates
        # Newest first, so the cut keeps the newest sessions of each item.
        lists = [
            self.item_sessions[self.item_starts[item] : self.item_starts[item + 1]][:most] for item in items
        ]
        owner = np.repeat(np.arange(len(lists)), [len(sessions) for sessions in lists])
        return np.concatenate(lists).astype(np.int64), owner

    def _select_newest(self, sessions: Rows) -> tuple[Rows, Rows]:
        """Return the newest distinct sessions, and the position of each given session in them, -1 for older ones."""
        count = len(self.session_starts) - 1
        if len(sessions) < _FEW:
            newest, at = np.unique(sessions, return_inverse=True)
            # `unique` sorts, and sessions are numbered from the newest on.
            newest = newest[: self.looking.candidates]
            return newest, np.where(at < len(newest), at, -1)
        # marking is faster than sorting many sessions
        marked = np.zeros(count, np.bool_)
        marked[sessions] = True
        newest = np.flatnonzero(marked)[: self.looking.candidates]
        numbers = np.full(count, -1, np.int64)
        numbers[newest] = np.arange(len(newest))
        return newest, numbers[sessions]

    def _read_items(self, sessions: Rows, worth: Floats) -> tuple[Rows, Floats]:
        first = self.session_starts[sessions]
        lengths = self.session_starts[sessions + 1] - first
        rows = self.session_items[expand_runs(first, lengths)].astype(np.int64)
        # near(S) (1 + idf_weight idf(p)), one entry for each item of each neighbour
        return rows, np.repeat(worth, lengths) * (1.0 + self.looking.idf * self.idf[rows])
