"""Progress of a start: the state of each stage, and whether anything changes at all.

A busy machine needs many times as long as a quiet one, so there is no fixed limit: a stage is abandoned when
nothing new was observed for `STALLED_S`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

import psutil
import structlog

STALLED_S = 240.0
"Seconds without any change after which a stage has stalled."
LOOK_EVERY_S = 0.5
WORKED_S = 0.5
"Processor seconds that count as progress of a process that is only observed from outside."


class StallTimer:
    """Bounds the time without progress: without a new observation, so that repeated states are no progress."""

    def __init__(self, limit_s: float = STALLED_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self._seen: set[Hashable] = set()
        self._moved_at = clock()

    def record(self, seen: Hashable) -> bool:
        """Record an observation; return whether it is new."""
        # A set and not the last value: a part that restarts for ever repeats its states and has stalled.
        if seen in self._seen:
            return False
        self._seen.add(seen)
        self._moved_at = self._clock()
        return True

    @property
    def is_over(self) -> bool:
        """Return whether nothing new was observed for too long."""
        return self._clock() - self._moved_at > self._limit_s


def count_work_steps(pid: int) -> int:
    """Return the steps of `WORKED_S` that a process and its children have worked; 0 when it has ended."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0
    # Rounded down to steps, so that an idle process with its few milliseconds shows no progress.
    return int((times.user + times.system + times.children_user + times.children_system) / WORKED_S)


@contextmanager
def report_changes(look: Callable[[], str], report: Callable[[str], None]) -> Iterator[None]:
    """Report the result of `look` whenever it changes, as long as the block runs."""
    ended = threading.Event()

    def watch() -> None:
        before = ""
        while not ended.wait(LOOK_EVERY_S):
            try:
                seen = look()
            except Exception as error:  # noqa: BLE001 - the observed process may be half started; the stage goes on
                structlog.get_logger().debug("progress_not_seen", reason=str(error))
                continue
            # Ended meanwhile: a late report would appear after the next stage has begun.
            if seen and seen != before and not ended.is_set():
                before = seen
                report(seen)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join(5.0)
