"""Awaiting with a deadline, without the loss of a cancellation that arrives together with the result.

Before Python 3.12, `asyncio.wait_for` returns the result then, so that a cancelled follower goes on for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def run_within(work: Awaitable[T], within_s: float) -> T:
    """Return the result of an awaitable.

    If a cancellation and a result arrive together, the result is lost: whoever acquires a lock must notice it.

    Errors:
        TimeoutError: it took longer; it was cancelled
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=within_s)
        if task.done():
            return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
    if not task.cancelled():
        return task.result()
    raise asyncio.TimeoutError
