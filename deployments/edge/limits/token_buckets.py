"""Token buckets in this process, for a bounded number of names: addresses of clients, accounts.

There are two tables. A new name enters the young one. When it is full, it becomes the old table, and the previous old
table is dropped. So frequent names stay, and memory never exceeds two tables.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from cluster.clock import Clock

MOST_NAMES = 4_096
"Names of one table: about 1 MB in both."


@dataclass(frozen=True, slots=True)
class BucketRate:
    """The rate and the size of a token bucket."""

    per_s: float
    burst: int


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at_s: float


class TokenBuckets:
    """Token buckets by name; the caller gives rate and burst with each call."""

    def __init__(self, clock: Clock, most: int = MOST_NAMES) -> None:
        self._clock = clock
        self._most = most
        self._young: dict[tuple[str, ...], _Bucket] = {}
        self._old: dict[tuple[str, ...], _Bucket] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def spend(self, name: tuple[str, ...], rate: float, burst: float, count: float = 1) -> float:
        """Take tokens; return 0, or the seconds until there are enough.

        Cost: half a microsecond.
        """
        now_s = self._clock.monotonic_s()
        # `spend` fills the bucket when it is used; no timer runs for idle names.
        state = self._young.get(name) or self._enter(name, now_s, burst)
        tokens = state.tokens + (now_s - state.at_s) * rate
        state.at_s = now_s
        state.tokens = tokens if tokens < burst else burst
        # A refused request takes nothing, so the next one waits no longer for it.
        if state.tokens < count:
            return (count - state.tokens) / rate
        state.tokens -= count
        return 0.0

    def wait_s(self, kind: str, who: str, rate: BucketRate) -> int:
        """Count one request; return 0 to admit it, else the whole seconds to wait."""
        return math.ceil(self.spend((kind, who), rate.per_s, rate.burst))

    def _enter(self, name: tuple[str, ...], now_s: float, burst: float) -> _Bucket:
        if len(self._young) >= self._most:
            # The older table is dropped as a whole, so no order of use must be kept for each request.
            self._old = self._young
            self._young = {}
        # A name that was dropped starts with a full bucket, as one that was idle for long.
        bucket = self._old.pop(name) if name in self._old else _Bucket(burst, now_s)
        self._young[name] = bucket
        return bucket
