"""The history of questions as the specification has it, over each way in."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from actors.history.messages import ThreadChange
from actors.history.threads import append_update
from actors.history.tracker import ThreadTracker
from cluster.errors import Unavailable
from cluster.store.stores import Stores
from deployments.api.http.application import build_application
from deployments.api.http.hot import HotPathMiddleware
from tests.contract.scenario import Scenario, load
from tests.contract.test_rest import play
from tests.contract.ways import InProcess
from tests.fakes.request_handler import BROWSER, Corner, StillClock, open_corner
from tests.fakes.stores.memory import memory_stores

T1, T2 = "11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"
QUESTIONS = (
    ("gina-7", T1, "How deep do I plant tulips?", None),
    ("gina-7", "11111111-0000-4000-8000-00000000000a", "And in pots?", T1),
    ("gina-7", T2, "When are tulips cut?", None),
    ("gina-7", "33333333-0000-4000-8000-000000000003", "Which lime do roses like?", None),
    ("rose", "44444444-0000-4000-8000-000000000004", "Are roses red?", None),
)


async def with_threads() -> Corner:
    corner = await open_corner()
    history, store = ThreadTracker(corner.stores, corner.clock), corner.stores.threads
    for user_id, question_id, text, parent_id in QUESTIONS[:3]:
        await history.add_question("shop", user_id, question_id, text, parent_id)
        corner.clock.pass_ms(1)
    for thread_id in (T1, T2):
        await history.change(ThreadChange("shop", "gina-7", "subscribe", (thread_id,)))
        threads = await store.read("shop", "gina-7")
        question_id = thread_id[:-1] + "b"
        after = append_update(threads, thread_id, question_id, "5-0", corner.clock.now_ms() + 1)
        assert await store.compare_and_set("shop", "gina-7", threads, after)
        corner.clock.pass_ms(1)
    corner.clock.pass_ms(1)
    for user_id, question_id, text, parent_id in QUESTIONS[3:]:
        await history.add_question("shop", user_id, question_id, text, parent_id)
    return corner


def over(corner: Corner, kind: str) -> InProcess:
    app: Any = build_application(corner.handler, version="0")
    return InProcess(corner, HotPathMiddleware(app, lambda: corner.handler) if kind == "front" else app)


@pytest.fixture(params=["framework", "front"])
async def way(request: pytest.FixtureRequest) -> InProcess:
    return over(await with_threads(), request.param)


@pytest.mark.parametrize(
    "scenario", load(Path(__file__).parent / "history"), ids=lambda scenario: scenario.name
)
async def test_history_answers_as_specified(scenario: Scenario, way: InProcess, unknown_key: str) -> None:
    await play(scenario, way, unknown_key)


class LostThreads:
    """Threads nobody can reach."""

    def __getattr__(self, name: str) -> Any:
        async def lost(*args: Any) -> Any:
            raise Unavailable("the store did not answer in time", retry_after_s=1)

        return lost


@pytest.mark.parametrize("kind", ["framework", "front"])
async def test_while_the_store_is_away_every_call_is_a_fault_and_changes_nothing(kind: str) -> None:
    clock = StillClock()
    stores = memory_stores(clock)
    parts = {field.name: getattr(stores, field.name) for field in fields(Stores)} | {"threads": LostThreads()}
    corner = await open_corner(clock=clock, stores=Stores(**parts))
    way = over(corner, kind)
    thread = {"user_id": "gina-7", "thread_id": T1, "title": "x", "question_ids": [T1], "thread_ids": [T1]}
    for endpoint in corner.handler.endpoints:
        if endpoint.name.startswith("history."):
            headers = {"X-API-KEY": way.key("shop", "secret"), "User-Agent": BROWSER}
            target = endpoint.path.replace("{thread_id}", T1) + "?user_id=gina-7"
            answer = await way.send(endpoint.method, target, headers, json.dumps(thread).encode())
            assert answer.status == 500, endpoint.name
            assert answer.json() == {"message": "Something went wrong. Please contact the product team."}
    headers = {"X-API-KEY": way.key("shop", "secret"), "User-Agent": BROWSER}
    body = json.dumps({**thread, "generate": True}).encode()
    assert (await way.send("POST", "/v1/ask/user_history/thread/updates/touch", headers, body)).status == 500


async def test_a_change_sent_again_under_its_idempotency_key_is_answered_as_before() -> None:
    corner = await with_threads()
    way = over(corner, "front")
    headers = {"X-API-KEY": way.key("shop", "secret"), "User-Agent": BROWSER, "Idempotency-Key": "k-1"}
    body = json.dumps({"user_id": "gina-7", "question_ids": [T1]}).encode()
    replies = [
        (await way.send("POST", "/v1/ask/user_history/delete", headers, body)).json() for _ in range(2)
    ]
    assert replies[0] == replies[1] == {"message": "success", "data": {"deleted_count": 1}}
