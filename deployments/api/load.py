"""How busy a replica is, as one number for the autoscaler: 1.0 is as much as one replica should carry.

Serve counts only the requests it saw itself, and hot ones pass in front of it. Two views, the larger counts:
processor time (a replica's Python runs on one core, and hot requests are mostly that) and requests in flight
(those that wait for a store or another deployment).
"""

from __future__ import annotations

import time
from collections.abc import Callable

from cluster.clock import Clock

FULL_SHARE = 0.7
"Share of one core at which a replica counts as full."
FULL_IN_FLIGHT = 8.0
"Requests at once, on average, at which a replica counts as full."


class Load:
    """Measures between two readings."""

    def __init__(
        self, clock: Clock, busy_s: Callable[[], float], processor_s: Callable[[], float] = time.process_time
    ) -> None:
        self._clock = clock
        self._busy_s = busy_s
        self._processor_s = processor_s
        self._last = self._now()
        self._load = 0.0

    def read(self) -> float:
        """Measure since the last reading; readings less than a tenth of a second apart give the same number."""
        at_s, busy_s, processor_s = self._now()
        passed_s = at_s - self._last[0]
        if passed_s >= 0.1:
            in_flight = (busy_s - self._last[1]) / passed_s
            share = (processor_s - self._last[2]) / passed_s
            self._load = max(in_flight / FULL_IN_FLIGHT, share / FULL_SHARE)
            self._last = (at_s, busy_s, processor_s)
        return self._load

    def _now(self) -> tuple[float, float, float]:
        return self._clock.monotonic_s(), self._busy_s(), self._processor_s()
