"""Lower the priority of a process below serving processes of the same machine."""

from __future__ import annotations

import contextlib
import os

NICENESS = 10
"Serving processes come first."


def lower_priority() -> None:
    """Lower the priority of this process until it ends."""
    os.nice(max(0, NICENESS - os.nice(0)))  # a process that Ray started may be as modest already


def use_idle_priority() -> None:
    """Run only on idle processors: niceness shares a core, which may delay a serving process.

    For background work; it applies to this thread and the threads it starts.
    """
    lower_priority()
    with contextlib.suppress(AttributeError, OSError):  # not every system knows it or allows it
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
