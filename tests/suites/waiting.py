"""Waiting for what becomes so.

The deadline is generous, because a busy machine is no fault of what is tested. Where the time it took is itself the
expectation, a test asserts on the seconds that are returned.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

PATIENCE_S = 60.0
_REST_S = 0.01


async def until(is_so: Callable[[], bool | Awaitable[bool]], within_s: float = PATIENCE_S) -> float:
    """Ask again and again until something is so; return how many seconds that took."""
    began_s = time.monotonic()
    while True:
        outcome = is_so()
        if await outcome if inspect.isawaitable(outcome) else outcome:
            return time.monotonic() - began_s
        assert time.monotonic() - began_s < within_s, f"it did not come to that within {within_s} s"
        await asyncio.sleep(_REST_S)


def wait_until(is_so: Callable[[], bool], within_s: float = PATIENCE_S) -> float:
    """Ask again and again, where no loop runs, until something is so; return how many seconds that took."""
    began_s = time.monotonic()
    while not is_so():
        assert time.monotonic() - began_s < within_s, f"it did not come to that within {within_s} s"
        time.sleep(_REST_S)
    return time.monotonic() - began_s
