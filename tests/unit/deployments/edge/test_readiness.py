"""`/-/ready`: a real answer, shared by everybody who asks in the same second."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cluster.errors import Unavailable
from deployments.api.http.hot import HotPathMiddleware
from deployments.edge.observation import readiness
from deployments.edge.observation.readiness import Readiness
from tests.fakes.asgi import call
from tests.fakes.request_handler import StillClock, open_corner


class Replica:
    """An engine and a store that are as told."""

    def __init__(self) -> None:
        self.engine: bool | Exception | None = True
        self.is_following, self.is_away, self.is_foreign_store, self.requests = True, False, False, 0
        self.clock = StillClock()
        self.readiness = Readiness(self._probe, self, self, self.clock)

    async def _probe(self) -> bool | None:
        self.requests += 1
        await asyncio.sleep(0)
        if isinstance(self.engine, Exception):
            raise self.engine
        return self.engine

    async def ask(self) -> tuple[int, Any]:
        corner = await open_corner()
        corner.handler.readiness = self.readiness
        answer = await call(HotPathMiddleware(None, lambda: corner.handler), "GET", "/-/ready")
        return answer.status, answer.json()


async def test_a_ready_replica_has_an_engine_with_an_answer() -> None:
    replica = Replica()
    assert await replica.ask() == (200, {"ready": True, "engine": "answers", "store": "reachable"})
    replica.is_away = True
    replica.clock.pass_ms(1_100)
    assert await replica.ask() == (200, {"ready": True, "engine": "answers", "store": "away"})
    for broken in (Unavailable("still loading"), False):
        replica.engine = broken
        replica.clock.pass_ms(1_100)
        assert await replica.ask() == (503, {"ready": False, "engine": "fails", "store": "away"})
    replica.engine, replica.is_away = None, False
    replica.clock.pass_ms(1_100)
    assert await replica.ask() == (200, {"ready": True, "engine": "none loaded yet", "store": "reachable"})
    replica.is_following = False
    replica.clock.pass_ms(1_100)
    assert (await replica.ask())[0] == 503


async def test_a_flood_of_questions_costs_one_answer_a_second() -> None:
    replica = Replica()
    await asyncio.gather(*(replica.readiness.reply() for _ in range(1_000)))
    assert replica.requests == 1
    replica.clock.pass_ms(1_100)
    await asyncio.gather(*(replica.readiness.reply() for _ in range(1_000)))
    assert replica.requests == 2


async def test_an_engine_that_hangs_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hangs() -> bool:
        await asyncio.Event().wait()
        return True

    monkeypatch.setattr(readiness, "WITHIN_S", 0.01)
    replica = Replica()
    reply = await Readiness(hangs, replica, replica, replica.clock).reply()
    assert reply.status == 503


async def test_a_replica_that_is_still_starting_is_not_ready() -> None:
    answer = await call(HotPathMiddleware(None, lambda: None), "GET", "/-/ready")
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")


async def test_a_replica_of_another_installation_is_not_ready() -> None:
    replica = Replica()
    replica.is_foreign_store = True
    replica.readiness = Readiness(replica._probe, replica, replica, replica.clock, replica)
    assert await replica.ask() == (503, {"ready": False, "engine": "answers", "store": "refused"})
