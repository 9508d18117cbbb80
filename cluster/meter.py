"""Metrics as an argument: counters, times, gauges; a silent meter for tests and tools."""

from __future__ import annotations

from typing import Protocol


class Meter(Protocol):
    """The destination of metrics. Names are `kiosk_<noun>_<unit>`; tags never contain user ids."""

    def count(self, name: str, by: float = 1, **tags: str) -> None: ...

    def time(self, name: str, ms: float, **tags: str) -> None: ...

    def gauge(self, name: str, value: float, **tags: str) -> None: ...

    def remove_gauge(self, name: str, **tags: str) -> None:
        """Stop to report a gauge, because what it measured is gone."""
        ...


class SilentMeter:
    """Ignores all values."""

    def count(self, name: str, by: float = 1, **tags: str) -> None:
        return None

    def time(self, name: str, ms: float, **tags: str) -> None:
        return None

    def gauge(self, name: str, value: float, **tags: str) -> None:
        return None

    def remove_gauge(self, name: str, **tags: str) -> None:
        return None
