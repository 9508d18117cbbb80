"""A completion index of a large catalog is built beside the answers of others; a request waits a moment for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from functools import partial

import pytest

from actors.language.hashing_embedder import HashingEmbedder
from actors.recommender.messages import UserQuery
from actors.recommender.recommender import Recommender
from actors.retrieval.autocomplete.field_indexes import FieldKey
from actors.retrieval.autocomplete.text_index import RowTextIndex
from actors.serving import completion_builds
from actors.serving.app_follower import AppFollower
from cluster.access_tier import access_of
from cluster.clock import SystemClock
from cluster.errors import Unavailable
from cluster.meter import SilentMeter
from cluster.store.stores import Stores
from tests.fakes.corner_shop import APP, PRODUCTS, furnish, upload
from tests.fakes.stores.memory import memory_stores
from tests.suites.waiting import until

TITLES = UserQuery("autocomplete", APP, "default", rows=20, typed="wat", completion_fields=("title",))
TRENDING = UserQuery("user_to_trending", APP, "default", rows=20)


@pytest.fixture
def stores() -> Stores:
    return memory_stores(SystemClock())


@pytest.fixture
async def follower(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AppFollower]:
    """A follower of the corner shop, for which every catalog is large."""
    monkeypatch.setattr(completion_builds, "FEW_PRODUCTS", 0)
    await furnish(stores)
    follower = AppFollower(APP, "test", stores, None, SystemClock(), SilentMeter(), HashingEmbedder)
    await follower.start()
    yield follower
    await follower.close()


class SlowBuild:
    """Makes each build of an index wait for an event."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go_on, self.builds = threading.Event(), threading.Event(), 0
        build = RowTextIndex.of

        def build_late(*arguments: object) -> RowTextIndex:
            self.begun.set()
            self.builds += 1
            assert self.go_on.wait(20)
            return build(*arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(RowTextIndex, "of", build_late)


async def _texts(follower: AppFollower, query: UserQuery = TITLES) -> list[str]:
    return [entry["text"] for entry in (await follower.answer(query, [], [])).completions["title"]]


async def test_a_build_gives_the_list_that_a_build_within_the_request_gives(
    follower: AppFollower, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = await _texts(follower)
    monkeypatch.setattr(completion_builds, "FEW_PRODUCTS", 1_000)
    other = AppFollower(APP, "other", stores, None, SystemClock(), SilentMeter(), HashingEmbedder)
    await other.start()
    assert texts
    assert texts == await _texts(other)
    await other.close()


async def test_others_are_answered_while_an_index_is_built_and_changes_are_in_it(
    follower: AppFollower, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SlowBuild(monkeypatch)
    waiting = [asyncio.create_task(_texts(follower)) for _ in range(3)]
    await until(slow.begun.is_set)
    assert (await follower.answer(TRENDING, [], [])).products
    await upload(stores, [{**PRODUCTS[0], "product_id": "new", "title": "Water butt"}])
    await until(lambda: follower.products == len(PRODUCTS) + 1)
    assert slow.builds == 1
    slow.go_on.set()
    assert all(await asyncio.gather(*waiting))
    assert "Water butt" in await _texts(follower)


async def test_a_state_that_a_renewal_brings_during_a_build_gets_another_build(
    follower: AppFollower, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = SlowBuild(monkeypatch)
    early = asyncio.create_task(_texts(follower))
    await until(slow.begun.is_set)
    follower._replace(await follower._load())
    late = asyncio.create_task(_texts(follower))
    await until(lambda: len(follower._completion_builds._tasks) == 2)
    assert (await follower.answer(TRENDING, [], [])).products
    slow.go_on.set()
    assert await early == await late
    assert slow.builds == 2


async def test_a_request_does_not_wait_longer_than_its_bound(
    follower: AppFollower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion_builds, "WAIT_S", 0.05)
    slow = SlowBuild(monkeypatch)
    with pytest.raises(Unavailable, match="completions of the field title are being indexed") as refused:
        await _texts(follower)
    assert (refused.value.facts["told"], refused.value.facts["retry_after_s"]) == (True, 1)
    slow.go_on.set()
    completions = follower.recommender.completions
    await until(lambda: completions.has_field(FieldKey("title", "", False)))
    assert await _texts(follower)


async def test_builds_of_an_app_are_few_and_an_index_that_does_not_fit_is_refused_by_name(
    follower: AppFollower, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion_builds, "_MOST_BUILDS", 2)
    monkeypatch.setattr(completion_builds, "WAIT_S", 0.05)
    slow = SlowBuild(monkeypatch)
    for name in ("brand", "tags", "subtitle"):
        with pytest.raises(Unavailable, match=f"the field {name} are being indexed"):
            await _texts(follower, _by(name))
    slow.go_on.set()
    builds = follower._completion_builds
    await until(lambda: not builds._tasks)
    assert not follower.recommender.completions.has_field(FieldKey("subtitle", "", False))
    monkeypatch.setattr(completion_builds, "WAIT_S", 10.0)
    follower.recommender.completions.most_bytes = 1
    with pytest.raises(Unavailable, match="completions of the field title need more than 0 MB"):
        await _texts(follower)


def _by(name: str) -> UserQuery:
    return UserQuery("autocomplete", APP, "default", rows=5, typed="a", completion_fields=(name,))


async def test_locked_products_need_no_build_that_a_request_would_wait_for(
    follower: AppFollower, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first locked product on, open products and each tier have separate indexes."""
    tier_sets = [frozenset[str](), frozenset({"gold"}), frozenset({"gold", "silver"})]
    assert await _texts(follower)
    builds = 0

    async def refuse(recommender: Recommender, key: FieldKey) -> None:
        nonlocal builds
        builds += 1

    monkeypatch.setattr(follower._completion_builds, "_build", refuse)
    opened, *others = PRODUCTS
    for step, changed in enumerate(
        [
            {**opened, "title": "Water butt", "access": "gold"},
            {**others[0], "title": "Watering can", "access": "silver"},
            {**others[1], "title": "Water lily"},
            {**opened, "title": "Water butt", "access": "silver"},
            {**others[0], "title": "Watering can", "access": "open"},
            {**opened, "title": "Water butt"},
        ]
    ):
        await upload(stores, [changed])
        await until(partial(_has_title, follower, changed))
        lists = [sorted(await _texts(follower, replace(TITLES, tiers=tiers))) for tiers in tier_sets]
        assert builds == 0
        other = AppFollower(APP, f"other-{step}", stores, None, SystemClock(), SilentMeter(), HashingEmbedder)
        await other.start()
        assert lists == [sorted(await _texts(other, replace(TITLES, tiers=tiers))) for tiers in tier_sets]
        await other.close()
    assert "Water butt" in lists[0]


def _has_title(follower: AppFollower, product: Mapping[str, object]) -> bool:
    catalog = follower.recommender.overlay.catalog
    record = catalog.record(catalog.row_of(str(product["product_id"])))
    return (record["title"], access_of(record)) == (product["title"], access_of(product))
