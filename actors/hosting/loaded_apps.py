"""The apps that a host has loaded: each is loaded at its first request, the least recently used are unloaded first."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import structlog

from cluster.deadline import run_within
from cluster.errors import Unavailable
from cluster.meter import Meter

_LOAD_WAIT_S = 20.0


class LoadedApp(Protocol):
    """The loaded state of one app."""

    @property
    def nbytes(self) -> int:
        """Return an estimate of the memory, mapped files included, in bytes."""
        ...

    async def start(self) -> None:
        """Load the state, and start to follow the change log."""
        ...

    async def close(self) -> None:
        """Stop following and release the memory."""
        ...


H = TypeVar("H", bound=LoadedApp)


@dataclass(frozen=True, slots=True)
class LoadedAppLabels:
    """Message, event and metric names of a host."""

    loading_message: str
    "Message to a caller during a load."
    unloaded_event: str
    "Log event when an app is unloaded."
    memory_gauge: str
    "Name of the memory gauge."


class LoadedApps(Generic[H]):
    """Loaded apps within a memory budget."""

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
        """Return the loaded state of an app. The first caller loads it, and other callers wait for the same load.

        Errors:
            Unavailable: the store does not answer, or the load takes too long
        """
        task = self._tasks.get(app_id)
        if task is None:
            task = self._tasks[app_id] = asyncio.get_running_loop().create_task(self._open(app_id))
        self._tasks.move_to_end(app_id)
        if _is_ready(task):
            return task.result()
        try:
            return await run_within(asyncio.shield(task), _LOAD_WAIT_S)
        except asyncio.TimeoutError:
            raise Unavailable(self._labels.loading_message, retry_after_s=2) from None
        finally:
            if task.done() and not _is_ready(task) and self._tasks.get(app_id) is task:
                # the next request retries a failed load
                del self._tasks[app_id]

    def newest(self) -> tuple[str, H] | None:
        """Return the app that was used last and is loaded."""
        ready = ((app_id, task) for app_id, task in reversed(self._tasks.items()) if _is_ready(task))
        return next(((app_id, task.result()) for app_id, task in ready), None)

    async def close(self) -> None:
        """Unload all apps."""
        for app_id in list(self._tasks):
            await self._unload(app_id)

    async def _open(self, app_id: str) -> H:
        app = self._make(app_id)
        await app.start()
        await self._evict(app_id, app.nbytes)
        return app

    async def _evict(self, newest: str, used: int) -> None:
        """Unload apps until the others fit the budget. The newest one always stays."""
        others = {app_id: task.result() for app_id, task in self._tasks.items() if _is_ready(task)}
        used += sum(app.nbytes for app_id, app in others.items() if app_id != newest)
        for app_id, app in others.items():
            if used > self._budget and app_id != newest:
                used -= app.nbytes
                await self._unload(app_id)
        self._meter.gauge(self._labels.memory_gauge, used)

    async def _unload(self, app_id: str) -> None:
        task = self._tasks.pop(app_id, None)
        if task is None:
            return
        if not task.done():
            task.cancel()
        app = (await asyncio.gather(task, return_exceptions=True))[0]
        if not isinstance(app, BaseException):
            await app.close()
            self._log.info(self._labels.unloaded_event, app=app_id)


def _is_ready(task: asyncio.Task[H]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None
