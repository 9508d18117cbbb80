"""A forgotten person leaves the cohorts of a running recommender, and is in none after a restart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from actors.language.hashing_embedder import HashingEmbedder
from actors.recommender.messages import UserQuery
from actors.serving.app_follower import AppFollower
from cluster.artifacts.segments import SegmentStore
from cluster.clock import SystemClock
from cluster.meter import SilentMeter
from tests.suites import canary
from tests.suites.canary import APP
from tests.suites.test_forget_person import World, world
from tests.suites.waiting import until

__all__ = ["world"]
pytestmark = pytest.mark.redis

MEMBERS = [f"member-{n}" for n in range(5)]
QUERY = UserQuery("user_to_products", APP, "default", rows=3, cohort={"country": "FR"})


@asynccontextmanager
async def following(world: World) -> AsyncIterator[AppFollower]:
    segments = SegmentStore(world.artifacts)
    follower = AppFollower(APP, "f", world.stores, segments, SystemClock(), SilentMeter(), HashingEmbedder)
    await follower.start()
    try:
        yield follower
    finally:
        await follower.close()


async def served_by(follower: AppFollower) -> str:
    return (await follower.answer(QUERY, [], [])).served_by


async def test_a_forgotten_person_leaves_the_cohorts(world: World) -> None:
    products = [{"product_id": f"p{n}", "title": f"Thing {n}", "type": "book"} for n in range(9)]
    await canary.upload(world.stores, "product", products, world.now_ms)
    users: list[dict[str, Any]] = [{"user_id": name, "country": "FR"} for name in MEMBERS]
    await canary.upload(world.stores, "user", users, world.now_ms)
    views = [{"type": "checkout", "user_id": name, "product_ids": ["p3"]} for name in MEMBERS]
    await canary.act(world.stores, views, world.now_ms)
    await world.settled()
    async with following(world) as follower:
        assert await served_by(follower) == "cohort"
        receipt = await world.forgotten(user_id=MEMBERS[0])
        assert receipt.left == 0

        async def is_left() -> bool:
            return await served_by(follower) == "trending"

        await until(is_left, 7.5)
        assert len(follower.recommender.overlay.users) == len(MEMBERS) - 1
    async with following(world) as follower:
        assert await served_by(follower) == "trending", "four users are too few"
        assert len(follower.recommender.overlay.users) == len(MEMBERS) - 1
