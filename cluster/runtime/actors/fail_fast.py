"""The thread in which an actor works: with it, the actor's process ends, so that Ray starts another."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from cluster.errors import NewerRelease

REFUSED_S = 30.0
"Pause of an actor that may not touch the stored data: Ray starts the next one at once."
STANDSTILL_S = 120.0
"Time without a heartbeat after which an actor's process ends; a step of its loop takes seconds at most."
POLL_S = 5.0

_log = structlog.get_logger()


def run_or_exit(name: str, work: Coroutine[Any, Any, None], end_process: Callable[[int], None]) -> None:
    """Run an actor's work; end the process if it fails."""
    try:
        asyncio.run(work)
    except NewerRelease as error:
        _log.error(f"{name}_refused", reason=error.message)
        time.sleep(REFUSED_S)
        end_process(1)
    # Also SystemExit and cancellation: whatever ended the work, the process goes with it.
    except BaseException as error:  # noqa: BLE001 - without its thread the actor would look healthy
        _log.exception(f"{name}_died", kind=type(error).__name__)
        end_process(1)


def exit_when_stuck(
    name: str, idle_s: Callable[[], float], stopping: threading.Event, end_process: Callable[[int], None]
) -> None:
    """End the process when its loop hangs: a library that never returns is a kind of crash.

    Runs in a thread of its own, because an event loop that hangs can't watch itself.
    """
    while not stopping.wait(POLL_S):
        if idle_s() > STANDSTILL_S:
            _log.error(f"{name}_stuck", still_s=round(idle_s()))
            end_process(1)
