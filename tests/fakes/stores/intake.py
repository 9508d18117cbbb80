"""Accepted batches in dictionaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import orjson

from cluster.errors import TooMany
from cluster.ids import DEFAULT_ENGINE, record_key_from_id
from cluster.records.engine import Engine
from cluster.records.erasure import RemovedRecords
from cluster.records.intake import Noun, Op, Task
from cluster.records.logged_query import pseudonym
from cluster.store.data.intake import (
    IDLE_MS,
    MOST_WAITING,
    Batch,
    Intake,
    IntakeReceipt,
    RecordPut,
    split_change,
)
from cluster.store.data.tasks import LIFE_S
from tests.fakes.stores.records import change_task, fail_task, stored_task
from tests.fakes.stores.state import (
    ClaimedBatch,
    LoggedChange,
    MemoryState,
    QueuedBatch,
    StoredTask,
    offset_of,
)


class MemoryIntake(Intake):
    """`Intake` in dictionaries."""

    def __init__(
        self, state: MemoryState, *, idle_ms: int = IDLE_MS, most_waiting: int = MOST_WAITING
    ) -> None:
        self._state = state
        self._idle_s = idle_ms / 1000
        self._most_waiting = most_waiting

    async def accept(
        self,
        app_id: str,
        noun: Noun,
        op: Op,
        payload: bytes,
        *,
        task_id: str,
        total: int,
        now_ms: int,
        attribute_types: Mapping[str, str] | None = None,
        errors: Sequence[str] = (),
    ) -> IntakeReceipt:
        app = self._state.apps[app_id]
        if stored_task(self._state, app_id, task_id) is not None:
            return IntakeReceipt(task_id)
        if len(app.intake) >= self._most_waiting:
            raise TooMany("too many uploads are waiting", retry_after_s=5)
        given_types = dict(attribute_types or {})
        stored_types = app.attribute_types[noun]
        clashes = {
            name: stored_types[name]
            for name, kind in given_types.items()
            if stored_types.get(name, kind) != kind
        }
        if clashes:
            return IntakeReceipt(task_id, clashes)
        stored_types.update(given_types)
        clock = self._state.clock
        entry_id = app.intake.add(QueuedBatch(noun, op, task_id, payload), clock.now_ms())
        task = Task(
            task_id=task_id,
            noun=noun,
            type="upload" if op == "put" else "delete",
            status="queued",
            total=total,
            failed=len(errors),
            errors=tuple(errors),
            created_at=now_ms,
        )
        app.tasks[task_id] = StoredTask(task, entry_id, clock.now_ms() + LIFE_S * 1000)
        if op == "put":
            app.seen.add(noun)
        else:
            app.deleted_records |= {(noun, record_id): now_ms for record_id in orjson.loads(payload)}
        self._state.bell.ring()
        return IntakeReceipt(task_id)

    async def deleted_since(self, app_id: str, noun: Noun, since_ms: int) -> RemovedRecords:
        deleted = self._state.apps[app_id].deleted_records.items()
        ids = [record_id for (of, record_id), at in deleted if of == noun and at >= since_ms]
        return RemovedRecords(b"", [pseudonym(b"", record_key_from_id(noun, record_id)) for record_id in ids])

    async def claim(self, consumer: str, app_ids: Sequence[str], *, count: int, block_ms: int) -> list[Batch]:
        until_s = self._state.clock.monotonic_s() + block_ms / 1000
        while True:
            batches = [
                batch for app_id in app_ids for batch in self._claim_without_waiting(consumer, app_id, count)
            ]
            left_s = until_s - self._state.clock.monotonic_s()
            if batches or left_s <= 0 or not await self._state.bell.wait(left_s):
                return batches

    async def apply_put(
        self,
        batch: Batch,
        records: Sequence[RecordPut],
        *,
        change_payload: bytes,
        vectors: bytes,
        embedder: str,
        failed: Sequence[str],
        now_ms: int,
        set_aside: Sequence[bytes] = (),
    ) -> bool:
        app = self._state.apps[batch.app_id]
        if not self._take_out(batch):
            return False
        for record in records:
            app.records[batch.noun][record.record_id] = record.json
            if batch.noun == "product":
                app.product_types.pop(record.record_id, None)
                if record.product_type is not None:
                    app.product_types[record.record_id] = record.product_type
        if records:
            products = batch.noun == "product"
            if products:
                engine = Engine(app_id=batch.app_id, engine_id=DEFAULT_ENGINE, created_at=now_ms)
                app.engines.setdefault(DEFAULT_ENGINE, engine)
            for payload, part in split_change(records, change_payload, vectors):
                entry = (
                    LoggedChange("put", payload, part, embedder) if products else LoggedChange("put", payload)
                )
                self._state.log(batch.app_id, batch.noun, entry)
        self._finish(batch, len(records), failed, now_ms)
        app.quarantine += [
            {"kind": "record", "noun": batch.noun, "id": batch.task_id, "reason": reason, "payload": record}
            for reason, record in zip(failed, set_aside, strict=False)
        ]
        return True

    async def apply_remove(self, batch: Batch, record_ids: Sequence[str], *, now_ms: int) -> bool:
        app = self._state.apps[batch.app_id]
        if not self._take_out(batch):
            return False
        for record_id in record_ids:
            app.records[batch.noun].pop(record_id, None)
            if batch.noun == "product":
                app.product_types.pop(record_id, None)
        if record_ids:
            self._state.log(batch.app_id, batch.noun, LoggedChange("remove", orjson.dumps(list(record_ids))))
        self._finish(batch, len(record_ids), (), now_ms)
        return True

    async def give_up(self, batch: Batch, reason: str, *, now_ms: int) -> bool:
        if not self._take_out(batch):
            return False
        self._state.apps[batch.app_id].quarantine.append(
            {
                "kind": "batch",
                "noun": batch.noun,
                "id": batch.task_id,
                "reason": reason,
                "payload": batch.payload,
            }
        )
        fail_task(self._state, batch.app_id, batch.task_id, reason, now_ms)
        return True

    async def depth(self, app_id: str) -> int:
        return len(self._state.apps[app_id].intake)

    def _take_out(self, batch: Batch) -> bool:
        app = self._state.apps[batch.app_id]
        app.claims.pop(batch.entry_id, None)
        return app.intake.remove(batch.entry_id)

    def _finish(self, batch: Batch, succeeded: int, failed: Sequence[str], now_ms: int) -> None:
        stored = stored_task(self._state, batch.app_id, batch.task_id)
        if stored is not None:
            task = stored.task
            change_task(
                self._state, batch.app_id, batch.task_id,
                status="finished", succeeded=task.succeeded + succeeded, failed=task.failed + len(failed),
                errors=(*task.errors, *failed), finished_at=now_ms,
            )  # fmt: skip

    def _claim_without_waiting(self, consumer: str, app_id: str, count: int) -> list[Batch]:
        app = self._state.apps[app_id]
        now_s = self._state.clock.monotonic_s()
        claims = sorted(app.claims.items(), key=lambda item: offset_of(item[0]))
        claimed = [entry_id for entry_id, holder in claims if holder.consumer == consumer]
        idle = [
            entry_id
            for entry_id, holder in claims
            if holder.consumer != consumer and now_s - holder.at_s >= self._idle_s
        ]
        chosen = (claimed + idle)[:count]
        fresh = [entry_id for entry_id, _ in app.intake.after(app.delivered, count - len(chosen))]
        if fresh:
            app.delivered = fresh[-1]
        return [self._hand_out(consumer, app_id, entry_id, now_s) for entry_id in (*chosen, *fresh)]

    def _hand_out(self, consumer: str, app_id: str, entry_id: str, now_s: float) -> Batch:
        app = self._state.apps[app_id]
        deliveries = app.claims[entry_id].deliveries + 1 if entry_id in app.claims else 1
        app.claims[entry_id] = ClaimedBatch(consumer, now_s, deliveries)
        queued = app.intake.get(entry_id)
        assert queued is not None, "what is held stands in the intake"
        stored = stored_task(self._state, app_id, queued.task_id)
        if stored is not None and stored.task.status == "queued":
            task = stored.task.model_copy(update={"status": "running"})
            app.tasks[queued.task_id] = StoredTask(task, entry_id, stored.until_ms)
        return Batch(
            app_id=app_id,
            entry_id=entry_id,
            noun=cast(Noun, queued.noun),
            op=cast(Op, queued.op),
            task_id=queued.task_id,
            payload=queued.payload,
            deliveries=deliveries,
        )
