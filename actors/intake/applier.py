"""Apply one batch to the store, exactly once in effect; give up batches that keep failing, and end lost tasks.

The store's script writes records, change and task and acknowledges the batch in one step. After a crash before that
step, the batch is applied again; after a crash behind it, the result is `already`. The applier gives up a batch that
fails, or kills the process, at its fifth delivery. The batch goes to quarantine, and its task ends as failed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Literal

import structlog

from actors.intake.batch_preparation import PreparedBatch, parse_removed_ids, prepare_batch
from actors.language.hashing_embedder import Embedder
from cluster.clock import Clock
from cluster.errors import Fault, Unavailable
from cluster.meter import Meter
from cluster.store.data.intake import Batch, Intake
from cluster.store.stores import Stores

BatchOutcome = Literal["applied", "already", "given_up"]

MAX_DELIVERIES = 5


class BatchApplier:
    """Applies batches of any app."""

    def __init__(
        self,
        intake: Intake,
        embedder: Embedder,
        clock: Clock,
        meter: Meter,
    ) -> None:
        self._intake = intake
        self._embedder = embedder
        self._clock = clock
        self._meter = meter
        # In memory only: another process counts these deliveries, and may give a batch up earlier.
        self._excused: dict[tuple[str, str], int] = {}
        "App and entry -> deliveries that do not count as failures of the batch."
        self._log = structlog.get_logger()

    async def apply(self, batch: Batch) -> BatchOutcome:
        """Apply one batch; afterwards the batch's task is terminal.

        Errors:
            Unavailable: the store is unreachable; the batch stays and does not count as failed
            Exception: the batch failed and will be delivered again
        """
        # An error at the last delivery gives the batch up below, so here that delivery came to no end.
        if self._failures(batch) > MAX_DELIVERIES:
            return await self._give_up(batch, "the process ended every time it was tried")
        started_s = self._clock.monotonic_s()
        try:
            outcome = await self._write(batch)
        except Unavailable:
            # The store failed, not the batch: it must not be given up after five outages.
            self.discount_delivery(batch)
            raise
        except Exception as error:
            if self._failures(batch) < MAX_DELIVERIES:
                raise
            return await self._give_up(batch, f"{type(error).__name__}: {error}"[:500])
        self._excused.pop(_key(batch), None)
        self._meter.time(
            "kiosk_intake_batch_ms", (self._clock.monotonic_s() - started_s) * 1000, noun=batch.noun
        )
        return outcome

    def discount_delivery(self, batch: Batch) -> None:
        """Exclude a delivery from the failures of a batch: it was not tried, or the store was unreachable."""
        self._excused[_key(batch)] = self._excused.get(_key(batch), 0) + 1

    def _failures(self, batch: Batch) -> int:
        return batch.deliveries - self._excused.get(_key(batch), 0)

    async def _write(self, batch: Batch) -> BatchOutcome:
        if batch.op == "remove":
            record_ids = parse_removed_ids(batch.payload)
            written = await self._intake.apply_remove(batch, record_ids, now_ms=self._clock.now_ms())
            count = len(record_ids)
        elif batch.op == "put":
            prepared = await self._prepare(batch)
            written = await self._intake.apply_put(
                batch,
                prepared.records,
                change_payload=prepared.change_payload,
                vectors=prepared.vectors,
                embedder=prepared.embedder,
                failed=prepared.failed,
                now_ms=self._clock.now_ms(),
                set_aside=prepared.set_aside,
            )
            count = len(prepared.records)
            if prepared.failed:
                self._meter.count("kiosk_intake_refused_records", len(prepared.failed), noun=batch.noun)
                self._log.warning(
                    "records_set_aside", app=batch.app_id, noun=batch.noun, records=len(prepared.failed)
                )
        else:
            raise Fault(f"batch asks for {batch.op!r}, which the intake does not do")
        if written:
            self._meter.count("kiosk_intake_records", count, noun=batch.noun, op=batch.op)
        return "applied" if written else "already"

    async def _prepare(self, batch: Batch) -> PreparedBatch:
        if batch.noun == "product":  # embedding takes milliseconds; heartbeats continue meanwhile
            return await asyncio.to_thread(prepare_batch, batch.noun, batch.payload, self._embedder)
        return prepare_batch(batch.noun, batch.payload, self._embedder)

    async def _give_up(self, batch: Batch, reason: str) -> BatchOutcome:
        given = await self._intake.give_up(batch, reason, now_ms=self._clock.now_ms())
        self._excused.pop(_key(batch), None)
        self._meter.count("kiosk_intake_given_up_batches", noun=batch.noun)
        self._log.error(
            "batch_given_up", app=batch.app_id, noun=batch.noun, entry=batch.entry_id, reason=reason
        )
        return "given_up" if given else "already"


def _key(batch: Batch) -> tuple[str, str]:
    return batch.app_id, batch.entry_id


MIN_AGE_MS = 15_000
"Minimal age of a task that may be ended."


class LostTaskSweeper:
    """Ends lost tasks, and reports the depth of the queue of each app."""

    def __init__(self, stores: Stores, clock: Clock, meter: Meter) -> None:
        self._tasks = stores.tasks
        self._intake = stores.intake
        self._clock = clock
        self._meter = meter
        self._measured: set[str] = set()
        self._log = structlog.get_logger()

    async def run_once(self, app_ids: Iterable[str]) -> int:
        """Check the oldest open tasks of every app and measure the queue; return how many tasks were ended."""
        ended = 0
        # A set: an iterator could be read once only, and it is needed twice.
        app_ids = set(app_ids)
        self._stop_measuring(self._measured - app_ids)
        for app_id in sorted(app_ids):
            now_ms = self._clock.now_ms()
            lost = await self._tasks.end_lost(app_id, before_ms=now_ms - MIN_AGE_MS, now_ms=now_ms)
            if lost:
                self._log.error("tasks_lost", app=app_id, tasks=lost)
                self._meter.count("kiosk_lost_tasks", lost, app=app_id)
            ended += lost
            self._meter.gauge("kiosk_intake_depth", await self._intake.depth(app_id), app=app_id)
            self._measured.add(app_id)
        return ended

    def clear(self) -> None:
        """Stop reporting queues, because another process reports them."""
        self._stop_measuring(set(self._measured))

    def _stop_measuring(self, app_ids: set[str]) -> None:
        for app_id in app_ids:
            self._meter.remove_gauge("kiosk_intake_depth", app=app_id)
        self._measured -= app_ids
