"""Priorities on a busy machine: serving comes first; starting, training and applying yield.

Ray starts every worker with `RAY_worker_niceness`. A ready replica resets its niceness, so starting one (some
seconds of a whole core) does not slow down requests.
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Callable
from pathlib import Path

import structlog

NICENESS = 10
"Niceness of trainings and other background work: serving processes come first."


def lower_priority() -> None:
    """Lower the priority of this process until it ends."""
    os.nice(max(0, NICENESS - os.nice(0)))  # a process that Ray started may be as modest already


def use_idle_priority() -> None:
    """Run only on idle processors: niceness shares a core, which may delay a serving process.

    For background work; it applies to this thread and the threads it starts.
    """
    lower_priority()
    # SCHED_IDLE runs only when no other thread wants the processor; niceness only divides its time.
    with contextlib.suppress(AttributeError, OSError):  # not every system knows it or allows it
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


BACKGROUND_NICENESS = 10
"Niceness of workers until they serve."
VARIABLE = "RAY_worker_niceness"
RAY_NICENESS = 15
"Niceness of Ray workers by default."
_RAYLET = "RAY_RAYLET_PID"
"Ray sets it for every worker."
_CAP_SYS_NICE = 23


def restore_priority(set_priority: Callable[[int, int, int], None] = os.setpriority) -> bool:
    """Reset the niceness that Ray gave this process; return False, without a change, where that is not allowed.

    Niceness belongs to threads; a new thread inherits that of its creator.
    """
    before = os.getpriority(os.PRIO_PROCESS, 0)
    given = int(
        os.environ.get(VARIABLE, RAY_NICENESS if _RAYLET in os.environ and before >= RAY_NICENESS else 0)
    )
    if given <= 0:
        return True
    niceness = before - given
    try:
        # `setpriority` of the process id reaches its main thread only, and Ray has started others by now.
        for thread in os.listdir("/proc/self/task"):
            # A thread may end meanwhile; the others still keep what Ray gave them.
            with contextlib.suppress(ProcessLookupError):
                set_priority(os.PRIO_PROCESS, int(thread), niceness)
    except OSError:
        structlog.get_logger().info("priority_kept", niceness=niceness + given)
        return False
    # a second call must change nothing
    os.environ[VARIABLE] = "0"
    return True


def can_raise_priority(status: Path = Path("/proc/self/status")) -> bool:
    """Return whether this process may take niceness back: not as a plain user of a container, for example."""
    # RLIMIT_NICE counts downwards: a limit of n allows niceness 20 - n, so 20 allows 0.
    if resource.getrlimit(resource.RLIMIT_NICE)[0] >= 20:
        return True
    try:
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
    except OSError:
        return False
    # CapEff is a hexadecimal mask of the effective capabilities, one bit for each number.
    return bool(int(lines.get("CapEff", "0").strip(), 16) >> _CAP_SYS_NICE & 1)
