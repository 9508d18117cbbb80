"""Work with a deadline: no cancellation is lost, whichever turn it arrives in."""

from __future__ import annotations

import asyncio

import pytest

from cluster.deadline import run_within


async def _reply(future: asyncio.Future[int]) -> int:
    return await future


@pytest.mark.parametrize("turns", range(6))
async def test_a_cancellation_beside_the_result_is_not_lost(turns: int) -> None:
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def follow() -> None:
        while True:
            await run_within(_reply(future), 5.0)
            await asyncio.Event().wait()

    task = asyncio.ensure_future(follow())
    for _ in range(3):
        await asyncio.sleep(0)
    future.set_result(1)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=1.0)
    assert done
    assert task.cancelled()


async def test_results_errors_and_the_deadline() -> None:
    loop = asyncio.get_running_loop()
    good, bad, never = loop.create_future(), loop.create_future(), loop.create_future()
    good.set_result(7)
    bad.set_exception(ZeroDivisionError())
    assert await run_within(_reply(good), 1.0) == 7
    with pytest.raises(ZeroDivisionError):
        await run_within(_reply(bad), 1.0)
    with pytest.raises(asyncio.TimeoutError):
        await run_within(_reply(never), 0.001)
    assert never.cancelled()


async def test_a_result_that_comes_in_spite_of_the_deadline_is_returned() -> None:
    async def stubborn() -> int:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return 3
        raise AssertionError

    assert await run_within(stubborn(), 0.001) == 3
    with pytest.raises(asyncio.TimeoutError):
        await run_within(asyncio.shield(asyncio.get_running_loop().create_future()), 0.001)
