"""Measuring as an argument: count, time, gauge; a silent one for tests and tools."""

from __future__ import annotations

from typing import Protocol


class Meter(Protocol):
    """Where numbers about our own work go. Names are `kiosk_<noun>_<unit>`; tags never hold ids of readers."""

    def count(self, name: str, by: float = 1, **tags: str) -> None: ...

    def time(self, name: str, ms: float, **tags: str) -> None: ...

    def gauge(self, name: str, value: float, **tags: str) -> None: ...


class SilentMeter:
    """Forgets everything."""

    def count(self, name: str, by: float = 1, **tags: str) -> None:
        return None

    def time(self, name: str, ms: float, **tags: str) -> None:
        return None

    def gauge(self, name: str, value: float, **tags: str) -> None:
        return None
