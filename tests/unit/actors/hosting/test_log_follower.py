"""Following a log until the process ends."""

from __future__ import annotations

import asyncio
import contextlib

from actors.hosting.log_follower import LogFollower
from cluster.clock import SystemClock
from cluster.errors import Unavailable


async def test_failures_are_reported_and_do_not_end_the_loop() -> None:
    events: list[str] = []
    turns = iter([True, Unavailable("away", retry_after_s=1), RuntimeError("wrong"), True, True])
    done = asyncio.Event()

    async def report_offset() -> None:
        events.append("reported")

    async def apply_next() -> bool:
        turn = next(turns, None)
        if turn is None:
            done.set()
            await asyncio.Event().wait()
        if isinstance(turn, Exception):
            raise turn
        events.append("applied")
        return True

    task = asyncio.create_task(
        LogFollower(
            apply_next,
            SystemClock(),
            on_miss=lambda error: events.append(f"missed: {error.message}"),
            on_failure=lambda: events.append("failed"),
            report_offset=report_offset,
        ).run()
    )
    await asyncio.wait_for(done.wait(), 10)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    # after the store was unreachable the offset is reported again: others may have trimmed the log meanwhile
    assert events == ["reported", "applied", "missed: away", "reported", "failed", "applied", "applied"]


async def test_the_loop_ends_in_its_pause_when_it_is_stopped() -> None:
    stopping, rounds = asyncio.Event(), 0

    async def apply_next() -> bool:
        nonlocal rounds
        rounds += 1
        return False

    follower = LogFollower(
        apply_next, SystemClock(), on_miss=lambda _: None, on_failure=lambda: None, pace_s=60, retry_s=60
    )
    task = asyncio.create_task(follower.run(stopping))
    await asyncio.sleep(0)
    assert not task.done()
    stopping.set()
    await asyncio.wait_for(task, 5)
    assert rounds == 1
