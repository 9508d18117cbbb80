"""Time as an argument: a protocol, the system clock, and the two common conversions."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Protocol


class Clock(Protocol):
    """What logic may know of time. Wall time for what is stored, monotonic time for durations."""

    def now_ms(self) -> int:
        """Return milliseconds since 1970, wall clock."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds on a clock that never jumps."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()


def from_ms(at_ms: int) -> datetime:
    """Return milliseconds since 1970 as an aware UTC datetime."""
    return datetime.fromtimestamp(at_ms / 1000, tz=timezone.utc)


def iso_ms(at_ms: int) -> str:
    """Return a time as the API writes it: UTC, milliseconds, `Z`."""
    return from_ms(at_ms).strftime("%Y-%m-%dT%H:%M:%S.") + f"{at_ms % 1000:03d}Z"
