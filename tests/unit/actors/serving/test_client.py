from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from actors.recommender.messages import RecommendationResult, UserQuery
from actors.serving.client import RemoteRecommenderClient
from actors.serving.engine_messages import ENGINE_MESSAGES
from cluster.errors import NewerRelease, NotFound, Refusal, Unavailable

QUERY = UserQuery(kind="user_to_products", app_id="shop", engine_id="big")


class Lost(Exception):
    """What a handle raises when the replica died."""


class Handle:
    """A deployment handle whose answers are written down beforehand."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.calls = 0
        self.answer = self

    def remote(self, payload: bytes) -> Awaitable[Any]:
        assert ENGINE_MESSAGES.decode(payload) == QUERY
        self.calls += 1
        answer = self._answers.pop(0)

        async def come() -> Any:
            if isinstance(answer, Exception):
                raise answer
            return await answer() if callable(answer) else ENGINE_MESSAGES.encode(answer)

        return come()


def never() -> Callable[[], Awaitable[Any]]:
    async def wait() -> None:
        await asyncio.Event().wait()

    return wait


def client(handle: Handle, patience_s: float = 5.0) -> RemoteRecommenderClient:
    return RemoteRecommenderClient(handle, lost=(Lost,), patience_s=patience_s)


async def test_a_query_is_sent_again_when_its_replica_died() -> None:
    handle = Handle(Lost(), RecommendationResult(served_by="other"))
    assert (await client(handle).answer(QUERY)).served_by == "other"
    assert handle.calls == 2


async def test_a_query_is_not_sent_a_third_time() -> None:
    handle = Handle(Lost(), Lost(), RecommendationResult())
    with pytest.raises(Lost):
        await client(handle).answer(QUERY)
    assert handle.calls == 2


async def test_other_errors_and_refusals_are_not_sent_again() -> None:
    for answer, error in (
        (ValueError("ours"), ValueError),
        (Refusal.of(NotFound("engine is not found")), NotFound),
    ):
        handle = Handle(answer)
        with pytest.raises(error):
            await client(handle).answer(QUERY)
        assert handle.calls == 1


async def test_a_deployment_that_stays_silent_is_unavailable_in_time() -> None:
    with pytest.raises(Unavailable) as caught:
        await client(Handle(never()), patience_s=0.02).answer(QUERY)
    assert caught.value.facts["retry_after_s"] == 1


async def test_both_tries_share_one_deadline() -> None:
    async def late() -> None:
        await asyncio.sleep(0.03)
        raise Lost

    loop = asyncio.get_running_loop()
    begin = loop.time()
    with pytest.raises(Unavailable):
        await client(Handle(late, never()), patience_s=0.05).answer(QUERY)
    assert loop.time() - begin < 1


async def test_a_replica_that_cant_read_the_query_leads_to_another_one() -> None:
    refusal = Refusal.of(NewerRelease("a message of type Fuzzy is unknown to this release"))
    handle = Handle(refusal, RecommendationResult(served_by="newer"))
    assert (await client(handle).answer(QUERY)).served_by == "newer"
    with pytest.raises(NewerRelease):
        await client(Handle(refusal, refusal)).answer(QUERY)


class Channel:
    """A line to a replica on this machine."""

    def __init__(self) -> None:
        self.calls = 0

    async def ask(self, question: bytes, within_s: float) -> bytes:
        self.calls += 1
        return ENGINE_MESSAGES.encode(RecommendationResult(served_by="line"))


async def test_a_query_whose_replica_lost_its_power_is_sent_to_another_one() -> None:
    handle = Handle(never(), RecommendationResult(served_by="other"))
    result = await RemoteRecommenderClient(handle, first_try_s=0.01).answer(QUERY)
    assert (result.served_by, handle.calls) == ("other", 2)


async def test_after_a_silence_a_replica_of_this_machine_answers_for_all() -> None:
    handle, channel = Handle(never()), Channel()
    client = RemoteRecommenderClient(handle, first_try_s=0.01, find_spare=lambda: channel)
    for _ in range(3):
        assert (await client.answer(QUERY)).served_by == "line"
    assert (handle.calls, channel.calls) == (1, 3)
