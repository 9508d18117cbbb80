"""Articles of feeds on their way into an app: the validation, the bounds and the intake of every upload."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from cluster.clock import Clock
from cluster.deadline import run_within
from cluster.errors import Conflict, NotFound, ReadOnly, Unavailable
from cluster.ids import new_task_id
from cluster.records.apps import App
from cluster.records.intake import Task
from cluster.store.app_quotas import check_stored_bytes
from cluster.store.stores import Stores
from jobs.ingest.validation import check_records
from jobs.ingest.writing import RecordWriter, StoreRetry, SubmittedChunk

RETRY_S = 30.0
TASK_S = 120.0
"Time for the intake to apply a chunk; after it, the poll fails and is tried again."


@dataclass(frozen=True, slots=True)
class WrittenArticles:
    """What became of a chunk of records."""

    refused: dict[int, str]
    "Index of a record -> why it is invalid."
    failed: frozenset[int]
    "Indexes of valid records that the intake could not apply."


class ArticleWriter:
    """Writes and removes the articles of one app."""

    def __init__(
        self, stores: Stores, app_id: str, clock: Clock, may_write: Callable[[], bool] = lambda: True
    ) -> None:
        """`may_write` returns whether no other process may write these articles now."""
        self._stores = stores
        self._app_id = app_id
        self._clock = clock
        self._may_write = may_write
        self._retry = StoreRetry(RETRY_S, clock, random.Random())  # noqa: S311 - for pauses between tries

    async def put(self, records: Sequence[dict[str, Any]]) -> WrittenArticles:
        """Write records and wait until they are applied.

        Errors:
            NotFound, ReadOnly: the app is gone, or takes no writes
            Conflict: another process may write now
            Forbidden: a bound of the app is reached; nothing more is written
        """
        app = await self._app()
        if app.settings.max_storage_mb:
            check_stored_bytes(app, await self._stores.usage.stored_bytes(app.app_id))
        writer = RecordWriter(self._stores, app, "product", self._clock, self._retry)
        checked = await asyncio.to_thread(
            check_records, "product", list(records), 0, _as_it_is, self._clock.now_ms()
        )
        refused = {row.row: row.reason for row in checked.refused}
        failed: set[int] = set()
        for part in checked.parts:
            if not part.rows:
                continue
            submitted, clashing = await writer.submit(part)
            refused |= {row.row: row.reason for row in clashing}
            if submitted is not None and (await self._wait(writer, submitted)).failed:
                # the task does not tell which ones; all are tried again, and those that are in do not change
                failed |= set(submitted.rows)
        return WrittenArticles(refused, frozenset(failed))

    async def remove(self, product_ids: Sequence[str]) -> None:
        """Remove articles and wait until they are gone.

        Errors:
                NotFound, ReadOnly, Conflict, Unavailable: as of `put`
        """
        app = await self._app()
        task_id = new_task_id()
        writer = RecordWriter(self._stores, app, "product", self._clock, self._retry)
        payload = orjson.dumps(list(product_ids))
        await self._retry.call(
            lambda: self._stores.intake.accept(
                self._app_id,
                "product",
                "remove",
                payload,
                task_id=task_id,
                total=len(product_ids),
                now_ms=self._clock.now_ms(),
            )
        )
        task = await self._wait(writer, SubmittedChunk(task_id, len(product_ids), ()))
        if task.status == "failed":
            raise Conflict("the removal of articles could not be applied")

    async def _app(self) -> App:
        """Return the app as it is now."""
        # Asked before every write: the lease may have gone to another poller.
        if not self._may_write():
            raise Conflict("another process polls the feeds now")
        app = (await self._stores.access.read_all()).apps.get(self._app_id)
        if app is None:
            raise NotFound(f"there is no app {self._app_id!r} any more")
        if app.read_only:
            raise ReadOnly(f"the app {self._app_id} takes no writes")
        return app

    async def _wait(self, writer: RecordWriter, submitted: SubmittedChunk) -> Task:
        try:
            return await run_within(writer.wait_for_task(submitted), TASK_S)
        except asyncio.TimeoutError:
            raise Unavailable("the intake does not apply articles") from None


def _as_it_is(row: Mapping[str, Any]) -> dict[str, Any]:
    return dict(row)
