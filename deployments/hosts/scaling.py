"""How many replicas a deployment wants, by what its replicas say of themselves.

Requests that go past Serve are in none of its counts: replicas measure their load and report it
(`record_autoscaling_stats`), Serve adds delays and bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

POLICY = "deployments.hosts.scaling:replicas_wanted"


class Reported(Protocol):
    """What is read of Serve's `AutoscalingContext`."""

    @property
    def aggregated_metrics(self) -> Mapping[str, Mapping[Any, float]] | None:
        """What replicas reported of late, by name and replica."""
        ...

    @property
    def target_num_replicas(self) -> int:
        """How many replicas there are to be."""
        ...


def replicas_wanted(context: Reported) -> tuple[float, dict[str, Any]]:
    """Add up the load of all replicas; Serve applies delays and bounds."""
    reported = (context.aggregated_metrics or {}).get("load", {})
    if not reported:
        return context.target_num_replicas, {}
    return max(1.0, sum(reported.values())), {}


class UnderWay:
    """How many requests were under way between two readings, as a share of how many one replica is meant to have.

    `busy_s` tells how long requests were under way so far, all added up.
    """

    def __init__(self, monotonic_s: Callable[[], float], busy_s: Callable[[], float]) -> None:
        self._monotonic_s = monotonic_s
        self._busy_s = busy_s
        self._last = monotonic_s(), busy_s()
        self._mean = 0.0

    def load(self, target: float) -> float:
        """Measure since the last reading; readings less than a tenth of a second apart give the same."""
        at_s, busy_s = self._monotonic_s(), self._busy_s()
        passed_s = at_s - self._last[0]
        if passed_s >= 0.1:
            self._mean = (busy_s - self._last[1]) / passed_s
            self._last = at_s, busy_s
        return self._mean / target
