"""A deadline for a block of code; it costs a microsecond if the block finishes in time."""

from __future__ import annotations

import asyncio
from types import TracebackType


class DeadlineExceeded(Exception):
    """The block did not finish in time and was cancelled."""


class Deadline:
    """Cancels the current task if the block takes longer than `limit_s`, and raises `DeadlineExceeded`.

    Cancellations from outside remain cancellations. Unlike `asyncio.wait_for` it creates no task.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[object] | None = None
        self._fired = False

    def __enter__(self) -> Deadline:
        task = asyncio.current_task()
        assert task is not None, "a deadline needs a task to cancel"
        self._task = task
        self._timer = asyncio.get_running_loop().call_later(self._limit_s, self._fire)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._timer is not None
        self._timer.cancel()
        if self._fired and kind is asyncio.CancelledError:
            # From Python 3.11 on a task counts its cancellations; this one is handled.
            getattr(self._task, "uncancel", int)()
            raise DeadlineExceeded from None

    def _fire(self) -> None:
        assert self._task is not None
        self._fired = True
        self._task.cancel()
