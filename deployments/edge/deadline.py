"""A deadline for a block of code that costs a microsecond while it is kept."""

from __future__ import annotations

import asyncio
from types import TracebackType


class DeadlineExceeded(Exception):
    """The block did not finish in time and was cancelled."""


class Deadline:
    """Cancels the current task when the block takes longer than `limit_s`, and says so by `DeadlineExceeded`.

    A cancellation from outside stays one. Unlike `asyncio.wait_for` it makes no task of its own.
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
            # From Python 3.11 on a task counts its cancellations; this one is dealt with.
            getattr(self._task, "uncancel", int)()
            raise DeadlineExceeded from None

    def _fire(self) -> None:
        assert self._task is not None
        self._fired = True
        self._task.cancel()
