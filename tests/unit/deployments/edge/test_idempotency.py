from __future__ import annotations

import asyncio

import pytest

from cluster.errors import Conflict, KioskError, Unavailable, Unprocessable
from cluster.store.data.idempotency import IdempotencyStore
from deployments.edge.access.idempotency import KeyOwner, answer_once
from deployments.edge.http.replies import Reply
from tests.fakes.request_handler import StillClock
from tests.fakes.stores.memory import memory_stores

OWNER = KeyOwner("shop", "key-1")


class Write:
    """A write that counts how often it happened."""

    def __init__(self) -> None:
        self.done = 0
        self.error: KioskError | None = None
        self.status = 200

    async def __call__(self) -> Reply:
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        self.done += 1
        return Reply(self.status, b'{"task":%d}' % self.done)


def refused(error: KioskError) -> Reply:
    return Reply(422 if isinstance(error, Unprocessable) else 503, error.message.encode())


@pytest.fixture
def store(clock: StillClock) -> IdempotencyStore:
    return memory_stores(clock).idempotency


async def run(
    store: IdempotencyStore, write: Write, body: bytes = b"{}", key: bytes = b"k-1", app: str = "shop"
) -> Reply:
    return await answer_once(
        store, KeyOwner(app, "key-1"), key, (b"POST", b"/v1/users", body), write, refused
    )


async def test_the_same_request_twice_happens_once(store: IdempotencyStore) -> None:
    write = Write()
    first, second = await run(store, write), await run(store, write)
    assert (write.done, second.status, second.body) == (1, first.status, first.body)
    assert second.headers == ((b"idempotency-replayed", b"true"),)


async def test_another_body_under_the_same_key_is_refused(store: IdempotencyStore) -> None:
    write = Write()
    await run(store, write)
    with pytest.raises(Unprocessable, match="another request"):
        await run(store, write, b"{ }")
    assert write.done == 1


async def test_keys_of_different_apps_do_not_meet(store: IdempotencyStore) -> None:
    write = Write()
    await run(store, write)
    await run(store, write, b"other", app="other")
    assert write.done == 2


async def test_the_second_of_two_simultaneous_requests_gets_a_retry_answer(store: IdempotencyStore) -> None:
    write = Write()
    outcomes = await asyncio.gather(run(store, write), run(store, write), return_exceptions=True)
    assert write.done == 1
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["Conflict", "Reply"]
    assert isinstance(outcomes[1], Conflict)


async def test_a_refusal_is_an_answer_to_repeat(store: IdempotencyStore) -> None:
    write = Write()
    write.error = Unprocessable("bad record")
    assert (await run(store, write)).status == 422
    write.error = None
    assert (await run(store, write)).body == b"bad record"
    assert write.done == 0


async def test_a_failure_is_forgotten_so_that_a_retry_may_succeed(store: IdempotencyStore) -> None:
    write = Write()
    write.error = Unavailable("away")
    assert (await run(store, write)).status == 503
    write.error = None
    assert (await run(store, write)).status == 200
    assert write.done == 1


async def test_a_write_that_crashes_or_is_cancelled_leaves_no_trace(store: IdempotencyStore) -> None:
    async def crash() -> Reply:
        raise RuntimeError

    with pytest.raises(RuntimeError):
        await answer_once(store, OWNER, b"k-1", (b"x",), crash, refused)

    async def hang() -> Reply:
        await asyncio.sleep(10)
        raise AssertionError

    task = asyncio.ensure_future(answer_once(store, OWNER, b"k-1", (b"x",), hang, refused))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await run(store, Write())).status == 200


async def test_answers_are_repeated_for_a_day(store: IdempotencyStore, clock: StillClock) -> None:
    write = Write()
    await run(store, write)
    clock.pass_ms(23 * 3_600_000)
    await run(store, write)
    assert write.done == 1
    clock.pass_ms(2 * 3_600_000)
    await run(store, write)
    assert write.done == 2


@pytest.mark.parametrize("key", [b"", b"a" * 256, b"a b", b"a\x7f", b"\xc3\xa9"])
async def test_a_key_has_a_form(store: IdempotencyStore, key: bytes) -> None:
    with pytest.raises(Unprocessable):
        await run(store, Write(), key=key)
