"""Sequential rules: what follows what within some steps, the nearer and the later the stronger."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from pydantic import Field

from actors.models.neighbours import NeighbourModel
from actors.models.user_histories import TimeDecay
from actors.vectors.snapshot_arrays import ModelState
from actors.vectors.types import Floats, Mask, Rows
from jobs.refresh.data.dataset import Interactions, number_sessions
from jobs.refresh.learners.interaction_matrix import compute_event_weights, select_newest_per_user
from jobs.refresh.learners.protocol import PartRecipe
from jobs.refresh.learners.sparse_weights import normalize_matrix, prune_rows

_BLOCK_PAIRS = 8_000_000


class RulesRecipe(PartRecipe):
    """Parameters of sequential rules."""

    learner: Literal["rules"] = "rules"
    window: int = Field(default=10, ge=1, le=200)
    "An item is paired with so many that follow it."
    distance_power: float = Field(default=0.7, ge=0, le=3)
    "A pair counts one over its distance to this power."
    back: float = Field(default=0.3, ge=0, le=1)
    "What the way back counts: 1 makes rules symmetric."
    damping: float = Field(default=0.1, ge=0, le=1)
    "Divides by the frequency of what follows to this power: 0 favours best sellers."
    power: float = Field(default=1.0, gt=0, le=1)
    "Counts of pairs to this power: below 1 suits dense data."
    gap_minutes: float | None = Field(default=None, gt=0)
    "A pause of so long ends a sequence; none: all of a user's events are one."
    keep: int = Field(default=300, ge=1)
    "Weights kept per item."
    half_life_days: float | None = Field(default=None, gt=0)
    "Halves what a pair counts for every so many days of age."
    fading: TimeDecay = TimeDecay(half_life_items=1.0)
    "How the history fades when scoring."


@dataclass(frozen=True, slots=True)
class SequentialRulesLearner:
    """The learner."""

    recipe: RulesRecipe = field(default_factory=RulesRecipe)

    def train(self, data: Interactions, rng: np.random.Generator) -> NeighbourModel:
        """Count what follows what.

        Cost:
            1,000,000 events, window 10: 4 s on one core; memory is bounded by blocks of items
        """
        liked = select_newest_per_user(data)
        liked = liked.pick(liked.weight > 0)
        liked = liked.pick(_step_mask(liked))
        weights = compute_event_weights(liked, self.recipe.half_life_days)
        runs = number_sessions(liked, self.recipe.gap_minutes)
        frequency = np.maximum(np.bincount(liked.item, minlength=data.n_items), 1.0)
        blocks = [
            self._block(liked, weights, runs, frequency, first, last)
            for first, last in self._blocks(frequency)
        ]
        whole = sp.vstack(blocks, format="csr") if blocks else sp.csr_matrix((data.n_items, data.n_items))
        return NeighbourModel(normalize_matrix(whole), self.recipe.fading)

    def load(self, parts: ModelState) -> NeighbourModel:
        """Bring back what was learned."""
        return NeighbourModel.load(parts)

    def _blocks(self, frequency: Floats) -> list[tuple[int, int]]:
        """Cut the items so that no block makes more than some million pairs."""
        made = np.cumsum(frequency) * self.recipe.window * (2 if self.recipe.back else 1)
        cuts = np.flatnonzero(np.diff((made / _BLOCK_PAIRS).astype(np.int64))) + 1
        bounds = [0, *cuts.tolist(), len(frequency)]
        return [(first, last) for first, last in pairwise(bounds) if last > first]

    def _block(
        self, data: Interactions, weights: Floats, runs: Rows, frequency: Floats, first: int, last: int
    ) -> Any:
        """Count the pairs of some items.

        Shapes:
            returns: CSR float64 [last - first, n]
        """
        recipe = self.recipe
        rows, columns, values = [], [], []
        for distance in range(1, min(recipe.window, len(data) - 1) + 1):
            before, after = data.item[:-distance], data.item[distance:]
            strength = weights[distance:] / distance**recipe.distance_power
            together = (runs[distance:] == runs[:-distance]) & (before != after)
            for left, right, share in ((before, after, 1.0), (after, before, recipe.back)):
                counts = np.flatnonzero(together & (left >= first) & (left < last)) if share else ()
                if len(counts):
                    rows.append(left[counts] - first)
                    columns.append(right[counts])
                    values.append(strength[counts] * share)
        shape = (last - first, data.n_items)
        if not rows:
            return sp.csr_matrix(shape)
        found = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
        pairs = sp.csr_matrix(found, shape=shape)
        pairs.data = pairs.data**recipe.power * frequency[pairs.indices] ** -recipe.damping
        return prune_rows(pairs, recipe.keep)


def _step_mask(data: Interactions) -> Mask:
    """Leave out an event about the same item as the user's event before it."""
    steps = np.ones(len(data), np.bool_)
    steps[1:] = (data.reader[1:] != data.reader[:-1]) | (data.item[1:] != data.item[:-1])
    return steps
