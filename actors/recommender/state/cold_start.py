"""Cold-start products: each inherits scores from similar products until it has enough votes.

Source: docs/concepts/scoring.md, equations 6 and 12

If a snapshot has content weights (`actors.models.content`), these score cold-start products for a user, and the
products inherit no personal scores.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.models.features import build_feature_matrix, features_from_product
from actors.recommender.state.global_signals import GlobalSignals
from actors.recommender.state.overlay import Overlay
from actors.recommender.state.serving_model import ServingModel
from actors.vectors.types import Mask, Matrix, Rows, Scores, ensure_capacity

ENOUGH_VOTES = 20.0
"A product with at least this many votes is no cold-start product."

_MOST = 2_000
_NEIGHBOURS = 8
_ESTABLISHED = 4_096
_A_REFRESH = 64
_AT_FIRST = 512
"Cold-start products compared at the first refresh of a snapshot. The catalog had them before."
_POWER = 3
_INHERITED = 0.7
_ESTABLISHED_FOR_MS = 600_000


def _no_rows() -> Rows:
    return np.zeros(0, np.int64)


def _no_scores() -> Scores:
    return np.zeros(0, np.float32)


def _no_neighbours() -> Rows:
    return np.zeros((0, _NEIGHBOURS), np.int64)


def _no_weights() -> Matrix:
    return np.zeros((0, _NEIGHBOURS), np.float32)


@dataclass(frozen=True, slots=True)
class ColdStartItems:
    """Cold-start products with their similar products, and the established products with their vectors.

    Established products are the most popular ones that the snapshot has.

    Shapes:
        rows: int64 [k]; neighbours: int64 [k, 8], rows of established products; weights: float32 [k, 8], at most 1
        in sum; established_rows: int64 [e]; established_vectors: float32 [e, d]; slots: int64 [k] and
        neighbour_slots: int64 [k, 8], the positions of `rows` and `neighbours` in score components
    """

    rows: Rows = field(default_factory=_no_rows)
    neighbours: Rows = field(default_factory=_no_neighbours)
    weights: Matrix = field(default_factory=_no_weights)
    established_rows: Rows = field(default_factory=_no_rows)
    established_vectors: Matrix = field(default_factory=_no_weights)
    slots: Rows = field(default_factory=_no_rows)
    neighbour_slots: Rows = field(default_factory=_no_neighbours)
    features: Any = None
    "CSR float32 [k, features of the snapshot]; None when the snapshot has no content weights."
    shares: Scores = field(default_factory=_no_scores)
    "float32 [k], the part of the score that a product inherits: 1 without votes, 0 with `ENOUGH_VOTES`."

    def __len__(self) -> int:
        return len(self.rows)

    def inherit_by_row(self, values: Scores) -> Scores:
        """Return the values that cold-start products inherit, given values by row.

        Shapes:
            values: float32 [n], finite
            returns: float32 [k]
        """
        return self._inherit(values, self.neighbours)

    def inherit_by_slot(self, values: Scores) -> Scores:
        """Return the values that cold-start products inherit, given values by slot.

        Shapes:
            values: float32 [slots]
            returns: float32 [k]
        """
        return self._inherit(values, self.neighbour_slots)

    def _inherit(self, values: Scores, neighbours: Rows) -> Scores:
        inherited: Scores = (values[neighbours] * self.weights).sum(axis=1)
        return inherited


class ColdStartTracker:
    """Finds cold-start products and their similar products, a limited number at each refresh."""

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self.is_complete = True
        "Whether all cold-start products of the last call were compared; if not, the next call continues."
        self._compared: Mask = np.zeros(0, np.bool_)
        self._neighbours: npt.NDArray[np.int32] = np.zeros((0, _NEIGHBOURS), np.int32)
        self._weights: Matrix = np.zeros((0, _NEIGHBOURS), np.float32)
        self._established: Rows = np.zeros(0, np.int64)
        self._established_vectors: Matrix = np.zeros((0, overlay.index.dimensions), np.float32)
        self._chosen_ms = -_ESTABLISHED_FOR_MS
        self._features: dict[int, list[int]] = {}
        self._matrix: tuple[Rows, Any] | None = None

    def get_items(self, signals: GlobalSignals, model: ServingModel) -> ColdStartItems:
        """Return the newest products that the snapshot lacks and that have few votes.

        Cost:
            64 new products: 8 ms with 4,096 established ones; nothing when they are compared already
        """
        if signals.at_ms - self._chosen_ms >= _ESTABLISHED_FOR_MS:
            self._select_established(signals, model)
        alone = ColdStartItems(
            established_rows=self._established, established_vectors=self._established_vectors
        )
        if len(self._established) < _NEIGHBOURS:
            return alone
        count = len(signals)
        votes = self._overlay.votes.get_counts(count)
        new = np.flatnonzero((model.get_items(count) < 0) & signals.offered & (votes < ENOUGH_VOTES))[-_MOST:]
        self._compared = ensure_capacity(self._compared, count, False)
        waiting = new[~self._compared[new]]
        missing = waiting[-(_A_REFRESH if self._compared.any() else _AT_FIRST) :]
        self.is_complete = len(missing) == len(waiting)
        if len(missing):
            self._compare_items(missing, model)
        rows = new[self._compared[new]]
        if not len(rows):
            return alone
        share = (1.0 - votes[rows] / ENOUGH_VOTES).astype(np.float32)
        neighbours, slot_map = self._neighbours[rows].astype(np.int64), model.slot_map
        return ColdStartItems(
            rows,
            neighbours,
            self._weights[rows] * share[:, None],
            self._established,
            self._established_vectors,
            slot_map.slots(rows),
            slot_map.slots(neighbours),
            self._build_features(rows, model),
            share,
        )

    def _build_features(self, rows: Rows, model: ServingModel) -> Any:
        """Return a matrix of the features that the snapshot has; build it once for the same rows."""
        content = model.learned.content
        if content is None:
            return None
        if self._matrix is None or not np.array_equal(self._matrix[0], rows):
            lists = [self._features[row] for row in rows.tolist()]
            self._matrix = rows, build_feature_matrix(lists, content.features)
        return self._matrix[1]

    def _select_established(self, signals: GlobalSignals, model: ServingModel) -> None:
        """Select the most popular products that the snapshot has."""
        self._chosen_ms = signals.at_ms
        learned = np.flatnonzero((model.get_items(len(signals)) >= 0) & signals.offered)
        self._established = learned[
            np.argsort(-signals.relative_popularity[learned], kind="stable")[:_ESTABLISHED]
        ]
        self._established_vectors = self._overlay.index.take(self._established)

    def _compare_items(self, rows: Rows, model: ServingModel) -> None:
        """Find the nearest established products of some new products, and read the features of the new ones."""
        if model.learned.content is not None:
            for row in rows.tolist():
                self._features[row] = features_from_product(self._overlay.catalog.record(row))
        like = np.maximum(self._overlay.index.take(rows) @ self._established_vectors.T, 0.0)
        nearest = np.argpartition(like, like.shape[1] - _NEIGHBOURS, axis=1)[:, -_NEIGHBOURS:]
        weights = np.take_along_axis(like, nearest, axis=1) ** _POWER
        # a product without similar products inherits 0; one that equals all its neighbours inherits most
        weights *= _INHERITED / np.maximum(weights.sum(axis=1, keepdims=True), 1.0)
        count = int(rows.max()) + 1
        self._neighbours, self._weights = (
            ensure_capacity(self._neighbours, count),
            ensure_capacity(self._weights, count),
        )
        self._neighbours[rows], self._weights[rows] = self._established[nearest], weights
        self._compared[rows] = True
