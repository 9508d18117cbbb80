"""Runs, schedules and promotions in dictionaries."""

from __future__ import annotations

from collections.abc import Callable

from cluster.records.engine import Promotion, SnapshotTrial
from cluster.records.run import Run, Schedule
from cluster.store.engines import runs
from cluster.store.engines.promotions import PromotionStore
from cluster.store.engines.runs import RunStore, ScheduleStore
from tests.fakes.stores.state import MemoryState


class MemoryRuns(RunStore):
    """`RunStore` in dictionaries."""

    def __init__(self, state: MemoryState) -> None:
        self._apps = state.apps

    async def get(self, app_id: str, run_id: str) -> Run | None:
        return self._apps[app_id].runs.get(run_id)

    async def compare_and_set(self, run: Run) -> Run | None:
        kept = self._apps[run.app_id].runs
        before = kept.get(run.run_id)
        if (before.revision if before else 0) != run.revision:
            return None
        kept[run.run_id] = after = run.model_copy(update={"revision": run.revision + 1})
        if before is None:
            order = sorted(kept.values(), key=_age)
            for old in order[: max(len(order) - runs.MOST_KEPT, 0)]:
                if old.has_ended:
                    del kept[old.run_id]
        return after

    async def newest(self, app_id: str, limit: int = 50) -> list[Run]:
        return sorted(self._apps[app_id].runs.values(), key=_age, reverse=True)[:limit]

    async def list_open(self, app_id: str) -> list[Run]:
        return sorted((run for run in self._apps[app_id].runs.values() if not run.has_ended), key=_age)


class MemorySchedules(ScheduleStore):
    """`ScheduleStore` in dictionaries."""

    def __init__(self, state: MemoryState) -> None:
        self._apps = state.apps

    async def add(self, schedule: Schedule) -> bool:
        schedules = self._apps[schedule.app_id].schedules
        return schedule.name not in schedules and not schedules.update({schedule.name: schedule})

    async def update(self, app_id: str, name: str, change: Callable[[Schedule], Schedule]) -> Schedule | None:
        before = self._apps[app_id].schedules.get(name)
        if before is not None:
            before = self._apps[app_id].schedules[name] = change(before)
        return before

    async def remove(self, app_id: str, name: str) -> bool:
        return self._apps[app_id].schedules.pop(name, None) is not None

    async def all(self, app_id: str) -> list[Schedule]:
        return [schedule for _, schedule in sorted(self._apps[app_id].schedules.items())]


class MemoryPromotions(PromotionStore):
    """`PromotionStore` in dictionaries."""

    def __init__(self, state: MemoryState) -> None:
        self._apps = state.apps

    async def promote(self, entry: Promotion, trial: SnapshotTrial | None = None) -> bool:
        app = self._apps[entry.app_id]
        engine = app.engines.get(entry.engine_id)
        if engine is None or engine.snapshot != entry.before:
            return False
        app.engines[entry.engine_id] = engine.model_copy(update={"snapshot": entry.version, "trial": trial})
        app.promotions.setdefault(entry.engine_id, []).append(entry)
        return True

    async def history(self, app_id: str, engine_id: str, limit: int = 100) -> list[Promotion]:
        return self._apps[app_id].promotions.get(engine_id, [])[-limit:][::-1]


def _age(run: Run) -> tuple[int, str]:
    return run.created_at, run.run_id
