"""Run the tracker without Ray: find the apps and monitor each of them.

A lease allows one loop at a time. Two loops would only repeat work, because every step is written once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

import structlog

from actors.history.messages import AnswerService
from actors.history.news_monitor import LAG_MS, NewsMonitor, RelevanceDependencies
from actors.hosting.job_lease import JobLease
from actors.hosting.log_follower import LogFollower
from cluster.artifacts.segments import SegmentStore
from cluster.clock import Clock
from cluster.errors import Unavailable
from cluster.meter import Meter
from cluster.records.apps import App
from cluster.store.stores import Stores

LEASE = "tracker"
_PAUSE_S = 0.4
_APPS_S = 1.0
_RETRY_S = 0.5
_FAILURE_PAUSE_S = 5.0
"Pause of an app after a failure."


@dataclass(slots=True)
class TrackerState:
    """The public state of a loop; counters since its start."""

    working: bool = False
    "Whether the loop holds the lease."
    apps: int = 0
    watched: int = 0
    "Number of watched threads."
    waiting: int = 0
    "Threads with news of which their users were not notified yet."
    rounds: int = 0
    failures: int = 0
    away: int = 0
    "Number of failures of the store."
    progress_s: float = 0.0
    "Monotonic time of the last heartbeat."


@dataclass(slots=True)
class _MonitoredApp:
    monitor: NewsMonitor
    paused_until_s: float = 0.0
    "End of the pause after a failure."


class TrackerLoop:
    """Monitors all apps until it is stopped. It can be killed at any time."""

    def __init__(
        self,
        stores: Stores,
        judges: RelevanceDependencies,
        answering: AnswerService,
        clock: Clock,
        meter: Meter,
        *,
        owner: str,
        lag_ms: int = LAG_MS,
        segments: SegmentStore | None = None,
    ) -> None:
        self._stores = stores
        self._judges = judges
        self._answering = answering
        self._clock = clock
        self._meter = meter
        self._lag_ms = lag_ms
        self._segments = segments
        self._monitored: dict[str, _MonitoredApp] = {}
        self._apps_s = float("-inf")
        self._version = -1
        self._lease = JobLease(stores.leases, LEASE, owner, clock)
        self._stopping = asyncio.Event()
        self._state = TrackerState()
        self._log = structlog.get_logger()

    async def run(self) -> None:
        """Monitor until `stop`, despite failures of the store or of an app."""
        await LogFollower(
            self.run_once,
            self._clock,
            on_miss=self._record_miss,
            on_failure=self._record_failure,
            pace_s=_PAUSE_S,
            retry_s=_RETRY_S,
        ).run(self._stopping)

    def stop(self) -> None:
        """End `run` after the current round."""
        self._stopping.set()

    async def run_once(self) -> bool:
        """Run one round of every app; return whether an app has more work at once."""
        self._record_progress()
        if not await self._lease.renew():
            return False
        await self._find_apps()
        more = False
        # A copy, as the apps may be replaced while one of them is awaited.
        for app_id, kept in list(self._monitored.items()):
            if self._clock.monotonic_s() >= kept.paused_until_s:
                more = await self._run_app(app_id, kept) or more
            self._record_progress()
        self._state.rounds += 1
        return more

    def state(self) -> TrackerState:
        """Return the counters."""
        lists = [kept.monitor.watched_threads for kept in list(self._monitored.values())]
        return replace(
            self._state,
            working=self._lease.is_owned,
            apps=len(self._monitored),
            watched=sum(map(len, lists)),
            waiting=sum(len(watched_threads.list_waiting()) for watched_threads in lists),
        )

    def _record_miss(self, error: Unavailable) -> None:
        self._state.away += 1
        self._log.warning("store_away", duty="tracker", reason=error.message)

    def _record_failure(self) -> None:
        self._state.failures += 1
        self._log.exception("tracker_round_failed")

    def _record_progress(self) -> None:
        self._state.progress_s = self._clock.monotonic_s()

    async def _run_app(self, app_id: str, kept: _MonitoredApp) -> bool:
        try:
            return await kept.monitor.run_once()
        # The store is away for all apps, so the whole round is repeated.
        except Unavailable:
            raise
        except Exception:  # noqa: BLE001  one app's trouble is not the others'
            self._state.failures += 1
            self._meter.count("kiosk_tracker_failures_total")
            self._log.exception("tracker_app_failed", app=app_id)
            kept.paused_until_s = self._clock.monotonic_s() + _FAILURE_PAUSE_S
            return False

    async def _find_apps(self) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - self._apps_s < _APPS_S:
            return
        self._apps_s = now_s
        version = await self._stores.access.version()
        # One short read a second, in place of the whole book.
        if version == self._version:
            return
        book = await self._stores.access.read_all()
        self._version = book.version
        self._replace_apps(list(book.apps.values()))

    def _replace_apps(self, apps: Sequence[App]) -> None:
        for app_id in set(self._monitored) - {app.app_id for app in apps}:
            del self._monitored[app_id]
        for app in apps:
            judges = replace(self._judges, threshold=app.settings.update_significance)
            kept = self._monitored.get(app.app_id)
            # The monitor keeps its threads and its offset; only the threshold is new.
            if kept is not None:
                kept.monitor.relevance = judges
                continue
            monitor = NewsMonitor(
                app.app_id,
                self._stores,
                judges,
                self._answering,
                self._clock,
                self._meter,
                lag_ms=self._lag_ms,
                languages=(app.settings.primary_language,),
                segments=self._segments,
                alive=self._record_progress,
            )
            self._monitored[app.app_id] = _MonitoredApp(monitor)
