"""Randomness that each request draws anew from its own label, so that salts and ids repeat from run to run."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager


class FixedRandomness:
    """Stands in for the randomness of the operating system."""

    def __init__(self) -> None:
        self._source = random.Random(0)

    def begin(self, label: str) -> None:
        """Start the draws of one request."""
        self._source.seed(label)

    def draw(self, count: int) -> bytes:
        """Return so many bytes."""
        return self._source.randbytes(count)


@contextmanager
def fixed_randomness() -> Iterator[FixedRandomness]:
    """Replace the randomness behind `secrets` and `uuid` for the length of a block."""
    fixed = FixedRandomness()
    ours, theirs = os.urandom, random._urandom  # type: ignore[attr-defined]
    os.urandom, random._urandom = fixed.draw, fixed.draw  # type: ignore[attr-defined]
    try:
        yield fixed
    finally:
        os.urandom, random._urandom = ours, theirs  # type: ignore[attr-defined]
