"""The history tracker as a named, restarted Ray actor: `tracker@<release>`. All its state is in the store.

Its monitor runs in a separate thread with its own event loop. When this loop ends or hangs, the process exits, so that
Ray starts another. API replicas change threads themselves (`actors.history.tracker`).

    kind, means = "actors.history.host:TrackerHost", "package.module:open_tracker_services"
    named_actors.find_or_create("tracker", release, kind, connect, means, open_artifact_store)
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import structlog

from actors.history.loop import TrackerLoop
from actors.history.messages import AnswerService
from actors.history.news_monitor import RelevanceDependencies
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.ids import new_request_id
from cluster.log import set_up_logging
from cluster.meter import Meter, SilentMeter
from cluster.runtime.actors.fail_fast import exit_when_stuck, run_or_exit
from cluster.store.connect import OpenStores
from cluster.store.stores import Stores

OpenServices = Callable[[Stores], "tuple[RelevanceDependencies, AnswerService]"]


class TrackerHost:
    """Runs the monitor loop."""

    def __init__(
        self,
        connect: Callable[[], OpenStores],
        services_path: str,
        open_artifacts: Callable[[], ArtifactStore] | None = None,
        *,
        meter: Callable[[], Meter] = SilentMeter,
        end_process: Callable[[int], None] = os._exit,
    ) -> None:
        set_up_logging(process="tracker")
        self._connect = connect
        module, _, name = services_path.partition(":")
        self._open_services: OpenServices = getattr(importlib.import_module(module), name)
        self._segments = SegmentStore(open_artifacts()) if open_artifacts is not None else None
        self._meter = meter
        self._clock = SystemClock()
        self._born_s = self._clock.monotonic_s()
        self._log = structlog.get_logger()
        self._loop: TrackerLoop | None = None
        work = (self._watch(), end_process)
        threading.Thread(target=run_or_exit, args=("tracker", *work), name="tracker", daemon=True).start()
        guard = ("tracker", self._idle_s, threading.Event(), end_process)
        threading.Thread(target=exit_when_stuck, args=guard, name="tracker-guard", daemon=True).start()

    async def health(self) -> dict[str, Any]:
        """Return the process and the monitor's counters since its start."""
        loop = self._loop
        state = {} if loop is None else asdict(loop.state())
        return {"alive": True, "pid": os.getpid(), "still_s": self._idle_s(), **state}

    async def _watch(self) -> None:
        async with self._connect() as stores:
            judges, answering = self._open_services(stores)
            owner = f"{os.getpid()} {new_request_id()}"
            self._loop = TrackerLoop(
                stores, judges, answering, self._clock, self._meter(), owner=owner, segments=self._segments
            )
            self._log.info("tracker_started", pid=os.getpid())
            await self._loop.run()

    def _idle_s(self) -> float:
        progress_s = 0.0 if self._loop is None else self._loop.state().progress_s
        # Since the birth before the first heartbeat, so that a hanging start is noticed too.
        return self._clock.monotonic_s() - max(progress_s, self._born_s)
