"""What a newcomer sees: the playground's readers get lists of their own, and a click changes the next one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import orjson
import pytest

from actors.language.hashing_embedder import HashingEmbedder
from actors.recommender.messages import RecommendationResult, UserQuery
from actors.serving.host import EngineHost
from cluster.clock import SystemClock
from cluster.ids import DEFAULT_ENGINE
from cluster.meter import SilentMeter
from cluster.records.validation.upload import parse_upload
from cluster.store.stores import Stores
from jobs.playground.loader import load_playground
from jobs.playground.users import build_users
from tests.fakes.stores.memory import memory_stores

APP = "playground"
HOMES = {
    "spring-gardener": "Garden",
    "home-baker": "Kitchen",
    "family": "Play",
    "hill-walker": "Outdoor",
    "sports-fan": "News",
}


@pytest.fixture
async def stores() -> Stores:
    made = memory_stores()
    await load_playground(made, now_ms=SystemClock().now_ms(), embedder=HashingEmbedder())
    return made


@pytest.fixture
async def host(stores: Stores) -> AsyncIterator[EngineHost]:
    made = EngineHost(stores, None, SystemClock(), SilentMeter())
    await made.start()
    yield made
    await made.close()


async def roots(host: EngineHost, user_id: str = "", rows: int = 10) -> list[str]:
    query = UserQuery(
        "user_to_products", APP, DEFAULT_ENGINE, user_id=user_id, rows=rows, fields=("categories",)
    )
    result = await host.answer(query)
    assert isinstance(result, RecommendationResult)
    assert len(result.products) == rows
    return [product["categories"][0][0] for product in result.products]


async def test_users_get_what_their_story_prefers(host: EngineHost) -> None:
    strangers = await roots(host, rows=30)
    for story, home in HOMES.items():
        theirs = [user.user_id for user in build_users(0) if user.story.name == story][:12]
        shown = [root for user_id in theirs for root in await roots(host, user_id)]
        share = shown.count(home) / len(shown)
        assert share >= 0.3, (story, share)
        assert share > 1.5 * strangers.count(home) / len(strangers), (story, share)


async def test_a_click_changes_the_next_answer_within_a_second(stores: Stores, host: EngineHost) -> None:
    newcomer = "somebody-new"
    before = await roots(host, newcomer)
    seen = [
        {"type": "product_detail_page_view", "user_id": newcomer, "product_ids": [product_id], "duration": 40}
        for product_id in ("tulip-dusk-10-bulbs", "crocus-meadow-25-bulbs", "snowdrop-clump-25-plants")
    ]
    upload = parse_upload("interaction", orjson.dumps({"data": seen}), now_ms=SystemClock().now_ms())
    await stores.interactions.append(APP, upload.payload, upload.recents)
    deadline = asyncio.get_running_loop().time() + 1
    while (after := await roots(host, newcomer)).count("Garden") <= before.count("Garden") + 2:
        assert asyncio.get_running_loop().time() < deadline, after
        await asyncio.sleep(0.01)
