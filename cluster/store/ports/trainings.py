"""What the stores of trainings promise; part of `ports`, and kept to the same rules."""

from __future__ import annotations

from typing import Protocol

from cluster.records.promotion import Promotion
from cluster.records.run import Run
from cluster.records.schedule import Schedule


class RunStore(Protocol):
    """Trainings and how far they are (`cluster.records.run` knows the steps)."""

    async def get(self, app_id: str, run_id: str) -> Run | None: ...

    async def compare_and_set(self, run: Run) -> Run | None:
        """Write a run whose stored revision is still this one's (0: none is stored), and return it with the
        next revision; None when somebody else wrote it meanwhile. This is the one way to write runs."""
        ...

    async def newest(self, app_id: str, limit: int = 50) -> list[Run]:
        """The newest runs, newest first."""
        ...

    async def open(self, app_id: str) -> list[Run]:
        """Runs that have not ended, oldest first."""
        ...


class ScheduleStore(Protocol):
    """When engines are trained by themselves."""

    async def put(self, schedule: Schedule) -> None: ...

    async def remove(self, app_id: str, name: str) -> bool:
        """Remove one; False when it was not there."""
        ...

    async def all(self, app_id: str) -> list[Schedule]: ...


class PromotionStore(Protocol):
    """Which snapshot serves, and the history of that."""

    async def promote(self, entry: Promotion) -> bool:
        """Let `entry.version` serve and append the entry to the history, in one step.

        False, and nothing is written, when the engine does not exist or serves something else than
        `entry.before` by now.
        """
        ...

    async def history(self, app_id: str, engine_id: str, limit: int = 100) -> list[Promotion]:
        """What served when, newest first."""
        ...
