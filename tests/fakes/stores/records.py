"""Records and tasks in dictionaries."""

from __future__ import annotations

from collections.abc import Sequence

from cluster.records.intake import Noun, Task
from cluster.store.data.records import RecordStore
from cluster.store.data.tasks import CHECKED_AT_ONCE, LIFE_S, LOST, TaskStore
from tests.fakes.stores.state import MemoryState, StoredTask


class MemoryRecords(RecordStore):
    """`RecordStore` in dictionaries."""

    def __init__(self, state: MemoryState) -> None:
        self._apps = state.apps

    async def get(self, app_id: str, noun: Noun, record_id: str) -> bytes | None:
        return self._apps[app_id].records[noun].get(record_id)

    async def get_many(self, app_id: str, noun: Noun, record_ids: Sequence[str]) -> list[bytes | None]:
        return [self._apps[app_id].records[noun].get(record_id) for record_id in record_ids]

    async def ids(self, app_id: str, noun: Noun, product_type: str | None = None) -> list[str]:
        app = self._apps[app_id]
        if product_type is None:
            return sorted(app.records[noun])
        return sorted(record_id for record_id, kind in app.product_types.items() if kind == product_type)

    async def page_ids(
        self, app_id: str, noun: Noun, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> list[str]:
        ids = sorted(self._apps[app_id].records[noun])
        return [
            record_id
            for record_id in ids
            if record_id.startswith(prefix) and (not after or record_id > after)
        ][:limit]

    async def count(self, app_id: str, noun: Noun) -> int:
        return len(self._apps[app_id].records[noun])

    async def seen(self, app_id: str, noun: Noun) -> bool:
        return noun in self._apps[app_id].seen

    async def attribute_types(self, app_id: str, noun: Noun) -> dict[str, str]:
        return dict(self._apps[app_id].attribute_types[noun])


class MemoryTasks(TaskStore):
    """`TaskStore` in dictionaries."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    async def get(self, app_id: str, noun: Noun, task_id: str) -> Task | None:
        stored = stored_task(self._state, app_id, task_id)
        return stored.task if stored is not None and stored.task.noun == noun else None

    async def end_lost(self, app_id: str, *, before_ms: int, now_ms: int) -> int:
        app = self._state.apps[app_id]
        tasks = [(task_id, stored_task(self._state, app_id, task_id)) for task_id in list(app.tasks)]
        unfinished = sorted(
            (stored.task.created_at, task_id, stored)
            for task_id, stored in tasks
            if stored is not None and stored.task.finished_at is None and stored.task.created_at < before_ms
        )
        ended = 0
        for _, task_id, stored in unfinished[:CHECKED_AT_ONCE]:
            if app.intake.get(stored.entry_id) is None:
                fail_task(self._state, app_id, task_id, LOST, now_ms)
                ended += 1
        return ended


def stored_task(state: MemoryState, app_id: str, task_id: str) -> StoredTask | None:
    """Find a task that is not forgotten yet."""
    stored = state.apps[app_id].tasks.get(task_id)
    if stored is not None and stored.until_ms <= state.clock.now_ms():
        del state.apps[app_id].tasks[task_id]
        return None
    return stored


def change_task(state: MemoryState, app_id: str, task_id: str, **changes: object) -> None:
    """Write fields of a task that is not forgotten yet, and keep it for another life."""
    stored = stored_task(state, app_id, task_id)
    if stored is not None:
        task = stored.task.model_copy(update=changes)
        until_ms = state.clock.now_ms() + LIFE_S * 1000
        state.apps[app_id].tasks[task_id] = StoredTask(task, stored.entry_id, until_ms)


def fail_task(state: MemoryState, app_id: str, task_id: str, reason: str, now_ms: int) -> None:
    """End a task as failed."""
    stored = stored_task(state, app_id, task_id)
    if stored is not None:
        task = stored.task
        change_task(
            state, app_id, task_id,
            status="failed", failed=task.total - task.succeeded, errors=(*task.errors, reason), finished_at=now_ms,
        )  # fmt: skip
