"""How many replicas a deployment wants, by what its replicas say of themselves.

Serve counts only the requests it saw itself; hot ones pass in front of it, and those of lines past it. So replicas
measure how busy they are, as one number: 1.0 is as much as one of them should carry. They report it
(`record_autoscaling_stats`), the policy adds it up, and Serve adds delays and bounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from cluster.clock import Clock

POLICY = "deployments.edge.scaling:compute_replicas"

FULL_SHARE = 0.7
"Share of one core at which a replica counts as full."
FULL_IN_FLIGHT = 8.0
"Requests at once, on average, at which a replica counts as full."


class LoadMeter:
    """Measures between two readings. Of two views the larger counts: processor time (a replica's Python runs on one
    core, and hot requests are mostly that), and requests in flight (those that wait for a store or another deployment).

    `busy_s` tells how long requests were under way so far, all added up; `full_in_flight` how many at once are enough.
    """

    def __init__(
        self,
        clock: Clock,
        busy_s: Callable[[], float],
        processor_s: Callable[[], float] = time.process_time,
        *,
        full_in_flight: Callable[[], float] = lambda: FULL_IN_FLIGHT,
    ) -> None:
        self._clock = clock
        self._busy_s = busy_s
        self._processor_s = processor_s
        self._full_in_flight = full_in_flight
        self._last = self._now()
        self._load = 0.0

    def read(self) -> float:
        """Measure since the last reading; readings less than a tenth of a second apart give the same number."""
        at_s, busy_s, processor_s = self._now()
        passed_s = at_s - self._last[0]
        if passed_s >= 0.1:
            in_flight = (busy_s - self._last[1]) / passed_s
            share = (processor_s - self._last[2]) / passed_s
            self._load = max(in_flight / self._full_in_flight(), share / FULL_SHARE)
            self._last = (at_s, busy_s, processor_s)
        return self._load

    def _now(self) -> tuple[float, float, float]:
        return self._clock.monotonic_s(), self._busy_s(), self._processor_s()


class AutoscalingReport(Protocol):
    """What is read of Serve's `AutoscalingContext`."""

    @property
    def aggregated_metrics(self) -> Mapping[str, Mapping[Any, float]] | None:
        """What replicas reported of late, by name and replica."""
        ...

    @property
    def target_num_replicas(self) -> int:
        """How many replicas there are to be."""
        ...


def compute_replicas(context: AutoscalingReport) -> tuple[float, dict[str, Any]]:
    """Add up the load of all replicas; Serve applies delays and bounds."""
    reported = (context.aggregated_metrics or {}).get("load", {})
    if not reported:
        return context.target_num_replicas, {}
    return max(1.0, sum(reported.values())), {}
