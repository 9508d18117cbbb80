"""The life of the tracker: find the apps, watch each of them for ever. No Ray in here.

One loop works at a time, kept by a lease; two would do no harm, for every step is written once, only work twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

import structlog

from actors.history.answer_service import Answering
from actors.history.monitor import LAG_MS, AppMonitor, Judges
from cluster.artifacts.segments import SegmentShelf
from cluster.clock import Clock
from cluster.errors import Unavailable
from cluster.meter import Meter
from cluster.records.access import App
from cluster.store.ports.stores import Stores

LEASE = "tracker"
_LEASE_MS = 6_000
_PAUSE_S = 0.4
_APPS_S = 1.0
_AWAY_S = 0.5
_REST_S = 5.0
"How long an app is left alone after a failure."


@dataclass(slots=True)
class TrackerState:
    """What may be seen of a loop from outside; counters since its start."""

    working: bool = False
    "Does it hold the lease?"
    apps: int = 0
    watched: int = 0
    "Threads."
    waiting: int = 0
    "Threads for which something was found that their readers were not told of yet."
    rounds: int = 0
    failures: int = 0
    away: int = 0
    "Times the store was found away."
    progress_s: float = 0.0
    "Monotonic time of the last sign of life."


@dataclass(slots=True)
class _Kept:
    monitor: AppMonitor
    until_s: float = 0.0
    "Left alone until then."


@dataclass(slots=True)
class _Lease:
    renew_s: float = float("-inf")
    held: bool = False


class TrackerLoop:
    """Watches all apps until it is stopped. Killing it at any moment is harmless."""

    def __init__(
        self,
        stores: Stores,
        judges: Judges,
        answering: Answering,
        clock: Clock,
        meter: Meter,
        *,
        owner: str,
        lag_ms: int = LAG_MS,
        segments: SegmentShelf | None = None,
    ) -> None:
        self._stores = stores
        self._judges = judges
        self._answering = answering
        self._clock = clock
        self._meter = meter
        self._owner = owner
        self._lag_ms = lag_ms
        self._segments = segments
        self._kept: dict[str, _Kept] = {}
        self._apps_s = float("-inf")
        self._version = -1
        self._lease = _Lease()
        self._stopping = asyncio.Event()
        self._state = TrackerState()
        self._log = structlog.get_logger()

    async def run(self) -> None:
        """Watch until `stop`; never ends by itself, whatever the store or an app does."""
        while not self._stopping.is_set():
            pause_s = _PAUSE_S
            try:
                if await self.round():
                    pause_s = 0.0
            except Unavailable as error:
                self._state.away += 1
                self._log.warning("store_away", duty="tracker", reason=error.message)
                pause_s = _AWAY_S
            except Exception:  # noqa: BLE001  the tracker must outlive whatever happens in one of its rounds
                self._state.failures += 1
                self._log.exception("tracker_round_failed")
                pause_s = _AWAY_S
            await self._pause(pause_s)

    def stop(self) -> None:
        """End `run` after the round at hand."""
        self._stopping.set()

    async def round(self) -> bool:
        """Let every app have its turn; say whether one has more to do at once.

        Errors:
            Unavailable: the store is away
        """
        self._alive()
        if not await self._hold():
            return False
        await self._find_apps()
        more = False
        for app_id, kept in list(self._kept.items()):
            if self._clock.monotonic_s() >= kept.until_s:
                more = await self._turn(app_id, kept) or more
            self._alive()
        self._state.rounds += 1
        return more

    def state(self) -> TrackerState:
        """Look at the counters."""
        lists = [kept.monitor.watchlist for kept in list(self._kept.values())]
        return replace(
            self._state,
            working=self._lease.held,
            apps=len(self._kept),
            watched=sum(map(len, lists)),
            waiting=sum(len(one.waiting()) for one in lists),
        )

    def _alive(self) -> None:
        self._state.progress_s = self._clock.monotonic_s()

    async def _turn(self, app_id: str, kept: _Kept) -> bool:
        try:
            return await kept.monitor.round()
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001  one app's trouble is not the others'
            self._state.failures += 1
            self._meter.count("kiosk_tracker_failures_total")
            self._log.exception("tracker_app_failed", app=app_id)
            kept.until_s = self._clock.monotonic_s() + _REST_S
            return False

    async def _hold(self) -> bool:
        now_s = self._clock.monotonic_s()
        if now_s >= self._lease.renew_s:
            self._lease.held = await self._stores.leases.hold(LEASE, self._owner, _LEASE_MS)
            self._lease.renew_s = now_s + _LEASE_MS / 3000
        return self._lease.held

    async def _find_apps(self) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - self._apps_s < _APPS_S:
            return
        self._apps_s = now_s
        version = await self._stores.access.version()
        if version == self._version:
            return
        book = await self._stores.access.book()
        self._version = book.version
        self._keep(list(book.apps.values()))

    def _keep(self, apps: Sequence[App]) -> None:
        for app_id in set(self._kept) - {app.app_id for app in apps}:
            del self._kept[app_id]
        for app in apps:
            judges = replace(self._judges, threshold=app.settings.update_significance)
            kept = self._kept.get(app.app_id)
            if kept is not None:
                kept.monitor.judges = judges
                continue
            monitor = AppMonitor(
                app.app_id, self._stores, judges, self._answering, self._clock, self._meter, lag_ms=self._lag_ms,
                languages=(app.settings.primary_language,), segments=self._segments, alive=self._alive,
            )  # fmt: skip
            self._kept[app.app_id] = _Kept(monitor)

    async def _pause(self, for_s: float) -> None:
        if for_s <= 0:
            await asyncio.sleep(0)
            return
        try:
            await asyncio.wait_for(self._stopping.wait(), for_s)
        except asyncio.TimeoutError:
            return
