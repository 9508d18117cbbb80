"""Following the log for ever."""

from __future__ import annotations

import asyncio
import contextlib

from actors.hosting.log_follower import LogFollower
from cluster.clock import SystemClock
from cluster.errors import Unavailable


async def test_failures_are_reported_and_do_not_end_the_loop() -> None:
    told: list[str] = []
    turns = iter([True, Unavailable("away", retry_after_s=1), RuntimeError("wrong"), True, True])
    done = asyncio.Event()

    async def note() -> None:
        told.append("noted")

    async def bring_in() -> bool:
        turn = next(turns, None)
        if turn is None:
            done.set()
            await asyncio.Event().wait()
        if isinstance(turn, Exception):
            raise turn
        told.append("read")
        return True

    task = asyncio.create_task(
        LogFollower(
            note,
            bring_in,
            SystemClock(),
            on_miss=lambda: told.append("missed"),
            on_failure=lambda: told.append("failed"),
        ).run()
    )
    await asyncio.wait_for(done.wait(), 10)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    # after the store was away the place is noted anew: others may have trimmed the log meanwhile
    assert told == ["noted", "read", "missed", "noted", "failed", "read", "read"]
