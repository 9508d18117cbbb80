"""Successful queries of the query log: a source of `suggested_queries`, in memory and kept up to date.

Users are pseudonyms. Users without a verified id count once for each client address. An erased user is not counted,
also in queries that are not compacted yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import structlog

from actors.retrieval.popular_queries import WINDOW_MS, PopularQueries
from cluster.artifacts.logs.query_log import QueryLogStore
from cluster.clock import Clock
from cluster.errors import KioskError
from cluster.records.logged_query import LoggedQuery, pseudonym
from cluster.store.archive.log_stream import LogStream

KINDS = ("search", "ask")
"Completions are left out: they are unfinished queries."
MOST_LOADED = 200_000
"Pairs of user and query that are read from segments."
# For an hour: until then the log may still give queries from before an erasure.
_ERASED_MS = 3_600_000
_A_STEP = 200
_PAGE = 100
_EVERY_S = 5.0

RunStep = Callable[[Callable[[], None]], Awaitable[None]]
"Runs a short step while no query reads."


@dataclass(frozen=True, slots=True)
class SuccessfulQuery:
    """A query with results; `user` is the pseudonym of its user."""

    text: str
    user: str
    at_ms: int
    origin: str


class LoggedQueries:
    """The popular queries of the query log. One thread at a time."""

    def __init__(self) -> None:
        self.popular = PopularQueries()
        self.salt = b""
        self._erased: dict[str, int] = {}

    def record(self, queries: Iterable[SuccessfulQuery]) -> None:
        """Count queries."""
        for query in queries:
            # The log may be read after the erasure that it does not know.
            if query.at_ms > self._erased.get(query.user, -1):
                self.popular.add(query.text, query.user, query.at_ms, query.origin)

    def erase(self, user_ids: Sequence[str], at_ms: int) -> None:
        """Remove the queries of users (`u:...`, `a:...`) up to a moment."""
        # Without the salt no pseudonym was counted yet, so there is nothing to remove.
        if not self.salt:
            return
        pseudonyms = [pseudonym(self.salt, user_id) for user_id in user_ids]
        self.popular.delete(pseudonyms)
        self._erased = {user: at for user, at in self._erased.items() if at > at_ms - _ERASED_MS}
        self._erased.update(dict.fromkeys(pseudonyms, at_ms))


class QueryLogFollower:
    """Keeps the `LoggedQueries` of an app up to date with the query log."""

    def __init__(
        self,
        app_id: str,
        store: LogStream[LoggedQuery],
        log_store: QueryLogStore | None,
        clock: Clock,
        run_step: RunStep,
    ) -> None:
        self.queries = LoggedQueries()
        self._app_id = app_id
        self._store = store
        self._log_store = log_store
        self._clock = clock
        self._run_step = run_step
        self._after = ""
        self._log = structlog.get_logger().bind(app=app_id)

    async def start(self) -> None:
        """Load the salt, so that erasures work from now on."""
        self.queries.salt = await self._store.salt(self._app_id)

    async def follow(self) -> None:
        """Follow the log until cancelled; failures are tried again."""
        while True:
            try:
                await self.read()
            except KioskError as error:
                self._log.info("query_log_missed", reason=error.message)
            except Exception:  # noqa: BLE001  a failure must not end the follower
                self._log.exception("query_log_failed")
            await asyncio.sleep(_EVERY_S)

    async def read(self) -> None:
        """Read new queries; the first time all of the last 30 days.

        Cost:
            200,000 pairs of query and user: 2 s, in steps of a millisecond
        """
        if not self._after:
            self._after, compacted = await asyncio.to_thread(self._read_compacted)
            await self._record(compacted)
        while batches := await self._store.read(self._app_id, self._after, count=_PAGE):
            await self._record([query for batch in batches for query in _successful_queries(batch.rows)])
            self._after = batches[-1].offset

    async def _record(self, queries: Sequence[SuccessfulQuery]) -> None:
        for start in range(0, len(queries), _A_STEP):
            await self._run_step(partial(self.queries.record, queries[start : start + _A_STEP]))
            await asyncio.sleep(0)

    def _read_compacted(self) -> tuple[str, list[SuccessfulQuery]]:
        """Return the offset of the compacted queries, and the newest of each user."""
        if self._log_store is None:
            return "0", []
        after = self._log_store.last_offset(self._app_id)
        table = self._log_store.read(self._app_id, self._clock.now_ms() - WINDOW_MS)
        is_counted = pc.and_(pc.greater(table["total"], 0), pc.is_in(table["kind"], pa.array(KINDS)))
        counted = table.filter(pc.and_(is_counted, pc.not_equal(table["reader"], "")))
        text = pc.if_else(pc.equal(counted["written"], ""), counted["text"], counted["written"])
        counted = counted.set_column(counted.schema.get_field_index("text"), "text", text)
        newest = counted.group_by(["text", "reader", "origin"]).aggregate([("at", "max")])
        newest = newest.sort_by([("at_max", "descending")]).slice(0, MOST_LOADED)
        return after, list(_rows(newest))


def _rows(table: Any) -> Iterator[SuccessfulQuery]:
    columns = (table[name].to_pylist() for name in ("text", "reader", "at_max", "origin"))
    return (SuccessfulQuery(*row) for row in zip(*columns, strict=True))


def _successful_queries(queries: Iterable[LoggedQuery]) -> Iterator[SuccessfulQuery]:
    for query in queries:
        if query.total > 0 and query.kind in KINDS and query.reader:
            yield SuccessfulQuery(query.written or query.text, query.reader, query.at, query.origin)
