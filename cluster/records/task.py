"""Tasks: the outcome of an accepted upload or delete."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

TaskStatus = Literal["queued", "running", "finished", "failed"]


class Task(BaseModel):
    """Progress of one upload or delete, kept for 24 hours."""

    model_config = ConfigDict(frozen=True)

    task_id: str
    noun: str
    type: Literal["upload", "delete"]
    status: TaskStatus
    total: int
    succeeded: int = 0
    failed: int = 0
    errors: tuple[str, ...] = ()
    "One message per failed record, in the upload grammar."
    created_at: int = 0
    finished_at: int | None = None
