"""The apps that a host has loaded: each is loaded at its first request, and unloaded when the memory budget of the
process is used up.

An app that was used long ago leaves first. Two things keep an app longer than its last use alone:

load time     an app whose load takes seconds stays `KEEP_PER_LOAD_S` seconds longer for each of them
residence     an app that comes back soon after it left is a guest: guests leave before the others

Without guests, more busy apps than fit would all leave and return in turn, and each request would wait for a load.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import structlog

from actors.hosting.memory_budget import SOON_S, LoadedSize, MemoryBudget
from cluster.clock import Clock, SystemClock
from cluster.deadline import run_within
from cluster.errors import Unavailable

KEEP_PER_LOAD_S = 30.0
# Load time that counts at most: a slow disk must not keep an app for hours.
_LONGEST_LOAD_S = 10.0
_MOST_LEFT = 10_000
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

    async def close(self) -> None: ...


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


@dataclass(slots=True)
class _Entry(Generic[H]):
    task: asyncio.Task[H]
    used_s: float
    load_s: float = 0.0
    is_guest: bool = False

    @property
    def is_ready(self) -> bool:
        # In this order: `exception` raises for a task that runs, and for a cancelled one.
        return self.task.done() and not self.task.cancelled() and self.task.exception() is None

    @property
    def keep_until_s(self) -> float:
        """Return a time; the app with the earliest one leaves first."""
        load_s = min(self.load_s, _LONGEST_LOAD_S)
        return self.used_s + KEEP_PER_LOAD_S * load_s - (SOON_S if self.is_guest else 0.0)


class LoadedApps(Generic[H]):
    """The loaded apps of one host, within the memory budget of the process."""

    def __init__(
        self,
        make: Callable[[str], H],
        budget: MemoryBudget,
        words: LoadedAppLabels,
        clock: Clock | None = None,
    ) -> None:
        self._make = make
        self._budget = budget
        self._labels = words
        self._clock = SystemClock() if clock is None else clock
        self._entries: dict[str, _Entry[H]] = {}
        self._left_s: dict[str, float] = {}
        "App -> when it was unloaded for lack of memory."
        self._log = structlog.get_logger()
        budget.add_member(self)

    async def get(self, app_id: str) -> H:
        """Return the loaded state of an app. The first caller loads it, and other callers wait for the same load.

        Errors:
            Unavailable: the store does not answer, or the load takes too long
        """
        now_s = self._clock.monotonic_s()
        entry = self._entries.get(app_id)
        if entry is None:
            task = asyncio.get_running_loop().create_task(self._open(app_id))
            entry = self._entries[app_id] = _Entry(task, now_s, is_guest=self._left_soon(app_id, now_s))
        entry.used_s = now_s
        if entry.is_ready:
            return entry.task.result()
        try:
            # Shielded: a caller that gives up must not cancel the load of the others.
            return await run_within(asyncio.shield(entry.task), _LOAD_WAIT_S)
        except asyncio.TimeoutError:
            raise Unavailable(self._labels.loading_message, retry_after_s=2) from None
        finally:
            if entry.task.done() and not entry.is_ready and self._entries.get(app_id) is entry:
                # the next request retries a failed load
                del self._entries[app_id]

    def find(self, app_id: str) -> H | None:
        """Return the loaded state of an app; None while it is not loaded."""
        entry = self._entries.get(app_id)
        return entry.task.result() if entry is not None and entry.is_ready else None

    def newest(self) -> tuple[str, H] | None:
        """Return the app that was used last and is loaded."""
        ready = self._ready()
        if not ready:
            return None
        app_id = max(ready, key=lambda name: ready[name].used_s)
        return app_id, ready[app_id].task.result()

    @property
    def memory_gauge(self) -> str:
        return self._labels.memory_gauge

    def list_sizes(self) -> dict[str, LoadedSize]:
        """Return size and order of leaving of the apps that are loaded."""
        return {
            app_id: LoadedSize(entry.task.result().nbytes, entry.keep_until_s, entry.used_s)
            for app_id, entry in self._ready().items()
        }

    async def unload(self, app_id: str) -> None:
        """Unload an app for lack of memory; if it returns soon, it counts as reloaded."""
        if app_id not in self._entries:
            return  # it left meanwhile
        # A dictionary keeps the order of insertion: the oldest departures are forgotten first.
        while len(self._left_s) >= _MOST_LEFT:
            del self._left_s[next(iter(self._left_s))]
        self._left_s[app_id] = self._clock.monotonic_s()
        await self._unload(app_id)

    def list_ready(self) -> list[tuple[str, H]]:
        return [(app_id, entry.task.result()) for app_id, entry in self._ready().items()]

    async def close(self) -> None:
        for app_id in list(self._entries):
            await self._unload(app_id)

    def _ready(self) -> dict[str, _Entry[H]]:
        return {app_id: entry for app_id, entry in self._entries.items() if entry.is_ready}

    def _left_soon(self, app_id: str, now_s: float) -> bool:
        left_s = self._left_s.pop(app_id, None)
        if left_s is None or now_s - left_s > SOON_S:
            return False
        self._budget.record_reload(app_id)
        return True

    async def _open(self, app_id: str) -> H:
        began_s = self._clock.monotonic_s()
        app = self._make(app_id)
        await app.start()
        entry = self._entries.get(app_id)
        if entry is not None:
            entry.load_s = self._clock.monotonic_s() - began_s
        # Before the app is ready, so that its first request does not find the memory full.
        await self._budget.evict((self, app_id, app.nbytes))
        return app

    async def _unload(self, app_id: str) -> None:
        entry = self._entries.pop(app_id, None)
        if entry is None:
            return
        if not entry.task.done():
            entry.task.cancel()
        # A cancelled load may have started threads; it has to end before its memory is free.
        app = (await asyncio.gather(entry.task, return_exceptions=True))[0]
        if not isinstance(app, BaseException):
            await app.close()
            self._log.info(self._labels.unloaded_event, app=app_id)
