"""Autoscaling by the load that replicas report.

Serve counts only its own requests. Hot requests and requests over local channels bypass it. So replicas measure their
load as one number: 1.0 is the load one replica should carry. They report it (`record_autoscaling_stats`). The policy
sums the loads, and Serve applies delays and limits.
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
"Mean number of requests in flight at which a replica counts as full."


class LoadMeter:
    """Measures the load between two readings, as the larger of two values.

    The first is processor time: the Python code of a replica runs on one core. The second is the number of requests
    in flight, which includes those that wait for a store or another deployment.

    `busy_s` returns the sum of seconds spent in requests; `full_in_flight` how many requests at once are enough.
    """

    def __init__(
        self,
        clock: Clock,
        busy_s: Callable[[], float],
        cpu_s: Callable[[], float] = time.process_time,
        *,
        full_in_flight: Callable[[], float] = lambda: FULL_IN_FLIGHT,
    ) -> None:
        self._clock = clock
        self._busy_s = busy_s
        self._cpu_s = cpu_s
        self._full_in_flight = full_in_flight
        self._last = self._now()
        self._load = 0.0

    def read(self) -> float:
        """Return the load since the last reading; readings less than a tenth of a second apart return the same
        number."""
        at_s, busy_s, cpu_s = self._now()
        passed_s = at_s - self._last[0]
        # Over a shorter time, the resolution of the clocks would determine the quotient.
        if passed_s >= 0.1:
            in_flight = (busy_s - self._last[1]) / passed_s
            share = (cpu_s - self._last[2]) / passed_s
            # Processor time alone would miss requests that wait for a store, and their number alone a busy
            # core.
            self._load = max(in_flight / self._full_in_flight(), share / FULL_SHARE)
            self._last = (at_s, busy_s, cpu_s)
        return self._load

    def _now(self) -> tuple[float, float, float]:
        return self._clock.monotonic_s(), self._busy_s(), self._cpu_s()


class AutoscalingReport(Protocol):
    """The fields that the policy reads of Serve's `AutoscalingContext`."""

    @property
    def aggregated_metrics(self) -> Mapping[str, Mapping[Any, float]] | None:
        """Recent metrics of the replicas, by name and replica."""
        ...

    @property
    def target_num_replicas(self) -> int:
        """The current target number of replicas."""
        ...


def compute_replicas(context: AutoscalingReport) -> tuple[float, dict[str, Any]]:
    """Return the number of replicas for the summed load; Serve applies delays and limits."""
    reported = (context.aggregated_metrics or {}).get("load", {})
    # Without a report nothing is known of the load, so the number of replicas stays.
    if not reported:
        return context.target_num_replicas, {}
    # A load of 1 is one full replica, so the sum is the number of replicas that are needed.
    return max(1.0, sum(reported.values())), {}
