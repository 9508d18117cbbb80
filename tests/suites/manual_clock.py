"""A clock that moves when told."""

from __future__ import annotations


class ManualClock:
    """Both clocks of the house, moved together by `advance`."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_s(self) -> float:
        return self._monotonic_ms / 1000

    def advance(self, ms: int) -> None:
        """Let time pass."""
        self._now_ms += ms
        self._monotonic_ms += ms
