"""Drill R50: alerts fire and cease on what a real Prometheus scrapes from one component that is hurt.

Each component works in this process, over a real Redis, files and sockets; its numbers are exported under the names
that Ray gives them. The expressions are the shipped ones with windows of 30 seconds. `test_alerts_scraped.py` does the
same with the alerts that need a whole installation.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from actors.answers.client import QuestionClient, open_question_client
from actors.answers.llm.provider_endpoint import LanguageModelConfig
from actors.answers.llm.writer import LanguageModelWriter
from actors.archive.host import ArchiveHost
from actors.intake.daily_log_compaction import DailyLogCompactor
from actors.intake.loop import IntakeLoop
from actors.language.hashing_embedder import HashingEmbedder
from actors.serving.host import EngineHost
from cluster.artifacts.logs.query_log import QueryLogStore
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.errors import Unavailable
from cluster.ids import new_question_id
from cluster.meter import Meter
from cluster.records.apps import App
from cluster.records.logged_query import LoggedQuery
from cluster.records.question import Question
from cluster.store.connect import OpenStores, open_stores
from cluster.store.stores import Stores
from deployments.api.http.query_log_writer import QueryLogWriter
from deployments.edge.batch_writer import MOST_WAITING
from tests.drills.prometheus import Prometheus, running_prometheus
from tests.fakes import newsroom
from tests.fakes.asgi import call
from tests.fakes.corner_shop import APP, furnish, upload
from tests.fakes.llm_provider import Provider
from tests.fakes.local_recommender import LocalRecommenderClient
from tests.fakes.newsroom import Newsroom
from tests.fakes.prometheus_endpoint import metered
from tests.fakes.request_handler import StillClock, open_corner
from tests.fakes.small_archive import ARTICLES
from tests.suites.redis_process import RedisProcess

pytestmark = [
    pytest.mark.drill,
    pytest.mark.redis,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        shutil.which("prometheus") is None, reason="prometheus (Debian package) is not installed"
    ),
]
FIRES_S, CEASES_S = 60.0, 90.0
QUICK = {"connect_s": 0.5, "first_s": 0.4, "between_s": 0.3, "total_s": 1.2}

Fault = Callable[[], Awaitable[None]]


class Watched:
    """The meter of a component, and the Prometheus that looks at it."""

    def __init__(self, meter: Meter, server: Prometheus) -> None:
        self.meter, self._server = meter, server

    async def see(self, alert: str, *, while_doing: Fault | None = None) -> None:
        """Wait until an alert fires; meanwhile do something again and again."""
        await self._wait(alert, while_doing, firing=True, within_s=FIRES_S)

    async def see_end(self, alert: str, *, while_doing: Fault | None = None) -> None:
        """Wait until an alert has ceased; meanwhile do something again and again."""
        await self._wait(alert, while_doing, firing=False, within_s=CEASES_S)

    async def _wait(self, alert: str, do: Fault | None, *, firing: bool, within_s: float) -> None:
        waiting = asyncio.create_task(
            asyncio.to_thread(self._server.wait_for, {alert}, firing=firing, within_s=within_s)
        )
        while not waiting.done():
            if do is not None:
                await do()
            await asyncio.sleep(0.3)
        seen = waiting.result()
        assert seen, f"{alert} did not {'fire' if firing else 'cease'} within {within_s:.0f} s"
        print(f"\n{alert} {'fires' if firing else 'ceased'} after {seen[alert]} s")


@pytest.fixture
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("prometheus")
    with metered() as (meter, address), running_prometheus(folder) as server:
        server.scrape(address)
        yield Watched(meter, server)


@pytest.fixture
def redis() -> Iterator[RedisProcess]:
    server = RedisProcess().start()
    yield server
    server.stop()


@pytest.fixture
async def stores(redis: RedisProcess) -> AsyncIterator[OpenStores]:
    async with open_stores(redis.url) as stores:
        yield stores


@pytest.fixture
def artifacts(tmp_path: Path) -> SegmentStore:
    return SegmentStore(ArtifactStore.open(tmp_path / "artifacts"))


async def settle(stores: Stores, segments: SegmentStore, watched: Watched) -> None:
    """Take what was written to the artifact store, as the intake does."""
    await stores.access.put_app(App(app_id=APP, environment="development", created_at=0))
    loop = IntakeLoop(stores, segments, HashingEmbedder(), SystemClock(), watched.meter, owner="drill")
    await loop.apply_round()
    assert await loop.compact_round(at_once=True) > 0


async def test_a_segment_is_damaged(
    watched: Watched, stores: OpenStores, artifacts: SegmentStore, tmp_path: Path
) -> None:
    await furnish(stores)
    await settle(stores, artifacts, watched)

    async def load() -> None:
        """Load the shop as a replica that starts."""
        host = EngineHost(stores, artifacts, SystemClock(), watched.meter)
        corner = await open_corner(clock=SystemClock(), stores=stores, client=LocalRecommenderClient(host))
        request = {"user_id": "gina", "rows": 3}
        path = "/v1/recommendation/user_to_products"
        assert (
            await call(corner.handler, "POST", path, headers=corner.headers(), json=request)
        ).status == 200
        await host.close()
        await corner.close()

    whole = damage(tmp_path, "interaction-*.parquet")
    await load()
    await watched.see("KioskSegmentsDamaged")
    repair(whole)
    await watched.see_end("KioskSegmentsDamaged", while_doing=load)


async def test_redis_is_away_for_longer_than_the_query_log_waits(
    watched: Watched, stores: OpenStores, redis: RedisProcess
) -> None:
    clock = SystemClock()
    await furnish(stores)
    host = EngineHost(stores, None, clock, watched.meter)
    log = QueryLogWriter(stores.queries, clock, watched.meter)
    client = LocalRecommenderClient(host)
    corner = await open_corner(clock=clock, stores=stores, client=client, query_log=log)
    await log.start()

    async def search() -> None:
        body, path = {"q": "hoe", "user_id": "gina"}, "/v1/search/search"
        reply = await call(corner.handler, "POST", path, headers=corner.headers(), json=body)
        assert reply.status == 200, reply.body

    await search()
    redis.pause()
    try:
        for _ in range(MOST_WAITING + 100):
            await search()
        await watched.see("KioskQueriesLost")
    finally:
        redis.resume()
    await watched.see_end("KioskQueriesLost", while_doing=search)
    await log.close()
    await host.close()
    await corner.close()


async def test_the_query_log_cannot_be_written(
    watched: Watched, stores: OpenStores, artifacts: SegmentStore, tmp_path: Path
) -> None:
    clock = SystemClock()
    compactor = DailyLogCompactor(
        stores.queries, QueryLogStore(artifacts.artifacts, clock), clock, watched.meter
    )

    async def ask() -> None:
        await stores.queries.append(APP, [LoggedQuery(clock.now_ms(), "search", "hoe", 1)])
        with contextlib.suppress(Unavailable):
            await compactor.run_once([APP], at_once=True)

    await ask()
    with blocked(tmp_path, "queries"):
        await watched.see("KioskQueryLogStuck", while_doing=ask)
    await watched.see_end("KioskQueryLogStuck", while_doing=ask)
    compactor.clear_offsets()
    await ask()
    assert await stores.queries.read(APP, "0", count=1) == [], "what waited was not settled"


async def test_the_tracker_comes_back_behind_a_log_and_a_manifest_that_are_gone(
    watched: Watched, stores: OpenStores, artifacts: SegmentStore, tmp_path: Path
) -> None:
    room = Newsroom(stores, StillClock(SystemClock().now_ms()), segments=artifacts, meter=watched.meter)
    await room.watch()
    await room.upload(newsroom.sale())
    await room.ripen()
    room.kill()
    await room.upload(newsroom.sale("again"), newsroom.sale("and again"))
    await room.settle()
    newsroom.damage(tmp_path)
    await room.rounds(1)
    await watched.see("KioskThreadNewsMissed")

    async def follow() -> None:
        await room.rounds(1)

    await watched.see_end("KioskThreadNewsMissed", while_doing=follow)


def damage(folder: Path, pattern: str) -> dict[Path, bytes]:
    """Damage the end of files; return what they held."""
    whole = {path: path.read_bytes() for path in folder.rglob(pattern)}
    assert whole
    for path, data in whole.items():
        path.chmod(0o600)
        path.write_bytes(data[:-40] + b"x" * 40)
    return whole


def repair(whole: dict[Path, bytes]) -> None:
    """Write files as they were."""
    for path, data in whole.items():
        path.write_bytes(data)


@contextmanager
def blocked(place: Path, name: str) -> Iterator[None]:
    """Put a file where a folder is, so that nobody can write into the folder, whoever runs the drill."""
    (folder,) = place.rglob(name)
    aside = folder.rename(place / "aside")
    folder.touch()
    try:
        yield
    finally:
        folder.unlink()
        aside.rename(folder)


class Press:
    """Asks questions, each another one, and waits for their ends."""

    def __init__(self, stores: OpenStores, client: QuestionClient, provider: Provider) -> None:
        self._stores, self._client = stores, client
        self.provider = provider
        self.tokens = 0
        self.composers: list[str] = []
        self.reasons: list[str] = []

    async def ask(self) -> None:
        """Ask one question."""
        now_ms = SystemClock().now_ms()
        question = Question(
            question_id=new_question_id(), app_id=APP, asked_at=now_ms, deadline_at=now_ms + 60_000,
            text=f"Who signed the treaty about the water of the river in {1000 + len(self.composers)}?",
        )  # fmt: skip
        await self._client.submit(question)
        await self._client.queue.wait_idle()
        recorded = await self._stores.questions.read(APP, question.question_id)
        assert recorded is not None
        self.composers.append(recorded.answer.composer)
        self.reasons.append(recorded.answer.finish_reason or "")


@pytest.fixture
async def press(
    watched: Watched, stores: OpenStores, artifacts: SegmentStore, tmp_path: Path
) -> AsyncIterator[Press]:
    clock = SystemClock()
    await upload(stores, ARTICLES)
    await settle(stores, artifacts, watched)
    archive = ArchiveHost(stores, artifacts, None, clock, watched.meter)
    async with Provider() as provider:
        config = LanguageModelConfig(url=provider.url, model="m", may_be_internal=True, **QUICK)
        client = open_question_client(
            stores, archive, clock, watched.meter, app_ids=lambda: (APP,),
            writer=LanguageModelWriter(config, clock, watched.meter), llm_token_limit=lambda app_id: press.tokens,
        )  # fmt: skip
        press = Press(stores, client, provider)
        await client.start()
        yield press
        await client.close()
        await archive.close()


@pytest.mark.parametrize("fault", ["500", "stall"])
async def test_the_model_is_broken_or_late(watched: Watched, press: Press, fault: str) -> None:
    await press.ask()
    assert press.composers == ["model"]
    press.provider.behaviour = fault
    await watched.see("KioskModelFails", while_doing=press.ask)
    assert set(press.composers[1:]) == {"extractive"}
    press.provider.behaviour = "good"
    await watched.see_end("KioskModelFails", while_doing=press.ask)
    assert press.composers[-1] == "model"


async def test_an_app_spends_its_tokens_of_the_day(watched: Watched, press: Press) -> None:
    await press.ask()
    press.tokens = 1
    await press.ask()
    assert press.composers == ["model", "extractive"]
    await watched.see("KioskProviderCeiling")
    press.tokens = 0
    await watched.see_end("KioskProviderCeiling", while_doing=press.ask)
    assert press.composers[-1] == "model"


async def test_the_archive_cannot_be_read(watched: Watched, press: Press, tmp_path: Path) -> None:
    whole = damage(tmp_path, "*.json")
    await watched.see("KioskAnswersFail", while_doing=press.ask)
    assert set(press.reasons) == {"error"}
    repair(whole)
    await watched.see_end("KioskAnswersFail", while_doing=press.ask)
    assert press.reasons[-1] == "success"
