"""Values of the store, kept in memory and refreshed: `RefreshingCache`, and `EngineRecordsCache`, the one of engines.

    follow(key)   a background task refreshes the value at a fixed interval (keys, revocations, client rules)
    read(key)     a caller refreshes the value when it is older than `keep_s` (experiments, boost rules)
    get(key)      the cached value, without waiting

While the store is unreachable the cache keeps the last good value. `age_s` returns its age.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import structlog

from cluster.clock import Clock, SystemClock
from cluster.errors import KioskError, Unavailable
from cluster.records.engine import Engine
from cluster.store.engines.engines import EngineStore

Value = TypeVar("Value")
LoadValue = Callable[[str, Value | None], Awaitable[Value]]
"""(key, last good value or None) -> the current value; the last value itself when its version is unchanged.

Errors:
    Unavailable: the store is unreachable
"""

ENGINE_RECORDS_KEEP_S = 0.75
"Largest age of a cached engine record, in seconds. A change of an engine applies that soon."

_log = structlog.get_logger()


@dataclass(slots=True)
class _Entry(Generic[Value]):
    value: Value
    loaded_s: float
    "Time of the store's last confirmation, monotonic."
    tried_s: float
    "Time of the last refresh, monotonic."


class RefreshingCache(Generic[Value]):
    """A cache of values that the store versions.

    `keep_s` is the age in seconds up to which `read` returns a value without asking the store.
    """

    def __init__(self, load: LoadValue[Value], clock: Clock | None = None, *, keep_s: float = 0.5) -> None:
        self._load = load
        self._clock = clock or SystemClock()
        self._keep_s = keep_s
        self._entries: dict[str, _Entry[Value]] = {}
        self._refreshes: dict[str, asyncio.Task[Value]] = {}
        self._followers: dict[str, asyncio.Task[None]] = {}

    def get(self, key: str) -> Value | None:
        """Return the last good value, or None before the first; never waits."""
        entry = self._entries.get(key)
        return None if entry is None else entry.value

    def age_s(self, key: str) -> float:
        """Return the seconds since the store confirmed the value last; infinity before the first time."""
        entry = self._entries.get(key)
        return math.inf if entry is None else self._clock.monotonic_s() - entry.loaded_s

    async def read(self, key: str, *, wait: bool = True) -> Value:
        """Return a value at most `keep_s` old, or the last good value while the store is unreachable.

        Callers share one refresh. With `wait=False`, a caller returns the last good value if a refresh is running.

        Errors:
            Unavailable: the store is unreachable and there is no value yet
        Cost:
            a dictionary look-up while the value is fresh
        """
        entry = self._entries.get(key)
        if entry is not None and self._clock.monotonic_s() < entry.tried_s + self._keep_s:
            return entry.value
        refresh = self._refreshes.get(key)
        if refresh is None or refresh.done():
            refresh = asyncio.get_running_loop().create_task(self._refresh_or_keep(key))
            self._refreshes[key] = refresh
        elif entry is not None and not wait:
            return entry.value
        # Callers share it: one that is cancelled must not cancel it for the others.
        return await asyncio.shield(refresh)

    async def refresh(self, key: str) -> Value:
        """Ask the store now and return the value.

        Errors:
            Unavailable: the store is unreachable; the cache keeps the last good value
        """
        # Before the read: the value is at least as old as the question, never younger than it looks.
        now_s = self._clock.monotonic_s()
        entry = self._entries.get(key)
        value = await self._load(key, None if entry is None else entry.value)
        self._entries[key] = _Entry(value, now_s, now_s)
        return value

    async def follow(
        self,
        key: str,
        poll_s: float,
        *,
        away_event: str,
        back_event: str = "",
        after: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Refresh a value once, if the store answers, and then every `poll_s` seconds until `close`.

        `away_event` is logged when refreshes begin to fail, `back_event` when they succeed again. `after` runs after
        each refresh.
        """
        with contextlib.suppress(Unavailable):
            await self.refresh(key)
        self._followers[key] = asyncio.get_running_loop().create_task(
            self._poll(key, poll_s, away_event, back_event, after)
        )

    def is_following(self, key: str) -> bool:
        """Return whether the background task of a key runs."""
        follower = self._followers.get(key)
        return follower is not None and not follower.done()

    async def close(self) -> None:
        """Stop all background tasks."""
        tasks = [*self._followers.values(), *self._refreshes.values()]
        self._followers.clear()
        self._refreshes.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _refresh_or_keep(self, key: str) -> Value:
        now_s = self._clock.monotonic_s()
        try:
            return await self.refresh(key)
        except Unavailable:
            entry = self._entries.get(key)
            if entry is None:
                raise
            # A failed try counts too: while the store is away, not every request tries again.
            entry.tried_s = now_s
            return entry.value

    async def _poll(
        self,
        key: str,
        poll_s: float,
        away_event: str,
        back_event: str,
        after: Callable[[], Awaitable[None]] | None,
    ) -> None:
        away = False
        while True:
            await asyncio.sleep(poll_s)
            try:
                await self.refresh(key)
                if after is not None:
                    await after()
                if away and back_event:
                    _log.info(back_event)
                away = False
            except KioskError as error:
                # Once for each outage, and not at each poll.
                if not away:
                    _log.warning(away_event, reason=error.code)
                away = True
            except Exception:  # noqa: BLE001 - a background loop logs the fault and goes on
                _log.exception(away_event, reason="fault")


class EngineRecordsCache(RefreshingCache[Mapping[str, Engine]]):
    """The only cache of engine records in a process, shared by router, host and model registry.

    A key is an app; its value has the records of all its engines by engine id. The model registry of a loaded app
    refreshes them in the background, so that requests find fresh records.
    """

    def __init__(self, engines: EngineStore, clock: Clock) -> None:
        super().__init__(self._load_engines, clock, keep_s=ENGINE_RECORDS_KEEP_S)
        self._engines = engines

    def find(self, app_id: str, engine_id: str) -> Engine | None:
        """Return a record if it is fresh, else None; the same object until the record changes. Never waits."""
        entry = self._entries.get(app_id)
        if entry is None or self._clock.monotonic_s() >= entry.tried_s + self._keep_s:
            return None
        return entry.value.get(engine_id)

    async def read_engine(self, app_id: str, engine_id: str) -> Engine | None:
        """Return a record; None when the engine does not exist, which the store confirms at every call.

        While the store is unreachable, or another caller reads it, the last good record is returned.

        Errors:
            Unavailable: the store is unreachable and this engine was never read
        """
        engine = (await self.read(app_id, wait=False)).get(engine_id)
        # a new engine answers at once
        return engine or (await self.refresh(app_id)).get(engine_id)

    async def _load_engines(self, app_id: str, last: Mapping[str, Engine] | None) -> Mapping[str, Engine]:
        kept = last or {}
        engines = {engine.engine_id: engine for engine in await self._engines.all(app_id)}
        # The same object while nothing changed, so that callers compare by identity.
        return {name: kept[name] if kept.get(name) == engine else engine for name, engine in engines.items()}
