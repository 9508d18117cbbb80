"""The outcome of accepted uploads and deletes."""

from __future__ import annotations

from typing import Any

import orjson
import structlog

from cluster.records.intake import Noun, Task
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.replies import name_of, split_pairs, text_of
from cluster.store.client.script import Script

LIFE_S = 24 * 3600
"How long a task can be read after its status last changed."
LOST = "the batch was lost before it was applied; upload it again"
CHECKED_AT_ONCE = 10
"Tasks of one watchdog step: the script reads each one's batch if it still exists."

_log = structlog.get_logger()

_END_LOST = Script.load("end_lost")


class TaskStore:
    """The outcome of accepted batches, for 24 hours."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def get(self, app_id: str, noun: Noun, task_id: str) -> Task | None:
        """Read a task; None when it is unknown, too old, or of another noun."""
        # Often read while the server writes the task's batch, so the deadline is longer.
        flat = await self._server.execute_slow("HGETALL", keys.task(app_id, task_id))
        fields = {text_of(name): text_of(value) for name, value in split_pairs(flat)}
        try:
            return task_from_fields(task_id, fields) if fields.get("noun") == noun else None
        except (KeyError, ValueError):
            _log.error("task_unreadable", app=app_id, noun=noun)
            return None

    async def end_lost(self, app_id: str, *, before_ms: int, now_ms: int) -> int:
        """End tasks created before a time whose batch disappeared without being applied.

        A few at a time, oldest first; returns the number of tasks ended.
        """
        members = await self._server.execute_slow(
            "ZRANGEBYSCORE", keys.task_open(app_id), "-inf", f"({before_ms}", "LIMIT", 0, CHECKED_AT_ONCE
        )
        task_ids = [name_of(member) for member in members]
        if not task_ids:
            return 0
        names = [keys.task(app_id, task_id) for task_id in task_ids]
        ended: int = await self._server.run(
            _END_LOST,
            [keys.intake(app_id), keys.task_open(app_id), *names],
            [now_ms, LIFE_S, orjson.dumps([LOST]), *task_ids],
        )
        return ended


def task_from_fields(task_id: str, fields: dict[str, Any]) -> Task:
    """Return a task from the fields of its hash."""
    errors = orjson.loads(fields.get("errors") or "[]") + orjson.loads(fields.get("late_errors") or "[]")
    finished_at = fields.get("finished_at")
    return Task(
        task_id=task_id,
        noun=fields["noun"],
        type=fields["type"],
        status=fields["status"],
        total=int(fields["total"]),
        succeeded=int(fields["succeeded"]),
        failed=int(fields["failed"]),
        errors=tuple(errors),
        created_at=int(fields["created_at"]),
        finished_at=None if finished_at is None else int(finished_at),
    )
