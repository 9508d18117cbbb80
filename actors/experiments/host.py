"""The assigner as a named, restarted Ray actor: `assigner@<release>`. All its state is in the store.

named_actors.find_or_create("assigner", release, "actors.experiments.host:AssignerHost", connect)
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import structlog

from actors.experiments.assignment import ExperimentAssigner
from actors.experiments.messages import EXPERIMENT_MESSAGES, Assignment, ExperimentEvent
from cluster.clock import SystemClock
from cluster.errors import KioskError, Refusal
from cluster.log import set_up_logging
from cluster.store.connect import OpenStores


class AssignerHost:
    """Records events of every app."""

    def __init__(self, connect: Callable[[], OpenStores]) -> None:
        set_up_logging(process="assigner")
        self._connect = connect
        self._opening: asyncio.Future[ExperimentAssigner] | None = None
        self._counts: Counter[str] = Counter()

    async def record(self, payload: bytes) -> bytes:
        """Record one event; event and reply are encoded by `EXPERIMENT_MESSAGES`."""
        try:
            assignment = await self._record(EXPERIMENT_MESSAGES.decode(payload))
        except KioskError as error:
            self._counts["refused"] += 1
            return EXPERIMENT_MESSAGES.encode(Refusal.of(error))
        self._counts["recorded"] += 1
        return EXPERIMENT_MESSAGES.encode(assignment)

    async def _record(self, event: ExperimentEvent) -> Assignment:
        # The next event tries a failed opening again.
        if self._opening is None or (self._opening.done() and self._opening.exception()):
            self._opening = asyncio.ensure_future(self._open_assigner())
        # Shielded: a cancelled request must not end the opening that others wait for.
        return await (await asyncio.shield(self._opening)).record(event)

    async def health(self) -> dict[str, Any]:
        """Return the process and its counters since its start."""
        return {"alive": True, "pid": os.getpid(), **self._counts}

    async def _open_assigner(self) -> ExperimentAssigner:
        stores = await self._connect()
        structlog.get_logger().info("assigner_started", pid=os.getpid())
        return ExperimentAssigner(stores.experiments, SystemClock())
