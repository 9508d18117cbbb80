"""Measure the bytes of apps with a bound on storage, so that API replicas can refuse writes above it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from cluster.artifacts.app_storage import measure_app
from cluster.artifacts.artifact_store import ArtifactStore
from cluster.clock import Clock
from cluster.store.ports.usage import UsageStore

MEASURE_EVERY_S = 60.0
"Time after which an app is measured without a compaction: trainings and deletes change its size too."


class StorageMeter:
    """Measures apps after each compaction, and every minute."""

    def __init__(self, usage: UsageStore, store: ArtifactStore, clock: Clock) -> None:
        self._usage = usage
        self._store = store
        self._clock = clock
        self._measured_s: dict[str, float] = {}

    async def run_once(self, app_ids: Collection[str], *, at_once: bool = False) -> None:
        """Measure the apps that are due (`at_once`: all) and store their sizes.

        Errors:
            Unavailable: the store or the artifact store is unreachable
        """
        for app_id in app_ids:
            now_s = self._clock.monotonic_s()
            if at_once or now_s - self._measured_s.get(app_id, float("-inf")) >= MEASURE_EVERY_S:
                size = await asyncio.to_thread(measure_app, self._store, app_id)
                await self._usage.set_stored_bytes(app_id, size)
                self._measured_s[app_id] = now_s
