"""A canary in every store, then one order: nothing of them is left in any byte, and no later training saw them."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from actors.intake.client import Erasures
from actors.intake.compaction import CompactionConfig
from actors.intake.loop import IntakeConfig, IntakeLoop
from actors.intake.personal_data import PersonalDataReader
from actors.language.hashing_embedder import HashingEmbedder
from cluster.admin.local_person_files import LocalPersonFiles
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.snapshots import FOLDER, MANIFEST, SnapshotStore, find_marked_snapshots
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock, iso_ms
from cluster.errors import Conflict
from cluster.meter import SilentMeter
from cluster.records.apps import App
from cluster.records.engine import Engine
from cluster.records.erasure import Erasure
from cluster.records.run import Run
from cluster.store import keys
from cluster.store.connect import OpenStores, open_stores
from cluster.store.data.change_log import Follower
from jobs.refresh.recipe import Recipe, load_recipe_file
from jobs.refresh.runs import training_stages
from jobs.refresh.runs.checkpoint import CheckpointStore
from jobs.refresh.runs.promotion import promote_version
from jobs.refresh.runs.run_attempt import RunAttempt
from jobs.refresh.runs.run_commands import create_run
from jobs.refresh.runs.training_source import TrainingSource, read_training_source
from jobs.refresh.runs.worker import MOST_RESTARTS, TrainingWorker, WorkerResources
from jobs.refresh.tuning.plan import TuningPlan
from tests.suites import canary
from tests.suites.canary import APP, SECOND, USER, VISITOR
from tests.suites.doing import require
from tests.suites.redis_process import RedisProcess
from tests.suites.waiting import until

pytestmark = [pytest.mark.redis, pytest.mark.slow]
RECIPE = load_recipe_file("fast").with_changes({"limits.memory_mb": 4096})
READERS, EVENTS, ITEMS = 60, 20, 90
START = "2026-03-{day:02d}T09:{minute:02d}:30.250Z"


@dataclass
class World:
    """An installation without Ray: Redis, a shelf, an intake at work."""

    stores: OpenStores
    folder: Path
    loop: IntakeLoop

    @property
    def artifacts(self) -> ArtifactStore:
        return ArtifactStore.open(self.folder / "shelf")

    @property
    def now_ms(self) -> int:
        return SystemClock().now_ms()

    async def settled(self) -> None:
        """Wait until everything accepted stands in the artifact store."""
        for noun in ("user", "product", "interaction"):
            last = await self.stores.changes.last(APP, noun)
            await self.stores.changes.request_compaction(APP, {noun: last})
        for _ in range(600):
            settled = await self.stores.changes.compacted_offsets(APP)
            lasts = {
                noun: await self.stores.changes.last(APP, noun) for noun in ("user", "product", "interaction")
            }
            if await self.stores.intake.depth(APP) == 0 and all(
                settled.get(noun, "0") == at for noun, at in lasts.items()
            ):
                return
            await asyncio.sleep(0.05)
        raise AssertionError("it does not settle")

    async def trained(self, **workplace: Any) -> Run:
        asked = await create_run(
            self.stores, APP, "default", RECIPE.model_dump(mode="json"), now_ms=self.now_ms, by="a test"
        )
        done = require(await TrainingWorker(self.workplace(**workplace), "worker").work(APP, asked.run_id))
        return done

    def workplace(self, **changes: Any) -> WorkerResources:
        scratch = self.folder / "scratch"
        return WorkerResources(
            self.stores,
            self.artifacts,
            SystemClock(),
            scratch,
            beat_s=0.05,
            patience_s=0.0,
            settle_s=5.0,
            **changes,
        )

    async def forgotten(self, **who: Any) -> Erasure:
        erasures = Erasures(self.stores, SystemClock())
        return await erasures.wait(
            await erasures.order(APP, request_id="r", by="command", **who), within_s=90.0
        )

    def snapshot(self, version: str) -> dict[str, bytes]:
        """All files of a version but its manifest, which names times and offsets."""
        folder = self.folder / "shelf" / FOLDER / APP / "default" / version
        files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != MANIFEST]
        return {str(path.relative_to(folder)): path.read_bytes() for path in files}

    async def traces(self) -> list[str]:
        """Search everything that is kept."""
        return [*await canary.traces_in_redis(self.stores), *canary.traces_in_files(self.folder)]


@contextlib.asynccontextmanager
async def a_world(*, owns_redis: bool = True) -> AsyncIterator[World]:
    folder = Path(tempfile.mkdtemp(prefix="kiosk-canary-"))
    (folder / "redis").mkdir()
    server = RedisProcess("--rdbcompression", "no", durable=True, folder=folder / "redis").start()
    try:
        async with open_world(server.url, folder, owns_redis=owns_redis) as world:
            yield world
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.asynccontextmanager
async def open_world(url: str, folder: Path, *, owns_redis: bool = False) -> AsyncIterator[World]:
    """Open an installation over a Redis; its artifact store is below the folder."""
    async with open_stores(url, hot_s=5.0, slow_s=10.0) as stores:
        await stores.access.put_app(App(app_id=APP, environment="development", created_at=0))
        await stores.engines.put(Engine(app_id=APP, engine_id="default"))
        loop = IntakeLoop(
            stores,
            SegmentStore(ArtifactStore.open(folder / "shelf")),
            HashingEmbedder(),
            SystemClock(),
            SilentMeter(),
            owner="one",
            rules=IntakeConfig(
                apps_every_s=0.0,
                compaction_pause_s=0.05,
                erase_pause_s=0.05,
                compaction=CompactionConfig(every_s=0.2),
            ),
            files=LocalPersonFiles(folder),
            owns_redis=owns_redis,
        )
        work = asyncio.create_task(loop.run())
        try:
            yield World(stores, folder, loop)
        finally:
            loop.stop()
            await work


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with a_world() as found:
        yield found


async def fill(world: World, *, live: bool) -> None:
    """Fill an installation with the same people; the canary lives among them or not."""
    stores, chosen = world.stores, random.Random(7)
    products = [{"product_id": f"p{n}", "title": f"Thing {n}", "type": "book"} for n in range(ITEMS)]
    await canary.upload(stores, "product", products, world.now_ms)
    people = [{"user_id": f"reader-{n}", "city": f"City {n % 3}"} for n in range(READERS)]
    await canary.upload(stores, "user", people[: READERS // 2], world.now_ms)
    await canary.open_experiment(stores, world.now_ms)
    for n in range(EVENTS):
        events = [
            {
                "type": ("product_detail_page_view", "add_to_cart", "click")[(n + reader) % 3],
                "user_id": f"reader-{reader}",
                "product_ids": [f"p{chosen.randrange(reader % 3, ITEMS, 3)}"],
                "timestamp": START.format(day=1 + n, minute=reader),
            }
            for reader in range(READERS)
        ]
        await canary.act(stores, events, world.now_ms)
        if live and n == EVENTS // 2:
            await canary.live(stores, world.now_ms, START.format(day=11, minute=17))
    await canary.upload(stores, "user", people[READERS // 2 :], world.now_ms)
    if live:
        await canary.be_refused(stores, world.folder, world.now_ms)
    await world.settled()


async def test_nothing_of_a_person_is_left_and_later_trainings_never_saw_them(world: World) -> None:
    await fill(world, live=True)
    before = await world.trained()
    assert before.status == "finished"
    learned = world.snapshot(before.version)
    held = await create_run(
        world.stores, APP, "default", RECIPE.model_dump(mode="json"), now_ms=world.now_ms, by="test"
    )
    canary.leave_checkpoints(world.artifacts, RECIPE, held.run_id, "a-run-that-died")
    canary.leave_outcome(world.artifacts, await world.stores.served.salt(APP), world.now_ms)
    (world.folder / "redis" / "appendonly.aof.damaged-20260101T000000").write_bytes(b"$4\r\n" + USER.encode())
    found = await world.traces()
    for needle in canary.NEEDLES:
        assert any(needle in trace for trace in found), f"{needle} was never there"

    receipt = await world.forgotten(user_id=USER)

    assert await world.traces() == []
    counts = {place.place: place.found for place in receipt.places}
    missing = [place for place, count in counts.items() if not count]
    assert missing == ["change log"], "the canary was not put there"  # what is settled was cut off the log
    assert counts["settled interactions"] == 5
    left = {place.place: place.left for place in receipt.places if place.left}
    assert left == {"model snapshots": 1}
    assert USER not in receipt.model_dump_json()
    assert VISITOR not in receipt.model_dump_json()
    assert [snapshot.version for snapshot in find_marked_snapshots(world.artifacts, APP)] == [before.version]
    assert (await world.forgotten(user_id="somebody-who-never-came")).left == 0
    with pytest.raises(Conflict, match="people who were erased"):
        await promote_version(
            world.stores, world.artifacts, APP, "default", before.version, now_ms=world.now_ms, by="a test"
        )

    after = await world.trained()
    assert (after.status, after.error) == ("finished", "")
    assert find_marked_snapshots(world.artifacts, APP) == []
    assert [version.version for version in SnapshotStore(world.artifacts).versions(APP, "default")] == [
        after.version
    ]
    async with a_world() as other:
        await fill(other, live=False)
        never = await other.trained()
        assert other.snapshot(never.version) == world.snapshot(after.version)
        assert len(learned) > 10
        assert other.snapshot(never.version) != learned, "the canary changed nothing"
    assert await world.traces() == []


async def test_an_export_holds_everything_a_receipt_counts(world: World) -> None:
    await fill(world, live=True)
    person = await world.stores.erasures.person(APP, USER, "")
    assert set(person.anonymous_ids) == {VISITOR, SECOND}
    places = PersonalDataReader(world.stores, world.artifacts, LocalPersonFiles(world.folder))
    found = await places.read(person)
    text = repr(found)
    for needle in canary.NEEDLES:
        assert needle in text, needle
    assert [item["user_id"] for item in found["profile"]] == [USER]
    assert len(found["settled interactions"]) == 5
    receipt = await world.forgotten(user_id=USER)
    assert {place.place: place.found for place in receipt.places if place.place in found} == {
        place: len(items) for place, items in found.items() if place != "model snapshots"
    } | {"model snapshots": 0}
    assert {place: items for place, items in (await places.read(person)).items() if items} == {}


async def test_what_a_slow_follower_holds_back_stands_in_the_receipt(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.intake.erasure.FOLLOWER_WAIT_S", 1.0)
    follower = {"user": "0", "product": "0", "interaction": "0"}
    await world.stores.changes.record_follower(APP, Follower("slow", world.now_ms, follower))
    await fill(world, live=True)
    receipt = await world.forgotten(user_id=USER)
    (held,) = [place for place in receipt.places if place.left]
    assert (held.place, held.found > 0, held.left > 0) == ("change log", True, True)
    assert held.until > iso_ms(world.now_ms)
    assert {trace.split("change:")[0] for trace in await canary.traces_in_redis(world.stores)} == {
        "redis b'{shop}:"
    }


async def test_nobody_else_loses_anything(world: World) -> None:
    await fill(world, live=True)
    before = [await _read_places(world, f"reader-{n}") for n in (0, 17, 59)]
    await world.forgotten(user_id=USER)
    assert [await _read_places(world, f"reader-{n}") for n in (0, 17, 59)] == before


async def _read_places(world: World, user_id: str) -> dict[str, Any]:
    person = await world.stores.erasures.person(APP, user_id, "")
    return await PersonalDataReader(world.stores, world.artifacts).read(person)


async def test_a_visitor_is_forgotten_alone_and_not_when_linked(world: World) -> None:
    await fill(world, live=True)
    at = START.format(day=12, minute=1)
    click = {"type": "click", "anonymous_id": "stray-4411", "product_ids": ["p1"], "timestamp": at}
    await canary.act(world.stores, [click], world.now_ms)
    with pytest.raises(Conflict, match="forget the user instead"):
        await world.forgotten(anonymous_id=VISITOR)
    receipt = await world.forgotten(anonymous_id="stray-4411")
    assert receipt.left == 0
    person = await world.stores.erasures.person(APP, "", "stray-4411")
    assert {
        k: v for k, v in (await PersonalDataReader(world.stores, world.artifacts).read(person)).items() if v
    } == {}
    assert await world.stores.records.get(APP, "user", USER) is not None


async def test_a_run_claimed_before_an_erasure_never_publishes_the_person(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(world, live=True)
    seen: list[bool] = []
    write_snapshot = training_stages.train_and_write_snapshot
    going = asyncio.get_running_loop()

    def slow(attempt: RunAttempt, recipe: Recipe, source: TrainingSource, report: dict[str, Any]) -> Path:
        folder = write_snapshot(attempt, recipe, source, report)
        seen.append(f"u:{USER}" in source.data.readers.names.to_pylist())
        if len(seen) == 1:  # somebody is forgotten while the model is made
            asyncio.run_coroutine_threadsafe(world.forgotten(user_id=USER), going).result(90)
        return folder

    monkeypatch.setattr(training_stages, "train_and_write_snapshot", slow)
    done = await world.trained()
    assert (done.status, done.error, seen) == ("finished", "", [True, False])
    assert [version.version for version in SnapshotStore(world.artifacts).versions(APP, "default")] == [
        done.version
    ]
    assert find_marked_snapshots(world.artifacts, APP) == []
    assert await world.traces() == []


async def test_a_run_that_died_with_the_data_of_a_person_goes_on_without(world: World) -> None:
    await fill(world, live=True)
    source = read_training_source(SegmentStore(world.artifacts), APP, RECIPE)
    await world.forgotten(user_id=USER)
    run = await create_run(
        world.stores, APP, "default", RECIPE.model_dump(mode="json"), now_ms=world.now_ms, by="test"
    )
    CheckpointStore(world.artifacts, APP, run.run_id).put_source(
        source
    )  # its worker wrote this a moment too late
    done = require(await TrainingWorker(world.workplace(), "another").work(APP, run.run_id))
    assert (done.status, done.error) == ("finished", "")
    assert find_marked_snapshots(world.artifacts, APP) == []
    assert await world.traces() == []


async def test_a_training_ends_when_people_are_erased_every_time(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(world, live=False)
    erased = iter(range(READERS))
    load_plan = training_stages.load_plan

    def disturbed(*given: Any) -> TuningPlan:
        plan = load_plan(*given)
        SegmentStore(world.artifacts).erase(APP, "interaction", [f"u:reader-{next(erased)}"])
        return plan

    monkeypatch.setattr(training_stages, "load_plan", disturbed)
    done = await world.trained()
    assert (done.status, next(erased)) == ("failed", MOST_RESTARTS + 1)
    assert "people were erased" in done.error
    assert SnapshotStore(world.artifacts).versions(APP, "default") == []


async def test_after_plain_deletes_the_log_file_is_written_anew_once_an_hour(world: World) -> None:
    await fill(world, live=True)

    def kept() -> bytes:
        """What the server keeps on disk, one file or several."""
        content = b""
        for path in (world.folder / "redis").rglob("*aof*"):
            # The server renames its new file when that is complete.
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                content += path.read_bytes()
        return content

    def is_gone(user_id: str) -> bool:
        return f":recent:u:{user_id}\r\n".encode() not in kept()

    async def is_requested() -> bool:
        state = await world.stores.erasures.read_append_only_file_status()
        return state.requested_ms > state.done_ms > 0

    await world.stores.interactions.erase(APP, ["reader-1"])
    await until(lambda: is_gone("reader-1"))
    await world.stores.interactions.erase(APP, ["reader-2"])
    await until(is_requested)
    await asyncio.sleep(1.0)  # many rounds of the intake
    assert not is_gone("reader-2")
    state = await world.stores.erasures.read_append_only_file_status()
    await world.stores.server.execute_slow("HSET", keys.log_rewrite(), "done", state.done_ms - 3_600_000)
    await until(lambda: is_gone("reader-2"))


async def test_the_receipt_names_the_duty_of_the_operator_of_an_external_redis() -> None:
    async with a_world(owns_redis=False) as world:
        await fill(world, live=True)
        receipt = await world.forgotten(user_id=USER)
        (left,) = [place for place in receipt.places if place.left]
        assert (left.place, left.until) == ("append-only file", "its operator rewrites it")
        assert "BGREWRITEAOF" in left.reason
        assert {trace.partition("/")[0] for trace in await world.traces()} == {"redis"}
        assert (await world.stores.erasures.read_append_only_file_status()).done_ms == 0


async def test_no_key_is_named_by_a_person(world: World) -> None:
    await world.stores.shown_products.record(APP, f"u:{USER}", VISITOR, ["p1"])
    await world.stores.questions.count(APP, f"u:{USER}", 20_000)
    names = await world.stores.server.execute_slow("KEYS", "*")
    assert [name for name in names if USER.encode() in name or VISITOR.encode() in name] == []
    assert await world.stores.shown_products.read(APP, f"u:{USER}", VISITOR) == ["p1"]
    receipt = await world.forgotten(user_id=USER)
    counts = {place.place: place.found for place in receipt.places}
    assert counts["counters and pages"] == 2
    assert await world.stores.shown_products.read(APP, f"u:{USER}", VISITOR) == []


async def test_an_order_survives_the_death_of_whoever_carries_it_out(world: World) -> None:
    await fill(world, live=True)
    erasures = Erasures(world.stores, SystemClock())
    person = await world.stores.erasures.person(APP, USER, "")
    ordered = await erasures.order(APP, user_id=USER, request_id="r", by="command")
    # half of it is done, by one who died: the links that would name the visitors are gone already
    await world.stores.interactions.erase(APP, [USER])
    receipt = await erasures.wait(ordered)
    assert receipt.left == 0
    assert {
        k: v for k, v in (await PersonalDataReader(world.stores, world.artifacts).read(person)).items() if v
    } == {}

    async def is_done() -> bool:
        return await world.stores.erasures.list_orders() == []

    await until(is_done)  # the order goes after its receipt is there


@pytest.mark.parametrize("fields", [("payload",), ("op",), ("payload", "copy")])
async def test_a_damaged_erasure_in_the_log_is_repaired_or_loud(
    redis_stores: OpenStores, fields: tuple[str, ...]
) -> None:
    await redis_stores.interactions.erase(APP, ["ada"])
    key = f"{{{APP}}}:change:interaction"
    ((offset, flat),) = await redis_stores.server.execute_slow("XRANGE", key, "-", "+")
    entry = dict(zip(flat[::2], flat[1::2], strict=True))
    for field in fields:
        raw = entry[field.encode()]
        entry[field.encode()] = raw[:-3] + bytes([raw[-3] ^ 1]) + raw[-2:]
    await redis_stores.server.execute_slow("DEL", key)
    await redis_stores.server.execute_slow(
        "XADD", key, offset, *(part for pair in entry.items() for part in pair)
    )
    for _ in range(2):
        (change,) = await redis_stores.changes.read(APP, {"interaction": "0"}, count=10, block_ms=0)
        assert change.op == "erase"
    lost = await redis_stores.erasures.list_lost(APP)
    if len(fields) == 2:
        assert (change.is_lost, change.payload, len(lost)) == (True, b"[]", 1)
    else:
        assert (change.is_lost, change.payload, lost) == (False, b'["u:ada"]', [])


async def test_a_damaged_removal_of_a_profile_is_repaired_from_the_store(world: World) -> None:
    people = [{"user_id": f"reader-{n}"} for n in range(3)]
    await canary.upload(world.stores, "user", people, world.now_ms)
    await world.settled()
    key, lost = f"{{{APP}}}:user:reader-1", b"1broken"
    await world.stores.server.execute_slow("DEL", key)
    await world.stores.server.execute_slow("ZREM", f"{{{APP}}}:user-id", "reader-1")
    entry = ("op", "remove", "payload", lost, "copy", lost)
    await world.stores.server.execute_slow("XADD", f"{{{APP}}}:change:user", "*", *entry)
    await world.settled()
    rows = SegmentStore(world.artifacts).records(APP, "user")
    assert sorted(orjson.loads(row)["user_id"] for row in rows) == ["reader-0", "reader-2"]
    assert len(await world.stores.erasures.list_lost(APP)) == 1
