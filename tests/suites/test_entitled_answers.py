"""Entitled answers over Redis and two API replicas: what opens, what closes within a second, and what is erased."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from cluster.clock import SystemClock
from cluster.records.erasure import Person
from cluster.records.question import entitled_answer_id
from cluster.store.connect import OpenStores
from cluster.store.data.person_traces import PersonTraces, erase_all
from deployments.api.http.application import build_application
from deployments.api.http.hot import HotPathMiddleware
from tests.contract.test_ask import Desk
from tests.fakes.corner_shop import upload
from tests.fakes.request_handler import Corner, open_corner
from tests.fakes.small_archive import ARTICLES
from tests.suites.waiting import until

pytestmark = pytest.mark.redis

QUESTION = "Who signed the treaty about the water of the river?"
LOCKED = [
    {**article, "access": "subscriber"} if article["product_id"] == "river-treaty" else article
    for article in ARTICLES
]


@pytest.fixture
async def replicas(redis_stores: OpenStores) -> AsyncIterator[list[Desk]]:
    """Two API replicas over one Redis, with keys of one installation and the clock of the machine."""
    await upload(redis_stores, LOCKED, app_id="shop")
    async with AsyncExitStack() as stack:
        corners: list[Corner] = []
        for _ in range(2):
            corner = await open_corner(clock=SystemClock(), stores=redis_stores)
            corners.append(corner)
            stack.push_async_callback(corner.close)
            await corner.asking.start()
        corners[0].keys = corners[1].keys
        await corners[0].keyring.refresh()
        yield [
            Desk(
                corner,
                HotPathMiddleware(
                    build_application(corner.handler, version="0"),
                    lambda corner=corner: corner.handler,  # type: ignore[misc]
                ),
            )
            for corner in corners
        ]


def token_for(*tiers: str, seconds: int = 600, user_id: str = "gina") -> dict[str, Any]:
    return {"user_id": user_id, "tiers": list(tiers), "exp": SystemClock().now_ms() // 1000 + seconds}


async def poll(replica: Desk, question_id: str, token: Any = None) -> dict[str, Any]:
    reply = await replica.get(f"questions/{question_id}/answer", browser=True, token=token)
    assert reply.status == 200, reply.body
    record: dict[str, Any] = reply.json()["data"]
    return record


async def is_open(replica: Desk, question_id: str, token: Any = None) -> bool:
    """Return whether a finished answer quotes the locked article."""
    record: dict[str, Any] = {}

    async def finished() -> bool:
        record.update(await poll(replica, question_id, token))
        return bool(record["finished"])

    await until(finished)
    assert ("signed a treaty" in record["answer"]) == (
        [source["product_id"] for source in record["sources"]] == ["river-treaty"]
    )
    return "signed a treaty" in record["answer"]


async def test_an_answer_is_open_to_its_asker_on_every_replica_until_the_token_ends(
    replicas: list[Desk],
) -> None:
    token = token_for("subscriber", seconds=4)
    question_id = await replicas[0].post_question(QUESTION, browser=True, token=token)
    for replica in replicas:
        assert await is_open(replica, question_id, token)
        for other in (None, token_for(), token_for("gold"), token_for("subscriber", user_id="harry")):
            assert not await is_open(replica, question_id, other)
    ends_s = token["exp"] + 1
    await asyncio.sleep(max(0.0, ends_s - SystemClock().now_ms() / 1000))
    for replica in replicas:
        assert not await is_open(replica, question_id, token), "within a second"
        assert await is_open(replica, question_id, token_for("subscriber"))


async def test_the_asker_of_a_history_reads_it_by_the_tiers_of_now(replicas: list[Desk]) -> None:
    token = token_for("subscriber")
    question_id = await replicas[0].post_question(QUESTION, browser=True, token=token)
    assert await is_open(replicas[0], question_id, token)
    thread = await replicas[1].post("user_history/thread", {"thread_id": question_id}, token=token)
    assert thread.json()["data"]["question_ids"] == [question_id]
    for reading, open_now in ((token, True), (token_for(), False)):
        for extra in ({}, {"cite_start": "("}):
            body = {"question_ids": [question_id], **extra}
            reply = await replicas[1].post("answers", body, token=reading)
            assert ("signed a treaty" in reply.body.decode()) == open_now


async def test_an_erased_person_leaves_no_entitled_answer(
    replicas: list[Desk], redis_stores: OpenStores
) -> None:
    token = token_for("subscriber")
    question_id = await replicas[0].post_question(QUESTION, browser=True, token=token)
    assert await is_open(replicas[0], question_id, token)
    assert await redis_stores.questions.shown("shop", entitled_answer_id(question_id, "gina"))
    traces = PersonTraces(redis_stores.server, Person(app_id="shop", user_id="gina"), b"salt")
    text = repr([trace.items async for trace in traces.find_all()])
    assert QUESTION in text
    assert "signed a treaty" not in text, "what a person gets of their data quotes no locked article"
    assert await redis_stores.questions.erase("shop", ["u:gina"]) == 2
    citing = await redis_stores.server.execute_slow("KEYS", "{shop}:question-entitled-citing:*")
    assert citing
    # the lists of citing answers keep no more than ids of what is gone, and an erasure takes those too
    assert await redis_stores.server.execute_slow("KEYS", "{shop}:question:*") == []


async def test_an_erasure_takes_the_lists_of_entitled_answers_too(
    replicas: list[Desk], redis_stores: OpenStores
) -> None:
    token = token_for("subscriber")
    question_id = await replicas[0].post_question(QUESTION, browser=True, token=token)
    assert await is_open(replicas[0], question_id, token)
    traces = PersonTraces(redis_stores.server, Person(app_id="shop", user_id="gina"), b"salt")
    all_traces = [trace async for trace in traces.find_all()]
    assert any("question-entitled-citing" in list(trace.items) for trace in all_traces)
    await erase_all(all_traces)
    assert await redis_stores.server.execute_slow("KEYS", "{shop}:question-entitled-citing:*") == []


async def test_a_question_about_open_articles_needs_no_second_answer(
    replicas: list[Desk], redis_stores: OpenStores
) -> None:
    text = "How much does the new crane of the harbour lift?"
    token = token_for("subscriber")
    question_id = await replicas[0].post_question(text, browser=True, token=token)

    async def finished() -> bool:
        return bool((await poll(replicas[0], question_id, token))["finished"])

    await until(finished)
    await replicas[0].corner.asking.queue.wait_idle()
    stored = await redis_stores.questions.read("shop", entitled_answer_id(question_id, "gina"))
    assert stored is None or stored.answer.access == ("subscriber",)
