"""Move log rows of API replicas to the artifact store twice a minute; delete old ones and those of erased users.

The query log, the log of served answers and that of archive calls take this way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import structlog

from cluster.artifacts.logs.daily_log import DailyLog
from cluster.artifacts.logs.day_files import DAY_MS
from cluster.clock import Clock
from cluster.errors import Conflict, KioskError, Unavailable
from cluster.ids import position_from_offset
from cluster.meter import Meter
from cluster.records.logged_query import pseudonym
from cluster.store.archive.log_stream import LogBatch, LogStream

T = TypeVar("T")
Row = TypeVar("Row")

KEEP_DAYS = 90

_LAST_OF_MS = (1 << 64) - 1
"The last number that Redis gives to an entry within one millisecond."


def keep_default_days(_: str) -> int:
    """Return how many days an app keeps its rows if nothing else is set."""
    return KEEP_DAYS


@dataclass(frozen=True, slots=True)
class DailyLogCompactionConfig:
    """Limits that decide when rows are compacted."""

    every_ms: int = 30_000
    "The longest a row waits."
    young_ms: int = 3_000
    "Younger rows wait: users may still be typing a query."
    look_every_s: float = 5.0
    page: int = 100
    "Batches in one read."
    most: int = 50_000
    "Approximate number of rows compacted at once."
    tidy_every_s: float = 600.0
    rest_s: float = 30.0
    "Pause of an app whose artifact store refuses writes."


class DailyLogCompactor(Generic[Row]):
    """Compacts one log of all apps; only one may run at a time.

    `keep_days` returns how many days an app keeps its rows.
    """

    def __init__(
        self,
        store: LogStream[Row],
        daily_log: DailyLog[Row],
        clock: Clock,
        meter: Meter,
        rules: DailyLogCompactionConfig | None = None,
        *,
        keep_days: Callable[[str], int] = keep_default_days,
    ) -> None:
        self._store = store
        self._daily_log = daily_log
        self._keep_days = keep_days
        self._clock = clock
        self._meter = meter
        self._rules = DailyLogCompactionConfig() if rules is None else rules
        self._covered: dict[str, str] = {}
        self._resting: dict[str, float] = {}
        self._tidied: dict[str, float] = {}
        self._looked_s = float("-inf")
        # Without it, a round that has read rows could write them after an erasure deleted them.
        self._lock = asyncio.Lock()
        self._log = structlog.get_logger()

    async def run_once(self, app_ids: Iterable[str], *, at_once: bool = False) -> int:
        """Compact the rows that are due (`at_once`: all); return the number of rows written."""
        now_s = self._clock.monotonic_s()
        if not at_once and now_s - self._looked_s < self._rules.look_every_s:
            return 0
        self._looked_s = now_s
        rows = 0
        async with self._lock:
            for app_id in app_ids:
                if self._resting.get(app_id, 0.0) > now_s:
                    continue
                try:
                    rows += await self._compact_app(app_id, at_once)
                    await self._tidy(app_id, now_s)
                except Unavailable:
                    raise
                except Conflict:  # another process wrote; read the manifest again
                    self._covered.pop(app_id, None)
                except KioskError as error:
                    self._rest(app_id, error)
        return rows

    def clear_offsets(self) -> None:
        """Drop the offsets in memory: another process compacts now."""
        self._covered.clear()

    async def delete_users(self, app_id: str, user_keys: Sequence[str]) -> None:
        """Delete all rows of some users (`u:...`, `a:...`) from the stream and the artifact store."""
        async with self._lock:
            # A failover of Redis may bring trimmed entries back; without an offset in memory they are trimmed again.
            self._covered.pop(app_id, None)
            await self._compact_app(app_id, at_once=True)
            salt = await self._store.salt(app_id)
            pseudonyms = [pseudonym(salt, user_key) for user_key in user_keys]
            gone = await self._with_artifacts(app_id, partial(self._daily_log.delete, app_id, pseudonyms))
            await self._with_artifacts(app_id, partial(self._daily_log.tidy, app_id, at_once=True))
            self._log.info(
                "log_rows_erased", app=app_id, log=self._daily_log.kind, users=len(user_keys), rows=gone
            )

    async def _compact_app(self, app_id: str, at_once: bool) -> int:
        after = self._covered.get(app_id)
        if after is None:
            after = await self._with_artifacts(app_id, partial(self._daily_log.last_offset, app_id))
            self._covered[app_id] = after
            # a crash may have prevented the write of the offset
            await self._store.trim(app_id, after)
        oldest = await self._store.read(app_id, after, count=1)
        if not oldest:
            return 0
        now_ms = self._clock.now_ms()
        if not at_once and now_ms - position_from_offset(oldest[0].offset)[0] < self._rules.every_ms:
            return 0
        # Batches that arrive later belong to the next round, or busy apps would never let one end.
        until = (
            position_from_offset(await self._store.newest_offset(app_id))
            if at_once
            else (now_ms - self._rules.young_ms, _LAST_OF_MS)
        )
        rows = 0
        while True:
            batches = await self._read_batches(app_id, self._covered[app_id], until)
            if not batches:
                return rows
            pending = [row for batch in batches for row in batch.rows]
            last = batches[-1].offset
            rows += await self._with_artifacts(app_id, partial(self._daily_log.append, app_id, pending, last))
            # If the trim fails, the next round reads the offset of the artifact store and trims again.
            del self._covered[app_id]
            await self._store.trim(app_id, last)
            self._covered[app_id] = last
            self._daily_log.count_compacted(self._meter, len(pending))

    async def _read_batches(self, app_id: str, after: str, until: tuple[int, int]) -> list[LogBatch[Row]]:
        results: list[LogBatch[Row]] = []
        count = 0
        while count < self._rules.most:
            page = await self._store.read(app_id, after, count=self._rules.page)
            ripe = [batch for batch in page if position_from_offset(batch.offset) <= until]
            results += ripe
            count += sum(len(batch.rows) for batch in ripe)
            # Fewer than a page: the rest is too young, or there is none.
            if len(ripe) < self._rules.page:
                break
            after = ripe[-1].offset
        return results

    async def _tidy(self, app_id: str, now_s: float) -> None:
        """Drop old days and merge small files from time to time."""
        if now_s - self._tidied.get(app_id, float("-inf")) < self._rules.tidy_every_s:
            return
        first = app_id not in self._tidied
        # Before the work: after a failure the app waits its turn, and does not tidy in every round.
        self._tidied[app_id] = now_s
        oldest_ms = self._clock.now_ms() - self._keep_days(app_id) * DAY_MS
        dropped = await self._with_artifacts(
            app_id, partial(self._daily_log.expire_and_compact, app_id, oldest_ms)
        )
        if dropped:
            self._log.info("old_log_rows_dropped", app=app_id, log=self._daily_log.kind, rows=dropped)
        if first:
            await self._with_artifacts(app_id, partial(self._daily_log.tidy, app_id))

    async def _with_artifacts(self, app_id: str, work: Callable[[], T]) -> T:
        """Run work on the artifact store in a thread; while the store is away, the app rests."""
        try:
            return await asyncio.to_thread(work)
        except Unavailable as error:
            self._rest(app_id, error)
            raise

    def _rest(self, app_id: str, error: KioskError) -> None:
        self._resting[app_id] = self._clock.monotonic_s() + self._rules.rest_s
        self._meter.count("kiosk_query_log_refusals", app=app_id)
        self._log.error("query_log_stuck", app=app_id, log=self._daily_log.kind, reason=error.message)
