from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

import orjson
import pytest

from actors.intake.daily_log_compaction import DailyLogCompactionConfig, DailyLogCompactor
from actors.intake.loop import IntakeLoop
from actors.language.hashing_embedder import HashingEmbedder
from cluster.artifacts.logs.query_log import QueryLogStore
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import Fault, KioskError, Unavailable
from cluster.meter import SilentMeter
from cluster.records.apps import App
from cluster.records.logged_query import LoggedQuery, pseudonym
from cluster.store.stores import Stores
from tests.fakes.counting_meter import CountingMeter
from tests.fakes.dying_shelf import DyingArtifactStore, Killed
from tests.fakes.request_handler import NOW_MS, StillClock
from tests.fakes.stores.memory import memory_stores

APP = "shop"
DAY_MS = 86_400_000


class Road:
    """Stores, a shelf and a settler between them."""

    def __init__(self, folder: Path) -> None:
        self.clock = StillClock()
        self.stores: Stores = memory_stores(self.clock)
        self.segments = SegmentStore(ArtifactStore.open(folder), self.clock)
        self.query_log = QueryLogStore(self.segments.artifacts, self.clock)
        self.settler = self.new_settler()

    def new_settler(self, rules: DailyLogCompactionConfig | None = None) -> DailyLogCompactor:
        return DailyLogCompactor(self.stores.queries, self.query_log, self.clock, SilentMeter(), rules)

    async def ask(self, *texts: str, user_key: str = "") -> None:
        salt = await self.stores.queries.salt(APP)
        user_pseudonym = pseudonym(salt, user_key) if user_key else ""
        now_ms = self.clock.now_ms()
        await self.stores.queries.append(
            APP, [LoggedQuery(now_ms, "search", text, 1, reader=user_pseudonym) for text in texts]
        )

    def texts(self) -> list[str]:
        compacted: list[str] = self.query_log.read(APP, 0)["text"].to_pylist()
        return compacted

    async def waiting(self) -> int:
        return len(await self.stores.queries.read(APP, "0", count=1_000))


@pytest.fixture
def road(tmp_path: Path) -> Road:
    return Road(tmp_path)


async def test_queries_settle_when_the_oldest_has_waited_long_enough(road: Road) -> None:
    await road.ask("tulip")
    road.clock.pass_ms(29_000)
    assert await road.settler.run_once([APP]) == 0
    await road.ask("hoe")
    road.clock.pass_ms(6_000)
    await road.ask("still typing")
    assert await road.settler.run_once([APP]) == 2
    assert road.texts() == ["tulip", "hoe"]
    assert await road.waiting() == 1
    assert await road.settler.run_once([APP], at_once=True) == 1
    assert await road.waiting() == 0


async def test_a_compactor_killed_before_the_offset_write_repeats_nothing(road: Road) -> None:
    await road.ask("tulip")
    lots = await road.stores.queries.read(APP, "0", count=10)
    road.query_log.append(APP, lots[0].rows, lots[0].offset)  # and then it died
    assert await road.new_settler().run_once([APP], at_once=True) == 0
    road.clock.pass_ms(1)
    await road.ask("hoe")
    assert await road.new_settler().run_once([APP], at_once=True) == 1
    assert road.texts() == ["tulip", "hoe"]
    assert await road.waiting() == 0


async def test_a_trim_that_fails_is_repeated_and_no_query_is_written_twice(
    road: Road, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(app_id: str, upto: str) -> None:
        raise Unavailable("the store can't be reached", retry_after_s=1)

    assert await road.settler.run_once([APP], at_once=True) == 0
    await road.ask("tulip")
    with monkeypatch.context() as patch:
        patch.setattr(road.stores.queries, "trim", fail)
        with pytest.raises(Unavailable):
            await road.settler.run_once([APP], at_once=True)
    assert await road.settler.run_once([APP], at_once=True) == 0
    assert (road.texts(), await road.waiting()) == (["tulip"], 0)


async def test_an_erasure_trims_again_what_a_failover_brought_back(
    road: Road, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lose(app_id: str, upto: str) -> None:
        """Acknowledge a trim that the new master never got."""

    await road.ask("tulip", user_key="u:gina-7")
    with monkeypatch.context() as patch:
        patch.setattr(road.stores.queries, "trim", lose)
        await road.settler.run_once([APP], at_once=True)
    await road.settler.delete_users(APP, ["u:gina-7"])
    assert (road.texts(), await road.waiting()) == ([], 0)


async def test_queries_stay_ninety_days(road: Road) -> None:
    await road.ask("old")
    await road.settler.run_once([APP], at_once=True)
    road.clock.pass_ms(91 * DAY_MS)
    await road.ask("young")
    await road.settler.run_once([APP], at_once=True)
    assert road.texts() == ["young"]


@pytest.mark.parametrize("error", [Fault("damaged"), Unavailable("no space left", retry_after_s=10)])
async def test_one_apps_trouble_is_counted_and_keeps_nobody_waiting(road: Road, error: KioskError) -> None:
    class Refusing(QueryLogStore):
        def last_offset(self, app_id: str) -> str:
            if app_id == "broken":
                raise error
            return super().last_offset(app_id)

    meter, road.query_log = CountingMeter(), Refusing(road.segments.artifacts, road.clock)
    settler = DailyLogCompactor(road.stores.queries, road.query_log, road.clock, meter)
    await road.stores.queries.append("broken", [LoggedQuery(NOW_MS, "search", "lost", 0)])
    await road.ask("tulip")
    for _ in range(2):
        with contextlib.suppress(Unavailable):
            await settler.run_once(["broken", APP], at_once=True)
    assert road.texts() == ["tulip"]
    assert meter.counts["kiosk_query_log_refusals"] == 1


@pytest.mark.parametrize("way", ["interactions", "user"])
async def test_erasing_a_reader_erases_their_queries_wherever_they_are(road: Road, way: str) -> None:
    await road.stores.access.put_app(App(app_id=APP, environment="development", created_at=0))
    loop = IntakeLoop(road.stores, road.segments, HashingEmbedder(), road.clock, SilentMeter(), owner="test")
    await road.ask("settled long ago", user_key="u:gina-7")
    await road.ask("somebody else's", user_key="u:mara")
    await loop.compact_round(at_once=True)
    await road.ask("still on its way", user_key="u:gina-7")
    if way == "interactions":
        await road.stores.interactions.erase(APP, ["gina-7"])
    else:
        await road.stores.intake.accept(
            APP, "user", "remove", orjson.dumps(["gina-7"]), task_id="t", total=1, now_ms=NOW_MS
        )
        await loop.apply_round()
    await loop.compact_round()
    assert road.texts() == ["somebody else's"]
    assert await road.waiting() == 0
    await road.ask("noted before, written after", user_key="u:gina-7")
    await loop.compact_round(at_once=True)
    assert road.texts() == ["somebody else's"]


async def test_a_settler_killed_at_any_step_loses_nothing_and_writes_nothing_twice(tmp_path: Path) -> None:
    for life in range(30):
        road = Road(tmp_path / str(life))
        await road.ask("settled", user_key="u:gina-7")
        await road.settler.run_once([APP], at_once=True)
        await road.ask("hers", "his")
        dying = DyingArtifactStore(road.segments.artifacts)
        dying.life = life
        road.query_log = QueryLogStore(dying, road.clock)
        settler = road.new_settler()
        killed = True
        try:
            await settler.run_once([APP], at_once=True)
            await settler.delete_users(APP, ["u:gina-7"])
            killed = False
        except Killed:
            road.query_log = QueryLogStore(road.segments.artifacts, road.clock)
            settler = road.new_settler()
            await settler.run_once([APP], at_once=True)
            await settler.delete_users(APP, ["u:gina-7"])
        assert sorted(road.texts()) == ["hers", "his"], life
        assert await road.waiting() == 0
        road.clock.at_ms = int(time.time() * 1000) + 2 * DAY_MS
        road.query_log.tidy(APP)
        named = {path.name for path in (tmp_path / str(life)).rglob("*.parquet")}
        assert len(named) == 1, life
        if not killed:
            return
    raise AssertionError("it was killed every time")


async def test_an_erasure_ends_while_queries_go_on_arriving(
    road: Road, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = road.query_log.append

    def append_and_receive(app_id: str, queries: list[LoggedQuery], offset: str) -> int:
        written = append(app_id, queries, offset)
        with contextlib.closing(asyncio.new_event_loop()) as loop:
            loop.run_until_complete(road.ask("later"))
        return written

    monkeypatch.setattr(road.query_log, "append", append_and_receive)
    await road.ask("tulip", user_key="u:gina")
    await asyncio.wait_for(road.settler.delete_users(APP, ["u:gina"]), 10)
    assert road.texts() == []
    assert await road.waiting() == 1
