"""The life of tasks and batches as a state machine: any order of accepting, delivering, applying twice, giving
up and watching must leave the store as the model says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from cluster.store.data.intake import Batch, RecordPut
from cluster.store.stores import Stores
from tests.suites.doing import APP, NOW, body, require

Result = TypeVar("Result")
RECORDS = st.lists(st.sampled_from(["p1", "p2", "p3", "p4"]), min_size=1, max_size=3)
KINDS = st.sampled_from([None, "book", "film"])
CONSUMERS = st.sampled_from(["one", "two", "three"])
TYPES = st.dictionaries(
    st.sampled_from(["size", "weight"]), st.sampled_from(["string", "number"]), max_size=2
)


@dataclass
class Expected:
    """What the model knows of a task."""

    op: str
    record_ids: list[str]
    status: str = "queued"
    succeeded: int = 0
    failed: int = 0


@dataclass
class Opened:
    """Stores under test, how to let a consumer's batches become idle, and how to end."""

    stores: Stores
    pause: Callable[[], Awaitable[None]]
    close: Callable[[], Awaitable[None]]


@dataclass
class Model:
    """What must be true."""

    tasks: dict[str, Expected] = field(default_factory=dict)
    records: dict[str, tuple[bytes, str | None]] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    changes: int = 0

    def waiting(self) -> set[str]:
        return {task_id for task_id, task in self.tasks.items() if task.status in ("queued", "running")}


class IntakeMachine(RuleBasedStateMachine):
    """Subclasses say how to open the stores."""

    batches = Bundle("batches")

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.model = Model()
        self.count = 0
        self.opened: Opened = self.run(self.open())

    async def open(self) -> Opened:
        raise NotImplementedError

    def run(self, step: Awaitable[Result]) -> Result:
        return self.loop.run_until_complete(_awaited(step))

    @property
    def stores(self) -> Stores:
        return self.opened.stores

    def teardown(self) -> None:
        self.run(self.opened.close())
        self.loop.close()

    # --- steps -------------------------------------------------------------------------------------------------

    @rule(record_ids=RECORDS, op=st.sampled_from(["put", "put", "remove"]), types=TYPES)
    def accept(self, record_ids: list[str], op: Any, types: dict[str, str]) -> None:
        task_id = f"t{self.count}"
        self.count += 1
        accepted = self.run(
            self.stores.intake.accept(
                APP, "product", op, orjson.dumps(record_ids), task_id=task_id, total=len(record_ids), now_ms=NOW,
                attribute_types=types,
            )
        )  # fmt: skip
        stored_types = self.model.types
        clashes = {
            name: stored_types[name] for name, kind in types.items() if stored_types.get(name, kind) != kind
        }
        assert dict(accepted.conflicts) == clashes
        if not clashes:
            stored_types.update(types)
            self.model.tasks[task_id] = Expected(op, record_ids)

    @rule(number=st.integers(0, 20))
    def accept_again(self, number: int) -> None:
        if (task_id := f"t{number}") in self.model.tasks:
            self.run(
                self.stores.intake.accept(APP, "product", "put", b"[]", task_id=task_id, total=99, now_ms=NOW)
            )

    @rule(target=batches, consumer=CONSUMERS)
    def claim(self, consumer: str) -> Any:
        self.run(self.opened.pause())
        batches = self.run(self.stores.intake.claim(consumer, [APP], count=100, block_ms=0))
        assert {batch.task_id for batch in batches} == self.model.waiting()
        assert len(batches) == len(self.model.waiting())
        for batch in batches:
            assert orjson.loads(batch.payload) == self.model.tasks[batch.task_id].record_ids
            self.model.tasks[batch.task_id].status = "running"
        return multiple(*batches)

    @rule(batch=batches, kind=KINDS, failed=st.integers(0, 1))
    def apply(self, batch: Batch, kind: str | None, failed: int) -> None:
        task = self.model.tasks[batch.task_id]
        first = batch.task_id in self.model.waiting()
        if task.op == "remove":
            assert self.run(self.stores.intake.apply_remove(batch, task.record_ids, now_ms=NOW)) is first
        else:
            good = task.record_ids[failed:]
            records = [RecordPut(record_id, body(record_id, by=batch.task_id), kind) for record_id in good]
            applied = self.stores.intake.apply_put(
                batch,
                records,
                change_payload=b"[]",
                vectors=b"",
                embedder="",
                failed=["bad"] * failed,
                now_ms=NOW,
            )
            assert self.run(applied) is first
            if first:
                task.failed = failed
        if not first:
            return
        task.status = "finished"
        task.succeeded = len(task.record_ids) - task.failed
        self.model.changes += task.succeeded > 0
        for record_id in task.record_ids[task.failed :]:
            if task.op == "put":
                self.model.records[record_id] = (body(record_id, by=batch.task_id), kind)
            else:
                self.model.records.pop(record_id, None)

    @rule(batch=batches)
    def give_up(self, batch: Batch) -> None:
        task = self.model.tasks[batch.task_id]
        first = batch.task_id in self.model.waiting()
        assert self.run(self.stores.intake.give_up(batch, "poison", now_ms=NOW)) is first
        if first:
            task.status, task.failed = "failed", len(task.record_ids)

    @rule(batch=consumes(batches))
    def forget_a_delivery(self, batch: Batch) -> None:
        """A worker dies with what it held."""

    @rule()
    def watch(self) -> None:
        assert self.run(self.stores.tasks.end_lost(APP, before_ms=NOW + 1, now_ms=NOW)) == 0

    # --- what must hold after every step -----------------------------------------------------------------------

    @invariant()
    def tasks_match_the_model(self) -> None:
        for task_id, expected in self.model.tasks.items():
            task = require(self.run(self.stores.tasks.get(APP, "product", task_id)))
            assert (task.status, task.succeeded, task.failed) == (
                expected.status, expected.succeeded, expected.failed,
            )  # fmt: skip
            assert task.total == len(expected.record_ids)
        assert self.run(self.stores.intake.depth(APP)) == len(self.model.waiting())

    @invariant()
    def records_and_changes_are_those_applied(self) -> None:
        records = self.model.records
        assert self.run(self.stores.records.ids(APP, "product")) == sorted(records)
        names = sorted(records)
        stored = self.run(self.stores.records.get_many(APP, "product", names))
        assert stored == [records[name][0] for name in names]
        for kind in ("book", "film"):
            of_kind = sorted(name for name in records if records[name][1] == kind)
            assert self.run(self.stores.records.ids(APP, "product", kind)) == of_kind
        changes = self.run(self.stores.changes.read(APP, {"product": "0"}, count=1000, block_ms=0))
        assert len(changes) == self.model.changes


async def _awaited(step: Awaitable[Result]) -> Result:
    return await step
