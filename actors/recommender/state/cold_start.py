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
# Products compared with each new one: the size of the matrix product, and the cost of a refresh.
_ESTABLISHED = 4_096
# So few at a time, because a request may wait for the refresh: 64 take 8 ms.
_A_REFRESH = 64
_AT_FIRST = 512
"Cold-start products compared at the first refresh of a snapshot. The catalog had them before."
_POWER = 3
_INHERITED = 0.7
_ROUNDING = 1e-5
"Two products of the same vectors differ by less, whatever else is multiplied with them."


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

    Established products are the ones in stock that have most votes in the snapshot.

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
    """Finds cold-start products and their similar products, a limited number at each refresh.

    Once all are compared, the result depends on the snapshot and on the present catalog alone, not on the moments of
    earlier refreshes: a change of a product leads to new comparisons of all products that it concerns.
    """

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self.is_complete = True
        "Whether all cold-start products of the last call were compared; if not, the next call continues."
        self._compared: Mask = np.zeros(0, np.bool_)
        "Rows that were compared once."
        self._stale: Mask = np.zeros(0, np.bool_)
        "Rows whose similar products may be others now."
        self._neighbours: npt.NDArray[np.int32] = np.zeros((0, _NEIGHBOURS), np.int32)
        self._weights: Matrix = np.zeros((0, _NEIGHBOURS), np.float32)
        self._least: Scores = np.zeros(0, np.float32)
        "Similarity of each compared row to the last of its similar products."
        self._learned: Rows = np.zeros(0, np.int64)
        "Rows that the snapshot has, those with most votes first."
        self._learned_of = 0
        self._established: Rows = np.zeros(0, np.int64)
        self._established_vectors: Matrix = np.zeros((0, overlay.index.dimensions), np.float32)
        self._seen_version = -1
        "Version of the catalog whose changes were taken into account."
        self._features: dict[int, list[int]] = {}
        self._matrix: tuple[Rows, Any] | None = None

    def get_items(self, signals: GlobalSignals, model: ServingModel) -> ColdStartItems:
        """Return the newest products that the snapshot lacks and that have few votes.

        Cost:
            64 new products: 8 ms with 4,096 established ones; nothing when they are compared already
        """
        count = len(signals)
        votes = signals.votes
        # Rows grow with the order of arrival, so the last ones are the newest.
        new = np.flatnonzero((model.get_items(count) < 0) & signals.offered & (votes < ENOUGH_VOTES))[-_MOST:]
        self._follow_catalog(signals, model, new)
        alone = ColdStartItems(
            established_rows=self._established, established_vectors=self._established_vectors
        )
        if len(self._established) < _NEIGHBOURS:
            return alone
        waiting = new[~self._compared[new] | self._stale[new]]
        missing = waiting[-(_A_REFRESH if self._compared.any() else _AT_FIRST) :]
        self.is_complete = len(missing) == len(waiting)
        if len(missing):
            self._compare_items(missing, model)
        rows = new[self._compared[new]]
        if not len(rows):
            return alone
        # 1 - votes(p) / V (equations 6 and 12)
        share = (1.0 - votes[rows] / ENOUGH_VOTES).astype(np.float32)
        neighbours = self._neighbours[rows].astype(np.int64)
        slot_map = model.slot_map
        return ColdStartItems(
            rows,
            neighbours,
            self._weights[rows] * share[:, None],
            self._established,
            self._established_vectors,
            slot_map.slots_from_rows(rows),
            slot_map.slots_from_rows(neighbours),
            self._build_features(rows, model),
            share,
        )

    def _build_features(self, rows: Rows, model: ServingModel) -> Any:
        """Return a matrix of the features that the snapshot has; build it once for the same rows."""
        content = model.learned.content
        if content is None:
            return None
        # The rows change at a refresh only, so the matrix is built once between two of them.
        if self._matrix is None or not np.array_equal(self._matrix[0], rows):
            lists = [self._features[row] for row in rows.tolist()]
            self._matrix = rows, build_feature_matrix(lists, content.features)
        return self._matrix[1]

    def _follow_catalog(self, signals: GlobalSignals, model: ServingModel, new: Rows) -> None:
        """Select the established products of the present catalog, and mark what has to be compared again."""
        version = signals.versions[0]
        count = len(signals)
        added = model.get_items(count)[self._learned_of :]
        if version == self._seen_version and not len(added):
            return
        changed = self._overlay.catalog.list_changed(self._seen_version)
        self._seen_version = version
        self._learned_of = count
        self._compared = ensure_capacity(self._compared, count, False)
        self._stale = ensure_capacity(self._stale, count, False)
        self._stale[changed[changed < count]] = True
        if (added >= 0).any():
            self._learned = _order_learned(model, count)
        self._select_established(signals, new)

    def _select_established(self, signals: GlobalSignals, new: Rows) -> None:
        """Select the products in stock with most votes in the snapshot, and mark the new products that it concerns."""
        before = self._established
        vectors_before = self._established_vectors
        after = self._learned[signals.offered[self._learned]][:_ESTABLISHED]
        vectors = self._overlay.index.take(after)
        if np.array_equal(after, before) and np.array_equal(vectors, vectors_before):
            return
        self._established = after
        self._established_vectors = vectors
        places = np.full(len(self._compared), -1, np.int64)
        places[before] = np.arange(len(before))
        stays = places[after] >= 0
        # An established product with a new text has another vector, so it counts as left and come again.
        stays[stays] = (vectors[stays] == vectors_before[places[after[stays]]]).all(axis=1)
        differs = np.zeros(len(self._compared), np.bool_)
        differs[before] = True
        differs[after] = ~stays
        compared = new[self._compared[new] & ~self._stale[new]]
        # a similar product left or changed, or another one is as similar as the last of them
        is_stale = differs[self._neighbours[compared]].any(axis=1)
        like = self._overlay.index.take(compared) @ vectors[~stays].T
        # Rounding of a product depends on the shape of the matrix, so near ties are compared again.
        is_stale |= like.max(axis=1, initial=0.0) >= self._least[compared] - _ROUNDING
        # Rows that are no newcomers now may become so later, after changes that nobody followed for them.
        self._stale[:] = True
        self._stale[compared[~is_stale]] = False

    def _compare_items(self, rows: Rows, model: ServingModel) -> None:
        """Find the nearest established products of some new products, and read the features of the new ones."""
        if model.learned.content is not None:
            self._matrix = None
            for row in rows.tolist():
                self._features[row] = features_from_product(self._overlay.catalog.record(row))
        like = np.maximum(self._overlay.index.take(rows) @ self._established_vectors.T, 0.0)
        # Shapes: like [k, established]; nearest and weights [k, 8]
        nearest = np.argpartition(like, like.shape[1] - _NEIGHBOURS, axis=1)[:, -_NEIGHBOURS:]
        weights = np.take_along_axis(like, nearest, axis=1)
        least = weights.min(axis=1)
        weights **= _POWER
        # a product without similar products inherits 0; one that equals all its neighbours inherits most
        # kappa = c_inherit like^g / max(sum like^g, 1) (equation 6)
        weights *= _INHERITED / np.maximum(weights.sum(axis=1, keepdims=True), 1.0)
        count = int(rows.max()) + 1
        self._neighbours = ensure_capacity(self._neighbours, count)
        self._weights = ensure_capacity(self._weights, count)
        self._least = ensure_capacity(self._least, count)
        self._neighbours[rows] = self._established[nearest]
        self._weights[rows] = weights
        self._least[rows] = least
        self._compared[rows] = True
        self._stale[rows] = False


def _order_learned(model: ServingModel, count: int) -> Rows:
    """Return the rows that the snapshot has, those with most votes in its training first.

    Shapes:
        returns: int64 [m]
    """
    items = model.get_items(count)
    learned = np.flatnonzero(items >= 0)
    # equals by item, because each replica has rows in an order of its own
    # `lexsort` sorts by its last key first: votes, then items.
    order: Rows = learned[np.lexsort((items[learned], -model.get_learned_votes(count)[learned]))]
    return order
