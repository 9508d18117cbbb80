from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from actors.hosting import log_follower as following_loop
from actors.hosting.memory_budget import MemoryBudget
from actors.intake.loop import IntakeLoop
from actors.language.hashing_embedder import HashingEmbedder
from actors.recommender.messages import QueryKind, RecommendationResult, UserQuery
from actors.serving import app_follower as follower_module
from actors.serving import dispatch
from actors.serving.engine_messages import ENGINE_MESSAGES
from actors.serving.host import EngineHost
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.errors import Refusal, Unavailable
from cluster.meter import SilentMeter
from cluster.records.apps import App
from cluster.records.engine import Engine, Exploration
from cluster.records.served_list import EXPLORED
from cluster.store.stores import Stores
from tests.fakes.corner_shop import APP, MINUTE_MS, NOW_MS, PRODUCTS, furnish, happen, upload, view, withdraw
from tests.fakes.counting_meter import CountingMeter
from tests.fakes.stores.memory import memory_stores
from tests.suites.waiting import until


class ShopClock(SystemClock):
    """The machine's clock, set back to the day the shop's stories end."""

    def __init__(self) -> None:
        self._back_ms = super().now_ms() - NOW_MS

    def now_ms(self) -> int:
        return super().now_ms() - self._back_ms


class Weather:
    """Whether the store can be reached."""

    def __init__(self) -> None:
        self.stormy: set[str] = set()
        "Names of methods that fail; `*` for all."

    def over(self, stores: Stores) -> Stores:
        """Wrap all ports."""
        return Stores(**{field.name: _Port(getattr(stores, field.name), self) for field in fields(Stores)})


class _Port:
    def __init__(self, port: Any, weather: Weather) -> None:
        self._port, self._weather = port, weather

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)

        async def called(*args: Any, **kwargs: Any) -> Any:
            if self._weather.stormy & {"*", name}:
                raise Unavailable("the store is away", retry_after_s=1)
            return await method(*args, **kwargs)

        return called


Opened = Callable[..., EngineHost]


@pytest.fixture
def clock() -> ShopClock:
    return ShopClock()


@pytest.fixture
def stores(clock: ShopClock) -> Stores:
    return memory_stores(clock)


@pytest.fixture
def meter() -> CountingMeter:
    return CountingMeter()


@pytest.fixture
async def opened(stores: Stores, clock: ShopClock, meter: CountingMeter) -> AsyncIterator[Opened]:
    """Makes hosts and closes them in the end."""
    hosts: list[EngineHost] = []

    def make(over: Stores = stores, segments: SegmentStore | None = None, **options: Any) -> EngineHost:
        hosts.append(EngineHost(over, segments, clock, meter, **options))
        return hosts[-1]

    yield make
    for host in hosts:
        await host.close()


def query(kind: QueryKind = "user_to_products", app_id: str = APP, **more: Any) -> UserQuery:
    return UserQuery(kind=kind, app_id=app_id, engine_id=more.pop("engine_id", "default"), **more)


async def ids(host: EngineHost, request: UserQuery) -> list[str]:
    result = await host.answer(request)
    assert isinstance(result, RecommendationResult), result
    return [product["product_id"] for product in result.products]


# --- engines ------------------------------------------------------------------------------------------------------


async def test_apps_and_engines_that_do_not_exist_are_refused(stores: Stores, opened: Opened) -> None:
    host = opened()
    await furnish(stores)
    for request in (query(app_id="nobody"), query(engine_id="nobody")):
        refusal = await host.answer(request)
        assert isinstance(refusal, Refusal)
        assert (refusal.code, refusal.message) == ("not_found", "engine is not found")


async def test_an_engine_without_any_product_is_refused_until_the_first_upload(
    stores: Stores, opened: Opened
) -> None:
    host = opened()
    await stores.engines.put(Engine(app_id=APP, engine_id="default"))
    assert isinstance(await host.answer(query()), Refusal)
    await upload(stores, PRODUCTS[:2])
    assert await ids(host, query())


async def test_an_engine_repeats_products_after_its_pauses(stores: Stores, opened: Opened) -> None:
    host = opened()
    await furnish(stores)
    await stores.engines.put(Engine(app_id=APP, engine_id="patient", repeat_after_days={"*": 0}))
    await happen(stores, [view("ada", "draw-hoe", ago_ms=5 * MINUTE_MS)])
    assert "draw-hoe" not in await ids(host, query(user_id="ada"))
    assert "draw-hoe" in await ids(host, query(user_id="ada", engine_id="patient"))


async def test_all_replicas_explore_the_same_answer_alike(stores: Stores, opened: Opened) -> None:
    await furnish(stores)
    exploration = Exploration(share=0.2, pool=5, secret="5eed" * 8)
    await stores.engines.put(Engine(app_id=APP, engine_id="spring", exploration=exploration))
    first, second = opened(), opened()
    explored = 0
    for number in range(60):
        answer_id = f"answer-{number}"
        results = [
            await host.answer(
                ENGINE_MESSAGES.decode(
                    ENGINE_MESSAGES.encode(query(engine_id="spring", service_id=answer_id))
                )
            )
            for host in (first, second)
        ]
        assert results[0] == results[1]
        assert isinstance(results[0], RecommendationResult)
        assert results[0].placements is not None
        explored += EXPLORED in results[0].placements.origins
        plain = await first.answer(query(service_id=answer_id))
        assert isinstance(plain, RecommendationResult)
        assert plain.placements is not None
        assert set(plain.placements.propensities) == {1.0}, "another engine does not explore"
    assert 3 <= explored <= 25


async def test_a_second_engine_of_an_app_answers_too(stores: Stores, opened: Opened) -> None:
    await furnish(stores)
    await stores.engines.put(Engine(app_id=APP, engine_id="spring"))
    assert await ids(opened(), query(engine_id="spring"))


async def test_first_requests_at_once_load_once(stores: Stores, opened: Opened, meter: CountingMeter) -> None:
    await furnish(stores)
    host = opened()
    lists = await asyncio.gather(*(ids(host, query(rows=3)) for _ in range(20)))
    assert lists == [lists[0]] * 20
    assert meter.counts["kiosk_recommender_load_ms"] == 1


async def test_a_failed_load_is_tried_again(stores: Stores, opened: Opened) -> None:
    weather = Weather()
    host = opened(weather.over(stores))
    await furnish(stores)
    weather.stormy = {"read"}
    refusal = await host.answer(query())
    assert isinstance(refusal, Refusal)
    assert refusal.code == "unavailable"
    weather.stormy = set()
    assert await ids(host, query())


async def test_the_least_recently_used_app_makes_room(
    stores: Stores, opened: Opened, meter: CountingMeter
) -> None:
    for app_id in ("one", "two"):
        await furnish(stores, app_id=app_id)
    host = opened(budget=MemoryBudget(0))
    assert await ids(host, query(app_id="one")) == await ids(host, query(app_id="two"))
    assert await ids(host, query(app_id="two"))
    assert meter.counts["kiosk_recommender_load_ms"] == 2
    assert await ids(host, query(app_id="one"))
    assert meter.counts["kiosk_recommender_load_ms"] == 3


# --- following ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inline", [True, False], ids=["on the loop", "in a thread"])
async def test_what_is_written_is_answered_within_a_second(
    stores: Stores, opened: Opened, monkeypatch: pytest.MonkeyPatch, inline: bool
) -> None:
    if not inline:
        monkeypatch.setattr(dispatch, "_FEW_PRODUCTS", 0)
    await furnish(stores)
    host = opened()
    trending = query("user_to_trending", rows=50)
    assert (await ids(host, trending))[0] == "watering-can"

    await happen(stores, [view(f"r{n}", "draw-hoe", kind="checkout") for n in range(9)])
    assert await until(lambda: _leads(host, trending, "draw-hoe")) < 1.0

    await upload(stores, [{"product_id": "rake", "type": "tool", "title": "Rake"}])
    assert await until(lambda: _has(host, trending, "rake")) < 1.0

    await withdraw(stores, ["draw-hoe"])
    assert await until(lambda: _lacks(host, trending, "draw-hoe")) < 1.0

    await stores.interactions.erase(APP, ["gina", "pia", "carl", "otto"])
    assert await until(lambda: _last(host, trending, "watering-can")) < 1.0


async def _leads(host: EngineHost, request: UserQuery, product_id: str) -> bool:
    return (await ids(host, request))[0] == product_id


async def _last(host: EngineHost, request: UserQuery, product_id: str) -> bool:
    return product_id in (await ids(host, request))[3:]


async def _has(host: EngineHost, request: UserQuery, product_id: str) -> bool:
    return product_id in await ids(host, request)


async def _lacks(host: EngineHost, request: UserQuery, product_id: str) -> bool:
    return product_id not in await ids(host, request)


async def test_a_click_of_the_user_counts_at_once(stores: Stores, opened: Opened) -> None:
    await furnish(stores)
    host = opened()
    request = query(anonymous_id="x", rows=1)
    assert await ids(host, request) == ["watering-can"]
    await happen(stores, [view("anon-x", "carving-knife")])
    assert await ids(host, request) == ["bread-knife"]


async def test_answers_go_in_between_while_a_large_upload_is_applied(
    stores: Stores, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_module, "REFRESH_MS", 0)
    await furnish(stores)
    host = opened()
    await ids(host, query())
    await upload(
        stores, [{"product_id": f"p{n}", "type": "bulk", "title": f"Thing {n}"} for n in range(3_000)]
    )
    counts = []
    while not counts or counts[-1] < 3_000:
        counts.append(len(await ids(host, query(rows=4_000, type="bulk"))))
        await asyncio.sleep(0)
    assert len(set(counts)) > 10


async def test_a_broken_change_does_not_stop_the_following(
    stores: Stores, opened: Opened, meter: CountingMeter
) -> None:
    await furnish(stores)
    host = opened()
    await ids(host, query())
    await stores.interactions.append(APP, b'[{"type": 5}]', [])
    await stores.interactions.append(APP, b"not json", [])
    await happen(stores, [view(f"r{n}", "draw-hoe", kind="checkout") for n in range(9)])
    assert await until(lambda: _leads(host, query("user_to_trending"), "draw-hoe")) < 3.0
    assert meter.counts["kiosk_follow_failures_total"] >= 1


async def test_followers_say_how_far_they_are(stores: Stores, opened: Opened) -> None:
    await furnish(stores)
    host = opened()
    await ids(host, query())
    last = await stores.changes.last(APP, "interaction")

    async def noted() -> bool:
        cut = await stores.changes.compact(APP, "interaction", last, NOW_MS + 60_000)
        return cut > 0

    assert await until(noted) < 1.0
    other = f"{int(last.partition('-')[0]) + 1}-0"
    await happen(stores, [view("gina", "draw-hoe")])
    assert await stores.changes.compact(APP, "interaction", other, NOW_MS + 60_000) == 0


# --- the store away -----------------------------------------------------------------------------------------------


async def test_answers_go_on_without_the_store(stores: Stores, opened: Opened, meter: CountingMeter) -> None:
    await furnish(stores)
    weather = Weather()
    host = opened(weather.over(stores))
    personal = await ids(host, query(user_id="gina", rows=3))
    weather.stormy = {"*"}
    calm = query(user_id="gina", rows=3)
    assert await ids(host, calm) == personal, "from the history that the log gave"
    assert await ids(host, query(user_id="gina", rows=3, pagination_id="s")) == personal
    assert (await ids(host, query(anonymous_id="gina", rows=3)))[0] == "watering-can"
    assert meter.counts["kiosk_recent_misses_total"] == 3
    await asyncio.sleep(0.02)
    weather.stormy = set()
    await happen(stores, [view(f"r{n}", "draw-hoe", kind="checkout") for n in range(9)])
    assert await until(lambda: _leads(host, query("user_to_trending"), "draw-hoe")) < 3.0
    assert await ids(host, calm) != personal


# --- pages ----------------------------------------------------------------------------------------------------------


async def test_pages_of_a_session_never_repeat(stores: Stores, opened: Opened) -> None:
    await furnish(stores)
    host = opened()
    whole = await ids(host, query(anonymous_id="x", rows=50))
    pages = [
        await ids(host, query(anonymous_id="x", rows=4, start=start, pagination_id="s"))
        for start in (0, 4, 8, 12)
    ]
    assert [product_id for page in pages for product_id in page] == whole
    assert (await ids(host, query(anonymous_id="x", rows=4, pagination_id="other"))) == whole[:4]
    assert (await ids(host, query(anonymous_id="y", rows=4, pagination_id="s"))) == whole[:4]


# --- segments -------------------------------------------------------------------------------------------------------


@pytest.fixture
def segments(tmp_path: Path) -> SegmentStore:
    return SegmentStore(ArtifactStore.open(tmp_path / "shelf"))


async def _settle(stores: Stores, segments: SegmentStore, clock: ShopClock) -> None:
    await stores.access.put_app(App(app_id=APP, environment="development", created_at=0))
    loop = IntakeLoop(stores, segments, HashingEmbedder(), clock, SilentMeter(), owner="test")
    await loop.apply_round()
    assert await loop.compact_round(at_once=True) > 0


@pytest.mark.usefixtures("allow_world")
async def test_a_restarted_host_answers_as_one_that_never_stopped(
    stores: Stores, opened: Opened, segments: SegmentStore, clock: ShopClock
) -> None:
    await furnish(stores)
    from_log = opened()
    await ids(from_log, query())
    await _settle(stores, segments, clock)
    assert segments.offsets(APP).keys() == {"product", "interaction"}
    await happen(stores, [view(f"r{n}", "draw-hoe", kind="checkout") for n in range(3)])
    await upload(
        stores, [{"product_id": "rake", "type": "tool", "title": "Rake", "categories": [["Garden"]]}]
    )
    from_segments = opened(segments=segments)
    assert await until(lambda: _has(from_log, query(rows=50), "rake")) < 1.0
    for kind in ("user_to_products", "user_to_trending", "product_to_products"):
        for user_id in ("gina", "carl", "nora"):
            request = query(kind, user_id=user_id, rows=50, anchors=("bread-knife",), buy_together=True)
            old, new = await from_log.answer(request), await from_segments.answer(request)
            assert isinstance(old, RecommendationResult)
            assert isinstance(new, RecommendationResult)
            assert [p["product_id"] for p in new.products] == [p["product_id"] for p in old.products]
            scores = [[p["_personalization_score"] for p in result.products] for result in (old, new)]
            assert scores[1] == pytest.approx(scores[0], abs=2e-3)


@pytest.mark.usefixtures("allow_world")
async def test_a_log_trimmed_past_the_host_is_replaced_by_segments(
    stores: Stores,
    opened: Opened,
    segments: SegmentStore,
    clock: ShopClock,
    meter: CountingMeter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following_loop, "_REPORT_EVERY_S", 0.0)
    monkeypatch.setattr(follower_module, "_BLOCK_MS", 5)
    await furnish(stores)
    weather = Weather()
    host = opened(weather.over(stores), segments=segments)
    assert (await ids(host, query("user_to_trending")))[0] == "watering-can"
    weather.stormy = {"*"}
    await asyncio.sleep(0.05)
    await happen(stores, [view(f"r{n}", "draw-hoe", kind="checkout") for n in range(9)])
    await _settle(stores, segments, clock)
    # eleven minutes later the silent follower no longer holds the log back
    last = await stores.changes.last(APP, "interaction")
    assert await stores.changes.compact(APP, "interaction", last, NOW_MS + 60_000 + 660_000) > 0
    weather.stormy = set()
    assert await until(lambda: _leads(host, query("user_to_trending"), "draw-hoe")) < 5.0
    assert meter.counts["kiosk_recommender_load_ms"] == 2


@pytest.mark.usefixtures("allow_world")
async def test_damaged_segments_lose_only_their_records(
    stores: Stores,
    opened: Opened,
    segments: SegmentStore,
    clock: ShopClock,
    meter: CountingMeter,
    tmp_path: Path,
) -> None:
    await furnish(stores)
    await _settle(stores, segments, clock)
    for path in (tmp_path / "shelf").rglob("interaction-*.parquet"):
        path.chmod(0o600)
        path.write_bytes(path.read_bytes()[:-40] + b"x" * 40)
    result = await ids(opened(segments=segments), query(rows=50))
    assert len(result) == 10
    assert meter.counts["kiosk_segments_damaged_total"] == 1


async def test_closing_ends_everything(stores: Stores, opened: Opened) -> None:
    await furnish(stores)
    host = opened()
    await ids(host, query())
    await host.close()
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
