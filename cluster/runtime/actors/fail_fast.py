"""The thread in which an actor works: with it, the actor's process ends, so that Ray starts another."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from cluster.errors import NewerRelease

REFUSED_S = 30.0
"Pause of an actor that may not touch the stored data: Ray starts the next one at once."

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
