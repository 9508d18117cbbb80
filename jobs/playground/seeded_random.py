"""Seeded draws: the same seed gives the same draws in every Python and on every machine."""

from __future__ import annotations

import hashlib
import random
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeVar

T = TypeVar("T")


class SeededRandom:
    """A stream of draws. It uses only `Random.random`, whose sequence Python guarantees."""

    def __init__(self, *seed: object) -> None:
        text = "/".join(str(part) for part in seed)
        digest = hashlib.sha256(text.encode()).digest()
        self._draw = random.Random(int.from_bytes(digest[:8], "big")).random

    def random(self) -> float:
        """Return a uniform draw from 0 to 1."""
        return self._draw()

    def is_chosen(self, probability: float) -> bool:
        """Return true with a probability."""
        return self._draw() < probability

    def randint(self, low: int, high: int) -> int:
        """Return a random whole number, both ends included."""
        return low + int(self._draw() * (high - low + 1))

    def choice(self, options: Sequence[T]) -> T:
        """Return one of several values, all equally likely."""
        return options[int(self._draw() * len(options))]

    def weighted_choice(self, options: Sequence[T], weights: Sequence[float]) -> T:
        """Return one of several values by weight; at least one weight is above 0."""
        bounds = list(accumulate(weights))
        return options[min(bisect_right(bounds, self._draw() * bounds[-1]), len(options) - 1)]
