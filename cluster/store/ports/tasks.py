"""The protocol of the store of tasks."""

from __future__ import annotations

from typing import Protocol

from cluster.records.intake import Task
from cluster.store.ports.changes import Noun


class TaskStore(Protocol):
    """The outcome of accepted batches, for 24 hours."""

    async def get(self, app_id: str, noun: Noun, task_id: str) -> Task | None:
        """Read a task; None when it is unknown, too old, or of another noun."""
        ...

    async def end_lost(self, app_id: str, *, before_ms: int, now_ms: int) -> int:
        """End tasks created before a time whose batch disappeared without being applied.

        A few at a time, oldest first; returns the number of tasks ended.
        """
        ...
