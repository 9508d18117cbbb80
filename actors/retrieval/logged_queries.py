"""Queries of the query log that found something: a source of `suggested_queries`, in memory and kept up with the log.

Readers are pseudonyms here too. A reader without proof counts as their address does; an erased reader counts no more,
also in what is still on its way to the segments.
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
from cluster.artifacts.query_log import QueryLogStore
from cluster.clock import Clock
from cluster.errors import HouseError
from cluster.records.logged_query import LoggedQuery, pseudonym
from cluster.store.ports.query_log import QueryStore

KINDS = ("search", "ask")
"A completion is a query on its way."
MOST_LOADED = 200_000
"Readers times queries that are read from the segments."
_ERASED_MS = 3_600_000
_A_STEP = 200
_PAGE = 100
_EVERY_S = 5.0

RunStep = Callable[[Callable[[], None]], Awaitable[None]]
"Runs a short step while nobody else looks."


@dataclass(frozen=True, slots=True)
class SuccessfulQuery:
    """A query that found something."""

    text: str
    reader: str
    at_ms: int
    origin: str


class LoggedQueries:
    """Popular queries of the log. One thread at a time."""

    def __init__(self) -> None:
        self.popular = PopularQueries()
        self.salt = b""
        self._erased: dict[str, int] = {}

    def record(self, queries: Iterable[SuccessfulQuery]) -> None:
        """Learn queries."""
        for query in queries:
            if query.at_ms > self._erased.get(query.reader, -1):
                self.popular.add(query.text, query.reader, query.at_ms, query.origin)

    def erase(self, reader_ids: Sequence[str], at_ms: int) -> None:
        """Take back what readers (`u:...`, `a:...`) searched for up to a moment."""
        if not self.salt:
            return
        readers = [pseudonym(self.salt, reader_id) for reader_id in reader_ids]
        self.popular.delete(readers)
        self._erased = {who: at for who, at in self._erased.items() if at > at_ms - _ERASED_MS}
        self._erased.update(dict.fromkeys(readers, at_ms))


class QueryLogFollower:
    """Keeps `LoggedQueries` of one app up with the query log."""

    def __init__(
        self, app_id: str, store: QueryStore, shelf: QueryLogStore | None, clock: Clock, think: RunStep
    ) -> None:
        self.queries = LoggedQueries()
        self._app_id = app_id
        self._store = store
        self._shelf = shelf
        self._clock = clock
        self._think = think
        self._after = ""
        self._log = structlog.get_logger().bind(app=app_id)

    async def start(self) -> None:
        """Get ready to follow: erasures are understood from now on.

        Errors:
            Unavailable
        """
        self.queries.salt = await self._store.salt(self._app_id)

    async def follow(self) -> None:
        """Follow until cancelled; whatever fails is tried again."""
        while True:
            try:
                await self.read()
            except HouseError as error:
                self._log.info("query_log_missed", reason=error.message)
            except Exception:  # noqa: BLE001  suggestions must not end what follows the changes
                self._log.exception("query_log_failed")
            await asyncio.sleep(_EVERY_S)

    async def read(self) -> None:
        """Read what is new; the first time everything of the last 30 days.

        Errors:
            Unavailable
            Fault: the manifest of the settled queries keeps changing
        Cost:
            200,000 pairs of query and reader: 2 s, in steps of a millisecond
        """
        if not self._after:
            self._after, settled = await asyncio.to_thread(self._read_compacted)
            await self._record(settled)
        while lots := await self._store.read(self._app_id, self._after, count=_PAGE):
            await self._record([one for lot in lots for one in _successful_queries(lot.queries)])
            self._after = lots[-1].offset

    async def _record(self, queries: Sequence[SuccessfulQuery]) -> None:
        for start in range(0, len(queries), _A_STEP):
            await self._think(partial(self.queries.record, queries[start : start + _A_STEP]))
            await asyncio.sleep(0)

    def _read_compacted(self) -> tuple[str, list[SuccessfulQuery]]:
        """Read the settled queries, the newest of each reader, and how far they go."""
        if self._shelf is None:
            return "0", []
        after = self._shelf.last_offset(self._app_id)
        table = self._shelf.read(self._app_id, self._clock.now_ms() - WINDOW_MS)
        found = pc.and_(pc.greater(table["total"], 0), pc.is_in(table["kind"], pa.array(KINDS)))
        known = table.filter(pc.and_(found, pc.not_equal(table["reader"], "")))
        text = pc.if_else(pc.equal(known["written"], ""), known["text"], known["written"])
        known = known.set_column(known.schema.get_field_index("text"), "text", text)
        newest = known.group_by(["text", "reader", "origin"]).aggregate([("at", "max")])
        newest = newest.sort_by([("at_max", "descending")]).slice(0, MOST_LOADED)
        return after, list(_rows(newest))


def _rows(table: Any) -> Iterator[SuccessfulQuery]:
    columns = (table[name].to_pylist() for name in ("text", "reader", "at_max", "origin"))
    return (SuccessfulQuery(*row) for row in zip(*columns, strict=True))


def _successful_queries(queries: Iterable[LoggedQuery]) -> Iterator[SuccessfulQuery]:
    for one in queries:
        if one.total > 0 and one.kind in KINDS and one.reader:
            yield SuccessfulQuery(one.written or one.text, one.reader, one.at, one.origin)
