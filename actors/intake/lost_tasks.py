"""End tasks whose batch is gone, so that clients do not poll them forever."""

from __future__ import annotations

from collections.abc import Iterable

import structlog

from cluster.clock import Clock
from cluster.meter import Meter
from cluster.store.ports.stores import Stores

MIN_AGE_MS = 15_000
"Minimal age of a task that may be ended."


class LostTaskSweeper:
    """Ends lost tasks. The store delivers slow batches, and batches of a dead consumer, again."""

    def __init__(self, stores: Stores, clock: Clock, meter: Meter) -> None:
        self._tasks = stores.tasks
        self._intake = stores.intake
        self._clock = clock
        self._meter = meter
        self._measured: set[str] = set()
        self._log = structlog.get_logger()

    async def run_once(self, app_ids: Iterable[str]) -> int:
        """Check the oldest open tasks of every app and measure the queue; return how many tasks were ended.

        Errors:
            Unavailable: the store is unreachable
        """
        ended = 0
        app_ids = set(app_ids)
        self._stop_measuring(self._measured - app_ids)
        for app_id in sorted(app_ids):
            now_ms = self._clock.now_ms()
            lost = await self._tasks.end_lost(app_id, before_ms=now_ms - MIN_AGE_MS, now_ms=now_ms)
            if lost:
                self._log.error("tasks_lost", app=app_id, tasks=lost)
                self._meter.count("kiosk_lost_tasks", lost, app=app_id)
            ended += lost
            self._meter.gauge("kiosk_intake_depth", await self._intake.depth(app_id), app=app_id)
            self._measured.add(app_id)
        return ended

    def clear(self) -> None:
        """Stop to report queues, because another process does."""
        self._stop_measuring(set(self._measured))

    def _stop_measuring(self, app_ids: set[str]) -> None:
        for app_id in app_ids:
            self._meter.remove_gauge("kiosk_intake_depth", app=app_id)
        self._measured -= app_ids
