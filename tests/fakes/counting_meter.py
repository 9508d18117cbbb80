"""A meter that adds up counts and times."""

from __future__ import annotations

from cluster.meter import SilentMeter


class CountingMeter(SilentMeter):
    """Adds up counts and times."""

    def __init__(self) -> None:
        self.counts: dict[str, float] = {}

    def count(self, name: str, by: float = 1, **tags: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + by

    def time(self, name: str, ms: float, **tags: str) -> None:
        self.count(name)
