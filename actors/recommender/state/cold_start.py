"""Products that nobody dealt with yet: they inherit what is said of products like them, until they have a record.

Source:
    ranking notes, section 5: content neighbours, a small share of attention until about twenty events

Where a snapshot learned which features lead to what readers take (`actors.models.content`), that speaks to a reader
instead of what products like them inherit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.models.features import feature_matrix, features_of
from actors.recommender.state.global_signals import Crowd
from actors.recommender.state.overlay import Overlay
from actors.recommender.state.serving_model import Champion
from actors.vectors.types import Mask, Matrix, Rows, Scores, room_for

ENOUGH_VOTES = 20.0
"A product with so many votes stands for itself."

_MOST = 2_000
_KIN = 8
_ELDERS = 4_096
_A_REFRESH = 64
_AT_FIRST = 512
"So many are met with the first refresh of a snapshot: they were there before it."
_POWER = 3
_INHERITED = 0.7
_ELDERS_FOR_MS = 600_000


def _no_rows() -> Rows:
    return np.zeros(0, np.int64)


def _no_scores() -> Scores:
    return np.zeros(0, np.float32)


def _no_kin() -> Rows:
    return np.zeros((0, _KIN), np.int64)


def _no_weights() -> Matrix:
    return np.zeros((0, _KIN), np.float32)


@dataclass(frozen=True, slots=True)
class Kin:
    """New products and what they are like; and the known products that many deal with, with their vectors.

    Shapes:
        rows: int64 [k]; kin: int64 [k, 8], rows of known products; weights: float32 [k, 8], at most 1 in sum;
        elders: int64 [e]; vectors: float32 [e, d]; slots: int64 [k] and kin_slots: int64 [k, 8], the same products
        where they stand in what the parts of a score say
    """

    rows: Rows = field(default_factory=_no_rows)
    kin: Rows = field(default_factory=_no_kin)
    weights: Matrix = field(default_factory=_no_weights)
    elders: Rows = field(default_factory=_no_rows)
    vectors: Matrix = field(default_factory=_no_weights)
    slots: Rows = field(default_factory=_no_rows)
    kin_slots: Rows = field(default_factory=_no_kin)
    features: Any = None
    "CSR float32 [k, features of the snapshot]; None when it learned nothing from what products are like."
    shares: Scores = field(default_factory=_no_scores)
    "float32 [k], how far a product is from standing for itself: 1 without votes."

    def __len__(self) -> int:
        return len(self.rows)

    def inherited(self, values: Scores) -> Scores:
        """Give what new products inherit of values by row.

        Shapes:
            values: float32 [n], finite
            returns: float32 [k]
        """
        return self._inherited(values, self.kin)

    def inherited_own(self, values: Scores) -> Scores:
        """Give the same of values by slot.

        Shapes:
            values: float32 [slots]
            returns: float32 [k]
        """
        return self._inherited(values, self.kin_slots)

    def _inherited(self, values: Scores, kin: Rows) -> Scores:
        found: Scores = (values[kin] * self.weights).sum(axis=1)
        return found


class Newcomers:
    """Finds new products and their kin, some with every refresh."""

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self._met: Mask = np.zeros(0, np.bool_)
        self._kin: npt.NDArray[np.int32] = np.zeros((0, _KIN), np.int32)
        self._weights: Matrix = np.zeros((0, _KIN), np.float32)
        self._elders: Rows = np.zeros(0, np.int64)
        self._vectors: Matrix = np.zeros((0, overlay.index.dimensions), np.float32)
        self._chosen_ms = -_ELDERS_FOR_MS
        self._features: dict[int, list[int]] = {}
        self._matrix: tuple[Rows, Any] | None = None

    def among(self, crowd: Crowd, champion: Champion) -> Kin:
        """List the newest of the products that the snapshot does not know and few dealt with.

        Cost:
            64 new products: 8 ms with 4,096 known ones, later nothing
        """
        if crowd.at_ms - self._chosen_ms >= _ELDERS_FOR_MS:
            self._choose(crowd, champion)
        alone = Kin(elders=self._elders, vectors=self._vectors)
        if len(self._elders) < _KIN:
            return alone
        count = len(crowd)
        votes = self._overlay.votes.of(count)
        new = np.flatnonzero((champion.items_of(count) < 0) & crowd.offered & (votes < ENOUGH_VOTES))[-_MOST:]
        self._met = room_for(self._met, count, False)
        missing = new[~self._met[new]][-(_A_REFRESH if self._met.any() else _AT_FIRST) :]
        if len(missing):
            self._meet(missing, champion)
        rows = new[self._met[new]]
        if not len(rows):
            return alone
        share = (1.0 - votes[rows] / ENOUGH_VOTES).astype(np.float32)
        kin, layout = self._kin[rows].astype(np.int64), champion.layout
        return Kin(
            rows,
            kin,
            self._weights[rows] * share[:, None],
            self._elders,
            self._vectors,
            layout.slots(rows),
            layout.slots(kin),
            self._described(rows, champion),
            share,
        )

    def _described(self, rows: Rows, champion: Champion) -> Any:
        """Mark the features of new products, as far as the snapshot knows them; the same rows are marked once."""
        content = champion.learned.content
        if content is None:
            return None
        if self._matrix is None or not np.array_equal(self._matrix[0], rows):
            lists = [self._features[row] for row in rows.tolist()]
            self._matrix = rows, feature_matrix(lists, content.features)
        return self._matrix[1]

    def _choose(self, crowd: Crowd, champion: Champion) -> None:
        """Choose the known products that many deal with."""
        self._chosen_ms = crowd.at_ms
        known = np.flatnonzero((champion.items_of(len(crowd)) >= 0) & crowd.offered)
        self._elders = known[np.argsort(-crowd.popular[known], kind="stable")[:_ELDERS]]
        self._vectors = self._overlay.index.take(self._elders)

    def _meet(self, rows: Rows, champion: Champion) -> None:
        """Compare some new products with the known ones, and read what they are like."""
        if champion.learned.content is not None:
            for row in rows.tolist():
                self._features[row] = features_of(self._overlay.catalog.record(row))
        like = np.maximum(self._overlay.index.take(rows) @ self._vectors.T, 0.0)
        nearest = np.argpartition(like, like.shape[1] - _KIN, axis=1)[:, -_KIN:]
        weights = np.take_along_axis(like, nearest, axis=1) ** _POWER
        # what is like nothing inherits nothing; what is the same as all its kin inherits most
        weights *= _INHERITED / np.maximum(weights.sum(axis=1, keepdims=True), 1.0)
        count = int(rows.max()) + 1
        self._kin, self._weights = room_for(self._kin, count), room_for(self._weights, count)
        self._kin[rows], self._weights[rows] = self._elders[nearest], weights
        self._met[rows] = True
