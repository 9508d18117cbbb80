"""Who comes first on a busy machine: what serves; what is being started, trains or applies gives way.

Ray starts every worker with `RAY_worker_niceness`. A replica that is ready takes that back, so that starting one (some
seconds of a whole core) slows down nobody who is being served.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import structlog

BACKGROUND_NICENESS = 10
"Niceness of workers until they serve."
VARIABLE = "RAY_worker_niceness"


def restore_priority(set_priority: Callable[[int, int, int], None] = os.setpriority) -> bool:
    """Take the niceness back that Ray gave this process; False where that is not allowed, and nothing changes.

    Niceness belongs to threads; those started later have that of the one that starts them.
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
    # a second call must not go further
    os.environ[VARIABLE] = "0"
    return True
