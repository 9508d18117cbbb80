"""The intake as a named, restarted Ray actor: `intake@<release>`.

The constructor starts a thread with its own event loop and returns. When Ray restarts the actor, the constructor runs
again. When the loop ends or hangs with work left, the process exits, so that Ray starts another. The actor can be
killed at any time.

The caller passes functions that connect, so that Ray's records hold no address or password:

    named_actors.find_or_create("intake", release, "actors.intake.host:IntakeHost", connect, open_artifact_store)
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import structlog

from actors.intake.loop import IntakeConfig, IntakeLoop
from actors.language.hashing_embedder import HashingEmbedder
from cluster.admin.local_person_files import LocalPersonFiles
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.ids import new_request_id
from cluster.log import set_up_logging
from cluster.meter import Meter, SilentMeter
from cluster.runtime.actors.fail_fast import exit_when_stuck, run_or_exit
from cluster.settings import Settings
from cluster.store.connect import OpenStores


class IntakeHost:
    """Runs the intake loop."""

    def __init__(
        self,
        connect: Callable[[], OpenStores],
        open_artifacts: Callable[[], ArtifactStore],
        *,
        meter: Callable[[], Meter] = SilentMeter,
        rules: IntakeConfig | None = None,
        end_process: Callable[[int], None] = os._exit,
    ) -> None:
        set_up_logging(process="intake")
        self._connect = connect
        self._segments = SegmentStore(open_artifacts())
        self._meter = meter
        self._rules = rules
        self._clock = SystemClock()
        self._born_s = self._clock.monotonic_s()
        self._log = structlog.get_logger()
        self._loop: IntakeLoop | None = None
        self._events: asyncio.AbstractEventLoop | None = None
        self._stopping = threading.Event()
        work = (self._run_loop(), end_process)
        self._thread = threading.Thread(
            target=run_or_exit, args=("intake", *work), name="intake", daemon=True
        )
        self._thread.start()
        guard = ("intake", self._idle_s, self._stopping, end_process)
        threading.Thread(target=exit_when_stuck, args=guard, name="intake-guard", daemon=True).start()

    async def health(self) -> dict[str, Any]:
        """Return `alive`, the seconds since the last heartbeat, and the loop's counters."""
        loop = self._loop
        state = {} if loop is None else asdict(loop.state())
        return {"alive": self._thread.is_alive(), "pid": os.getpid(), "still_s": self._idle_s(), **state}

    async def stop(self) -> None:
        """Stop the loop after the current batch, wait for it, and release the lease."""
        self._stopping.set()
        if self._loop is not None and self._events is not None:
            self._events.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join)

    async def _run_loop(self) -> None:
        async with self._connect() as stores:
            embedder = HashingEmbedder()
            owner = f"{os.getpid()} {new_request_id()}"
            settings = Settings()
            self._loop = IntakeLoop(
                stores,
                self._segments,
                embedder,
                self._clock,
                self._meter(),
                owner=owner,
                rules=self._rules,
                files=LocalPersonFiles(settings.data_dir),
                owns_redis=not settings.redis_is_external,
            )
            self._events = asyncio.get_running_loop()
            if self._stopping.is_set():
                return
            self._log.info("intake_started", pid=os.getpid())
            await self._loop.run()

    def _idle_s(self) -> float:
        progress_s = 0.0 if self._loop is None else self._loop.state().progress_s
        return self._clock.monotonic_s() - max(progress_s, self._born_s)
