"""The first question on a field: who asks waits for its column, nobody else does, and the answer is the same."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from actors.language.hashing_embedder import HashingEmbedder
from actors.recommender.messages import Boost, Circle, RecommendationResult, UserQuery
from actors.serving import app_follower as follower_module
from actors.serving import thread_pace
from actors.serving.app_follower import AppFollower
from cluster.clock import SystemClock
from cluster.meter import SilentMeter
from cluster.query.columnar.column_store import column_keys_of_filter
from cluster.query.language.parser import parse
from cluster.store.stores import Stores
from tests.fakes.corner_shop import APP, PRODUCTS, furnish, upload
from tests.fakes.stores.memory import memory_stores
from tests.suites.waiting import until

QUERY = UserQuery("user_to_trending", APP, "default", rows=20)
QUERIES = {
    "filter": replace(QUERY, filter=parse("brand:Birk AND price:[1 TO *]")),
    "removed": replace(QUERY, removed=(Boost(parse("tags:steel")),)),
    "boost": replace(QUERY, boosts=(Boost(parse("custom_attributes.grip:green")),)),
    "circle": replace(QUERY, circles=(Circle(53.8, -1.55, 10),)),
    "geo boost": replace(QUERY, boost_circles=(Circle(53.8, -1.55, 10),)),
    "context": replace(QUERY, context={"brand": ("Birk",)}),
    "groups": replace(QUERY, kind="user_to_attributes", field_name="tags", group_rows=3),
    "filtered groups": replace(
        QUERY, kind="user_to_attributes", field_name="brand", group_rows=3, filter=parse("title:trowel")
    ),
}


@pytest.fixture
def clock() -> SystemClock:
    return SystemClock()


@pytest.fixture
def stores(clock: SystemClock) -> Stores:
    return memory_stores(clock)


@pytest.fixture
async def follower(
    stores: Stores, clock: SystemClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[AppFollower]:
    """A follower of the corner shop whose columns are built only when somebody asks, a record at a time."""
    monkeypatch.setattr(follower_module, "RECORDS_AT_ONCE", 2)
    monkeypatch.setattr(follower_module, "PREBUILT_COLUMNS", ())
    await furnish(stores)
    follower = AppFollower(APP, "test", stores, None, clock, SilentMeter(), HashingEmbedder)
    await follower.start()
    yield follower
    await follower.close()


@pytest.mark.parametrize("name", QUERIES)
async def test_an_answer_that_waited_for_columns_is_the_same(
    name: str, follower: AppFollower, stores: Stores, clock: SystemClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = await follower.answer(QUERIES[name], [], [])
    monkeypatch.setattr(follower_module, "RECORDS_AT_ONCE", 1_000)
    other = AppFollower(APP, "other", stores, None, clock, SilentMeter(), HashingEmbedder)
    await other.start()
    expected = await other.answer(QUERIES[name], [], [])
    await other.close()
    assert _shown(result) == _shown(expected)
    assert any(_shown(result))


def _shown(result: RecommendationResult) -> tuple[list[str], list[tuple[object, int, list[str]]]]:
    return _ids(result.products), [
        (group.value, group.total, _ids(group.products)) for group in result.groups
    ]


def _ids(products: Sequence[Mapping[str, Any]]) -> list[str]:
    return [product["product_id"] for product in products]


async def test_others_are_answered_and_changes_come_in_while_a_column_is_built(
    follower: AppFollower, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def pause() -> None:
        begun.set()
        assert go_on.wait(10)

    monkeypatch.setattr(thread_pace, "BESIDE_S", 0.0)
    monkeypatch.setattr(thread_pace, "_PAUSE", pause)
    waiting = asyncio.create_task(follower.answer(QUERIES["filter"], [], []))
    await until(begun.is_set)
    assert (await follower.answer(QUERY, [], [])).products
    new = {
        "product_id": "rake",
        "type": "tool",
        "title": "Rake",
        "brand": "Birk",
        "price": 5.0,
        "categories": [["Garden"]],
    }
    await upload(stores, [new])
    await until(lambda: follower.products == len(PRODUCTS) + 1)
    assert not waiting.done()
    go_on.set()
    assert (await waiting).products
    catalog = follower.recommender.overlay.catalog
    assert catalog.columns.has_columns(column_keys_of_filter(parse("brand:Birk")))
    assert catalog.filter_mask(parse("brand:Birk AND price:5"))[catalog.row_of("rake")]


async def test_who_asks_for_the_same_column_meanwhile_waits_for_the_same_building(
    follower: AppFollower,
) -> None:
    results = await asyncio.gather(*(follower.answer(QUERIES["filter"], [], []) for _ in range(5)))
    assert results == [results[0]] * 5


async def test_an_answer_that_needs_more_columns_than_memory_holds_comes_all_the_same(
    follower: AppFollower,
) -> None:
    columns = follower.recommender.overlay.catalog.columns
    columns._columns._most_bytes = 1
    everything = replace(
        QUERIES["filter"], boosts=(Boost(parse("tags:steel")),), removed=(Boost(parse("rating:5")),),
        boost_circles=(Circle(53.8, -1.55, 10),),
    )  # fmt: skip
    assert (await follower.answer(everything, [], [])).products


async def test_prebuilt_columns_exist_before_the_first_query(
    follower: AppFollower, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_module, "PREBUILT_COLUMNS", (("field", "brand"),))
    columns = follower.recommender.overlay.catalog.columns
    assert not columns.has_columns(column_keys_of_filter(parse("brand:Birk")))
    await upload(stores, PRODUCTS[:1])
    await until(lambda: columns.has_columns(column_keys_of_filter(parse("brand:Birk"))))


@pytest.mark.parametrize(("steps_a_pause", "beside_s"), [(1, 0.0), (50, 0.0475)])
def test_a_loading_thread_pauses_by_time_and_not_by_step(
    steps_a_pause: int, beside_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[None] = []
    monkeypatch.setattr(thread_pace, "BESIDE_S", beside_s)
    monkeypatch.setattr(thread_pace, "_PAUSE", lambda: pauses.append(None))
    times_s = itertools.count(0.0, 0.001)
    clock = SystemClock()
    monkeypatch.setattr(clock, "monotonic_s", lambda: next(times_s))
    pause = thread_pace.make_pause(clock)
    for _ in range(200):
        pause()
    assert len(pauses) == 200 // steps_a_pause
