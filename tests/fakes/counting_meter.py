"""A meter that adds up counts and times, and keeps gauges."""

from __future__ import annotations

from cluster.meter import SilentMeter


class CountingMeter(SilentMeter):
    """Adds up counts and times, and keeps the gauges that are set."""

    def __init__(self) -> None:
        self.counts: dict[str, float] = {}
        self.gauges: dict[tuple[str, ...], float] = {}
        "(Name, values of the tags) -> value."

    def count(self, name: str, by: float = 1, **tags: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + by

    def time(self, name: str, ms: float, **tags: str) -> None:
        self.count(name)

    def gauge(self, name: str, value: float, **tags: str) -> None:
        self.gauges[(name, *tags.values())] = value

    def remove_gauge(self, name: str, **tags: str) -> None:
        self.gauges.pop((name, *tags.values()), None)
