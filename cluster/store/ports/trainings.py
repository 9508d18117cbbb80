"""The protocols of the stores of training runs, schedules and promotions."""

from __future__ import annotations

from typing import Protocol

from cluster.records.engine import Promotion
from cluster.records.run import Run, Schedule


class RunStore(Protocol):
    """Training runs and their progress (`cluster.records.run` defines the steps)."""

    async def get(self, app_id: str, run_id: str) -> Run | None: ...

    async def compare_and_set(self, run: Run) -> Run | None:
        """Write a run if its stored revision is unchanged (0: none is stored), and return it with the next
        revision; else write nothing and return None. This is the only way to write runs."""
        ...

    async def newest(self, app_id: str, limit: int = 50) -> list[Run]:
        """Return the newest runs, newest first."""
        ...

    async def open(self, app_id: str) -> list[Run]:
        """Return the runs that have not ended, oldest first."""
        ...


class ScheduleStore(Protocol):
    """The schedules of automatic training runs."""

    async def put(self, schedule: Schedule) -> None: ...

    async def remove(self, app_id: str, name: str) -> bool:
        """Remove a schedule; return False when it was absent."""
        ...

    async def all(self, app_id: str) -> list[Schedule]: ...


class PromotionStore(Protocol):
    """The version each engine serves, and the history of promotions."""

    async def promote(self, entry: Promotion) -> bool:
        """Set the engine's serving version to `entry.version` and append the entry to the history, in one
        step.

        Returns False, and writes nothing, when the engine does not exist or no longer serves
        `entry.before`.
        """
        ...

    async def history(self, app_id: str, engine_id: str, limit: int = 100) -> list[Promotion]:
        """Return the promotions of an engine, newest first."""
        ...
