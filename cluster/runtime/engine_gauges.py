"""What the engine operator reports of dedicated engines while it has the lease."""

from __future__ import annotations

from cluster.meter import Meter
from cluster.records.engine import EngineStatus


class EngineGauges:
    """Sets gauges and removes them: a meter repeats each until it is removed."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._engines: set[str] = set()

    def report_replicas(self, application: str, status: EngineStatus) -> None:
        """Report how many replicas an engine has and should have."""
        self._engines.add(application)
        self._meter.gauge("kiosk_engine_replicas", status.replicas, engine=application)
        self._meter.gauge("kiosk_engine_replicas_wanted", status.target, engine=application)

    def report_waiting(self, count: int) -> None:
        """Report how many engines are not where they are meant to be."""
        self._meter.gauge("kiosk_engines_waiting", count)

    def remove(self, application: str) -> None:
        """Report nothing more of an engine."""
        self._engines.discard(application)
        self._meter.remove_gauge("kiosk_engine_replicas", engine=application)
        self._meter.remove_gauge("kiosk_engine_replicas_wanted", engine=application)

    def clear(self) -> None:
        """Report nothing more: another operator has the lease."""
        for application in tuple(self._engines):
            self.remove(application)
        self._meter.remove_gauge("kiosk_engines_waiting")
