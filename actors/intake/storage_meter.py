"""Measure the bytes of apps with a bound on storage, so that API replicas can refuse writes above it.

Nearly every app has a bound, and a measurement lists its files. So an app far below its bound is measured seldom.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from cluster.artifacts.app_storage import measure_app
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import Clock
from cluster.store.app_quotas import UsageStore

MEASURE_EVERY_S = 60.0
"Time after which an app is measured without a compaction: trainings and deletes change its size too."
FAR_BYTES = 1 << 30
"An app with so much room below its bound is measured every `FAR_EVERY_S` seconds only."
FAR_EVERY_S = 300.0


class StorageMeter:
    """Measures apps near their bound after each compaction and every minute, others every five minutes."""

    def __init__(self, usage: UsageStore, store: ArtifactStore, clock: Clock) -> None:
        self._usage = usage
        self._store = store
        self._clock = clock
        self._measured_s: dict[str, float] = {}
        self._sizes: dict[str, int] = {}

    async def run_once(self, bounds: Mapping[str, int], *, at_once: bool = False) -> None:
        """Measure the apps that are due (`at_once`: all near their bound) and store their sizes.

        `bounds` holds the largest size of each app in bytes.
        """
        for app_id, most in bounds.items():
            now_s = self._clock.monotonic_s()
            is_far = most - self._sizes.get(app_id, most) > FAR_BYTES
            # An app that was never measured counts as near its bound.
            age_s = now_s - self._measured_s.get(app_id, float("-inf"))
            if (at_once and not is_far) or age_s >= (FAR_EVERY_S if is_far else MEASURE_EVERY_S):
                size = await asyncio.to_thread(measure_app, self._store, app_id)
                await self._usage.set_stored_bytes(app_id, size)
                self._measured_s[app_id] = now_s
                self._sizes[app_id] = size
