"""Sampled items of training steps, and the steps that have left out an item.

A step needs the vectors of its events, of their targets and of the sampled items. It gets their numbers in the list of
these items, so its time does not depend on the size of the catalog.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from actors.vectors.types import Codes, Floats, Vector

_POWER = 0.5
"Exponent of the item frequency with which items are sampled."


class ItemSampler:
    """Draws items for training steps, and counts the steps since an item was in one."""

    def __init__(self, counts: Floats, size: int) -> None:
        """Sample `size` items in each step.

        Shapes:
            counts: float64 [n], positive: how often each item is a target
        """
        shares = counts**_POWER / (counts**_POWER).sum()
        self._limits = np.cumsum(shares)
        self._logs = np.log(shares * size).astype(np.float32)
        self._size = size
        self._newest = np.zeros(len(counts), np.int32)

    def begin(self, step: int) -> None:
        """Say that no item has missed a step up to this one."""
        self._newest[:] = step

    def count_missed(self, step: int) -> Vector:
        """Return the number of steps that each item has missed, up to this one.

        Shapes:
            returns: float32 [n]
        """
        return (step - self._newest).astype(np.float32)

    def prepare(
        self, batch: dict[str, Codes], rng: np.random.Generator, step: int
    ) -> tuple[dict[str, Codes], dict[str, Any]]:
        """Return the batch and the sample of a step, as `transformer_steps.update` reads them.

        Shapes:
            batch: int32 [b, t] each, as `PackedRows.batches` yields; returns: the same with other numbers of items,
            and `items` int32 [s], `counts` float32 [u], `touched` int32 [u], `missed` float32 [u], u = 2bt + s
        """
        n_items = len(self._newest)
        # The last limit is a rounded sum and may lie below a draw.
        drawn = np.minimum(np.searchsorted(self._limits, rng.random(self._size)), n_items - 1)
        items = batch["items"]
        targets = batch["targets"]
        needed = np.concatenate((items.ravel(), np.maximum(targets, 0).ravel(), drawn))
        touched, places = np.unique(needed, return_inverse=True)
        events, chosen, sampled = np.split(places.astype(np.int32), (items.size, 2 * items.size))
        missed = step - 1 - self._newest[touched]
        self._newest[touched] = step
        # one shape for all steps, or each would be compiled; numbers from n on stand for no item
        spare = len(needed) - len(touched)
        rest = np.arange(n_items, n_items + spare)
        chosen = np.where(targets >= 0, chosen.reshape(targets.shape), -1)
        return (
            {**batch, "items": events.reshape(items.shape), "targets": chosen.astype(np.int32)},
            {
                "items": sampled,
                "counts": np.pad(self._logs[touched], (0, spare)),
                "touched": np.concatenate((touched, rest)).astype(np.int32),
                "missed": np.pad(missed.astype(np.float32), (0, spare)),
            },
        )
