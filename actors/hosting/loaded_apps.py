"""All apps a host holds: loaded once when first asked for, let go least recently used first."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import structlog

from cluster.errors import Unavailable
from cluster.meter import Meter

_LOAD_WAIT_S = 20.0


class LoadedApp(Protocol):
    """What is held of one app."""

    @property
    def nbytes(self) -> int:
        """Memory held or mapped, estimated."""
        ...

    async def start(self) -> None:
        """Load, and go on following."""
        ...

    async def close(self) -> None:
        """Stop following and let go of the memory."""
        ...


H = TypeVar("H", bound=LoadedApp)


@dataclass(frozen=True, slots=True)
class LoadedAppLabels:
    """How a host speaks of what it holds."""

    loading_message: str
    "To a caller who came while it loads."
    unloaded_event: str
    "The log's event when an app is let go."
    memory_gauge: str
    "Gauge of the bytes held."


class LoadedApps(Generic[H]):
    """What is held by app, within a memory budget."""

    def __init__(
        self, make: Callable[[str], H], meter: Meter, budget_bytes: int, words: LoadedAppLabels
    ) -> None:
        self._make = make
        self._meter = meter
        self._budget = budget_bytes
        self._labels = words
        self._tasks: OrderedDict[str, asyncio.Task[H]] = OrderedDict()
        self._log = structlog.get_logger()

    async def get(self, app_id: str) -> H:
        """Find what is held of an app; the first to ask loads it, everybody else waits for the same load.

        Errors:
            Unavailable: the store is away, or the load takes longer than a caller should wait
        """
        task = self._tasks.get(app_id)
        if task is None:
            task = self._tasks[app_id] = asyncio.get_running_loop().create_task(self._open(app_id))
        self._tasks.move_to_end(app_id)
        if _is_ready(task):
            return task.result()
        try:
            return await asyncio.wait_for(asyncio.shield(task), _LOAD_WAIT_S)
        except asyncio.TimeoutError:
            raise Unavailable(self._labels.loading_message, retry_after_s=2) from None
        finally:
            if task.done() and not _is_ready(task) and self._tasks.get(app_id) is task:
                # a failed load is tried again by the next request
                del self._tasks[app_id]

    async def close(self) -> None:
        """Let go of everything."""
        for app_id in list(self._tasks):
            await self._unload(app_id)

    async def _open(self, app_id: str) -> H:
        held = self._make(app_id)
        await held.start()
        await self._evict(app_id, held.nbytes)
        return held

    async def _evict(self, newest: str, used: int) -> None:
        """Let apps go until the others fit the budget; the one just loaded stays in any case."""
        others = {app_id: task.result() for app_id, task in self._tasks.items() if _is_ready(task)}
        used += sum(held.nbytes for app_id, held in others.items() if app_id != newest)
        for app_id, held in others.items():
            if used > self._budget and app_id != newest:
                used -= held.nbytes
                await self._unload(app_id)
        self._meter.gauge(self._labels.memory_gauge, used)

    async def _unload(self, app_id: str) -> None:
        task = self._tasks.pop(app_id, None)
        if task is None:
            return
        if not task.done():
            task.cancel()
        found = (await asyncio.gather(task, return_exceptions=True))[0]
        if not isinstance(found, BaseException):
            await found.close()
            self._log.info(self._labels.unloaded_event, app=app_id)


def _is_ready(task: asyncio.Task[H]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None
