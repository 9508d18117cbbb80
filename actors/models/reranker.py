"""The learned re-ranker: trees that add to the scores of the best products of a list.

`build_rows` makes the rows of the trees for the training and for each request, so both see the same columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from actors.models.tree_ensemble import TreeArrays, TreeEnsemble
from actors.models.user_histories import DAY_S
from actors.models.user_history import UserHistory
from actors.vectors.snapshot_arrays import ModelState
from actors.vectors.types import Floats, Rows, Scores

NEWEST_EVENTS = 200
"Number of newest events of a history that count."
_MOST_SEEN = 5
OTHER_COLUMNS = 6
"Columns of a row beside the parts."


@dataclass(frozen=True, slots=True)
class ProductFacts:
    """What the re-ranker knows of each item of a snapshot.

    Shapes:
        events: float32 [n], ln(1 + events); first_s: float64 [n], time of the first event in seconds, NaN without any
    """

    events: Scores
    first_s: Floats

    @classmethod
    def count(cls, items: Rows, at_s: Floats, n_items: int) -> ProductFacts:
        """Return the facts from events.

        Shapes:
            items: int64 [m]; at_s: float64 [m]
        """
        first_s = np.full(n_items, np.inf)
        np.minimum.at(first_s, items, at_s)
        # NaN is the trees' value for "unknown"; infinity would be an age.
        first_s[np.isinf(first_s)] = np.nan
        events = np.log1p(np.bincount(items, minlength=n_items))
        return cls(events.astype(np.float32), first_s)


@dataclass(frozen=True, slots=True)
class Reranker:
    """Trees, and the columns of their rows.

    Shapes:
        parts: names of p components of the blend, in the order of their columns
    """

    trees: TreeEnsemble
    parts: tuple[str, ...]
    products: ProductFacts
    candidates: int
    "Number of best products of a list that the trees may move."

    def score(self, past: UserHistory, items: Rows, scores: Scores | Floats, part_scores: Floats) -> Scores:
        """Return what the trees add to the scores of the candidates; the least addend is 0.

        So no candidate falls behind the products after the candidates.

        Shapes:
            items: int64 [m], -1 for products that the snapshot lacks; scores: float [m]; part_scores: float64 [m, p]
            returns: float32 [m]
        Cost:
            200 candidates, 60 trees: 0.3 ms
        """
        if not len(items):
            return np.zeros(0, np.float32)
        gains = self.trees.predict(build_rows(self.products, past, items, scores, part_scores))
        # - min F: the least gain is 0, so no candidate falls behind the others (equation 32)
        gains -= gains.min()
        added: Scores = gains.astype(np.float32)
        return added

    def save(self) -> ModelState:
        """Return the trees and the facts of products as plain arrays."""
        trees = self.trees.arrays
        arrays = {
            "starts": trees.starts,
            "leaf_starts": trees.leaf_starts,
            "features": trees.features,
            "thresholds": trees.thresholds,
            "missing_left": trees.missing_left,
            "left_leaves": trees.left_leaves,
            "leaves": trees.leaves,
            "events": self.products.events,
            "first_s": self.products.first_s,
        }
        return ModelState(arrays, {"parts": list(self.parts), "candidates": self.candidates})

    @classmethod
    def load(cls, state: ModelState) -> Reranker:
        """Return the re-ranker of a saved state."""
        arrays = state.arrays
        trees = TreeArrays(
            *(
                np.asarray(arrays[name])
                for name in (
                    "starts",
                    "leaf_starts",
                    "features",
                    "thresholds",
                    "missing_left",
                    "left_leaves",
                    "leaves",
                )
            )
        )
        products = ProductFacts(np.asarray(arrays["events"]), np.asarray(arrays["first_s"]))
        return cls(TreeEnsemble(trees), tuple(state.facts["parts"]), products, int(state.facts["candidates"]))


def build_rows(
    products: ProductFacts, past: UserHistory, items: Rows, scores: Scores | Floats, part_scores: Floats
) -> Floats:
    """Return one row for each candidate: the gap to the best score, the scores of the parts, product and person.

    Columns after the parts: ln(1 + events) of the product, its age in days, its events in the history, ln(1 + events)
    of the history, and ln(1 + days) since its newest event. NaN: unknown.

    Shapes:
        items: int64 [m], -1 for unknown ones; scores: float [m]; part_scores: float64 [m, p]
        returns: float64 [m, p + 6]
    """
    count, parts = part_scores.shape
    rows = np.empty((count, parts + OTHER_COLUMNS))
    # The gap, not the score: scores of different users and days have no common zero.
    rows[:, 0] = scores - scores.max()
    rows[:, 1 : parts + 1] = part_scores
    if len(products.events):
        has_item = items >= 0
        # `clip` only makes -1 a valid index; the mask replaces the value that it reads.
        rows[:, parts + 1] = np.where(has_item, products.events.take(items, mode="clip"), np.nan)
        age_s = past.now_s - products.first_s.take(items, mode="clip")
        rows[:, parts + 2] = np.where(has_item, np.maximum(age_s, 0.0), np.nan) / DAY_S
    else:
        rows[:, parts + 1 : parts + 3] = np.nan
    newest = past.items[:NEWEST_EVENTS]
    # An item's events are neighbours in order: two binary searches instead of 40,000 comparisons.
    ordered = np.sort(newest)
    seen = ordered.searchsorted(items, "right") - ordered.searchsorted(items)
    rows[:, parts + 3] = np.minimum(seen, _MOST_SEEN)
    rows[:, parts + 4] = np.log1p(len(newest))
    idle_s = past.now_s - past.at_s[0] if len(newest) else np.nan
    rows[:, parts + 5] = np.log1p(max(idle_s, 0.0) / DAY_S) if len(newest) else np.nan
    return rows
