"""The tracker on a real Ray: found by name, restarted when killed, and every piece of news is told once."""

from __future__ import annotations

import asyncio
import os
import signal
from functools import partial
from typing import Any

import orjson
import pytest

from actors.history.messages import ThreadChange
from actors.history.tracker import ThreadTracker
from cluster.clock import SystemClock
from cluster.records.apps import App
from cluster.records.thread import Thread
from cluster.store.connect import OpenStores, open_stores
from cluster.store.data.intake import RecordPut
from tests.cluster.roster_watch import RELEASE, health_of
from tests.suites.doing import APP
from tests.suites.redis_process import RedisProcess
from tests.suites.waiting import until

pytestmark = [pytest.mark.ray, pytest.mark.redis]
KIND = "actors.history.host:TrackerHost"
SERVICES = "tests.fakes.answerer:ready_answer_services"
STORIES = (
    (
        "sold",
        "The old cement works at Harrow Bay were sold on Monday to a cooperative, the owner of a yard nearby.",
    ),
    (
        "closed",
        "Archaeologists closed the old cement works at Harrow Bay: the owner found a cellar below the kiln.",
    ),
)


@pytest.fixture
async def stores(easy_stores: OpenStores) -> OpenStores:
    await easy_stores.access.put_app(App(app_id=APP, environment="development", created_at=0))
    return easy_stores


async def watching(other_than: int = 0) -> dict[str, Any]:
    """Wait until the actor watches; return what it says."""
    return await health_of(
        "tracker", lambda health: health["pid"] != other_than and bool(health.get("working"))
    )


async def upload(stores: OpenStores, number: int) -> None:
    title, text = STORIES[number]
    record = {"product_id": f"news-{number}", "title": f"Cement works at Harrow Bay {title}", "text": text}
    payload, now_ms = orjson.dumps([record]), SystemClock().now_ms()
    await stores.intake.accept(APP, "product", "put", payload, task_id=f"t{number}", total=1, now_ms=now_ms)
    for batch in await stores.intake.claim("test", [APP], count=9, block_ms=0):
        await stores.intake.apply_put(
            batch, [RecordPut(record["product_id"], orjson.dumps(record))], change_payload=payload, vectors=b"",
            embedder="", failed=(), now_ms=now_ms,
        )  # fmt: skip


async def wait_for_questions(stores: OpenStores, questions: int) -> tuple[Thread, float]:
    """Wait until a thread holds so many questions; return it and how many seconds that took."""

    async def thread() -> Thread:
        (only_thread,) = (await stores.threads.read(APP, "ada")).threads.values()
        return only_thread

    async def holds() -> bool:
        return len((await thread()).question_ids) >= questions

    took_s = await until(holds)
    return await thread(), took_s


@pytest.mark.usefixtures("local_ray")
async def test_the_tracker_tells_of_news_and_its_death_loses_none(
    stores: OpenStores, private_server: RedisProcess
) -> None:
    from cluster.runtime.actors import named_actors

    connect = partial(open_stores, private_server.url, slow_s=10.0)
    made = [named_actors.find_or_create("tracker", RELEASE, KIND, connect, SERVICES) for _ in range(2)]
    try:
        assert made[0] == made[1]
        pid = (await watching())["pid"]
        history = ThreadTracker(stores, SystemClock())
        await history.add_question(
            APP, "ada", "q1", "Who is the owner of the old cement works at Harrow Bay?"
        )
        await history.change(ThreadChange(APP, "ada", "subscribe", ("q1",)))
        await upload(stores, 0)
        thread, took_s = await wait_for_questions(stores, 2)
        print(f"\ntracker actor: told {took_s:.1f} s after the upload")
        assert thread.has_new
        assert await history.has_new(APP, "ada")
        await history.change(ThreadChange(APP, "ada", "dismiss_thread", ("q1",)))
        await upload(stores, 1)
        os.kill(pid, signal.SIGKILL)
        thread, took_s = await wait_for_questions(stores, 3)
        print(f"tracker actor: killed, the next news was told {took_s:.1f} s after it was uploaded")
        assert (await watching(other_than=pid))["watched"] == 1
        await asyncio.sleep(3.0)
        thread, _ = await wait_for_questions(stores, 3)
        assert len(thread.question_ids) == 3, "nothing is told twice"
    finally:
        assert named_actors.kill_releases("tracker") == [f"tracker@{RELEASE}"]
