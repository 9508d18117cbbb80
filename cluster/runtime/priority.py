"""Priorities on a busy machine: serving comes first; starting, training and applying yield.

Ray starts every worker with `RAY_worker_niceness`. A ready replica resets its niceness, so starting one (some
seconds of a whole core) does not slow down requests.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import structlog

BACKGROUND_NICENESS = 10
"Niceness of workers until they serve."
VARIABLE = "RAY_worker_niceness"


def restore_priority(set_priority: Callable[[int, int, int], None] = os.setpriority) -> bool:
    """Reset the niceness that Ray gave this process; return False, without a change, where that is not allowed.

    Niceness belongs to threads; a new thread inherits that of its creator.
    """
    given = int(os.environ.get(VARIABLE, "0"))
    if given <= 0:
        return True
    wanted = os.getpriority(os.PRIO_PROCESS, 0) - given
    try:
        for thread in os.listdir("/proc/self/task"):
            set_priority(os.PRIO_PROCESS, int(thread), wanted)
    except ProcessLookupError:  # a thread ended meanwhile
        return True
    except OSError:
        structlog.get_logger().info("priority_kept", niceness=wanted + given)
        return False
    # a second call must change nothing
    os.environ[VARIABLE] = "0"
    return True
