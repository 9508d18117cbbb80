"""Lower the priority of a process below those that serve on the same machine."""

from __future__ import annotations

import contextlib
import os

NICENESS = 10
"Whoever serves comes first."


def lower_priority() -> None:
    """Lower the priority of this process until it ends."""
    os.nice(max(0, NICENESS - os.nice(0)))  # a process that Ray started may be as modest already


def use_idle_priority() -> None:
    """Run only where nobody else wants to: niceness shares a core, so that whoever serves may wait for its turn.

    For work nobody sits and waits for; it holds for this thread and those it starts.
    """
    lower_priority()
    with contextlib.suppress(AttributeError, OSError):  # not every system knows it or allows it
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
