"""Events in the middle of a backup, of its verification and of a restore: each leaves an installation that is whole, or
says that it is not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from actors.intake.client import Erasures
from cluster.admin.schema import check_schema, ensure_schema
from cluster.artifacts.file_verification import file_entry_from_path
from cluster.artifacts.manifest import Manifest
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.backup.audit_position import record_restore
from cluster.backup.catalogue import AuditPosition, Backup, load_backup
from cluster.backup.chunks import ChunkWriter
from cluster.backup.creation import BackupJob
from cluster.backup.restoring import RestoreJob, empty_for_restore, plan_restore
from cluster.backup.verification import verify_sample
from cluster.backup_pace import Pace
from cluster.clock import SystemClock, iso_ms
from cluster.crypto import Signer
from cluster.errors import Conflict, Fault
from cluster.records.apps import App
from cluster.records.engine import Engine
from cluster.records.erasure import Person
from cluster.store import keys
from cluster.store.client.key_loader import KeyPart
from cluster.store.connect import OpenStores, open_stores
from cluster.store.data.intake import RecordPut
from cluster.store.data.person_traces import LOG
from tests.suites import canary
from tests.suites.doing import APP, put
from tests.suites.redis_process import RedisProcess
from tests.suites.redis_waiting import EASY, until_it_works
from tests.suites.test_administration import a_row
from tests.suites.test_forget_person import World, a_world
from tests.suites.test_small_stores import an_app

pytestmark = [pytest.mark.redis, pytest.mark.usefixtures("allow_world")]

MARK = ("f" * 32,)
SIGNER = Signer(b"k" * 32)


class InterruptedBackup(BackupJob):
    """A backup in whose middle, after the bulk keys and before the cut, something happens."""

    event: Callable[[], Awaitable[object]]

    async def _cut(self, *arguments: object) -> None:
        await self.event()
        await super()._cut(*arguments)  # type: ignore[arg-type]


class LateBackup(BackupJob):
    """A backup in whose middle, after the copy of the artifact store and before the cut, something happens once."""

    event: Callable[[], Awaitable[object]]
    cuts = 0

    async def _read_control(self, *arguments: Any) -> Any:
        self.cuts += 1
        if self.cuts == 1:
            await self.event()
        return await super()._read_control(*arguments)


class RestartingPace(Pace):
    """A pace that kills and restarts Redis in the middle of the first listing of keys."""

    def __init__(self, stores: OpenStores, server: RedisProcess) -> None:
        super().__init__(rest=0)
        self._stores, self._server, self._pages = stores, server, 0
        self._done = 0
        self.listings = 0

    async def step(self, stage: str, done: int) -> None:
        if stage != "keys listed":
            return
        self._pages += 1
        self.listings += done < self._done or self._done == 0
        self._done = done
        if self._pages == 5:
            self._server.kill()
            self._server.start()
            await until_it_works(self._stores)


async def back_up(
    stores: OpenStores, source: ArtifactStore, target: ArtifactStore, event: Callable[[], Awaitable[object]]
) -> Backup:
    """Back up; `event` happens in the middle."""
    job = InterruptedBackup(stores, source, target, MARK, pace=Pace(rest=0))
    job.event = event
    return load_backup(target, (await job.run()).facts.backup_id, MARK)


async def restore(target: ArtifactStore, stores: OpenStores, into: ArtifactStore) -> None:
    """Restore the newest backup."""
    await RestoreJob(plan_restore(target, MARK), target, stores, into, SystemClock().now_ms()).run()


@contextlib.asynccontextmanager
async def empty_side(folder: Path) -> AsyncIterator[tuple[OpenStores, ArtifactStore]]:
    """Open an empty installation."""
    server = RedisProcess().start()
    try:
        async with open_stores(server.url, **EASY) as stores:
            yield stores, ArtifactStore.open(folder / "into", signer=SIGNER)
    finally:
        server.stop()


def target_of(folder: Path) -> ArtifactStore:
    """Return a place for backups."""
    return ArtifactStore.open(folder / "target", signer=SIGNER)


async def with_canary(world: World) -> Person:
    """Let a person with data in every place live in an installation; return who it is."""
    await ensure_schema(world.stores, world.now_ms)
    products = [{"product_id": f"p{n}", "title": f"Thing {n}", "type": "book"} for n in range(9)]
    await canary.upload(world.stores, "product", products, world.now_ms)
    await canary.open_experiment(world.stores, world.now_ms)
    await canary.live(world.stores, world.now_ms, iso_ms(world.now_ms - 60_000))
    await world.settled()
    return await world.stores.erasures.person(APP, canary.USER, "")


async def test_who_was_erased_during_a_backup_does_not_come_back(tmp_path: Path) -> None:
    async with a_world() as world, empty_side(tmp_path) as (stores, into):
        person = await with_canary(world)

        async def erase() -> None:
            erasures = Erasures(world.stores, SystemClock())
            erasure = await erasures.order(APP, request_id="r", by="command", user_id=canary.USER)
            for _ in range(600):
                receipt = await world.stores.erasures.read(APP, erasure.erasure_id)
                if receipt is not None and receipt.status == "finished":
                    return
                await asyncio.sleep(0.05)
            raise AssertionError("the erasure does not end")

        before = await world.stores.erasures.find(person)
        assert sum(len(items) > 0 for items in before.values()) > 8
        backup = await back_up(world.stores, world.artifacts, target_of(tmp_path), erase)
        assert backup.facts.apps[APP].start != backup.facts.apps[APP].end
        await restore(target_of(tmp_path), stores, into)
        after = await stores.erasures.find(person)
        assert {place: items for place, items in after.items() if items and place != LOG} == {}
        assert await stores.records.get(APP, "product", "p1") is not None


async def test_an_erasure_ordered_during_a_backup_is_carried_out_after_its_restore(tmp_path: Path) -> None:
    async with a_world() as world, empty_side(tmp_path) as (stores, into):
        person = await with_canary(world)

        async def order() -> None:
            erasures = Erasures(world.stores, SystemClock())
            world.loop.stop()
            await asyncio.sleep(1.0)  # its step ends
            await erasures.order(APP, request_id="r", by="command", user_id=canary.USER)
            await canary.upload(world.stores, "product", [{"product_id": "late"}], world.now_ms)

        await back_up(world.stores, world.artifacts, target_of(tmp_path), order)
        await restore(target_of(tmp_path), stores, into)
        ((erasure, ordered),) = await stores.erasures.list_orders()
        assert ordered == person
        assert [receipt.erasure_id for receipt in await stores.erasures.newest(APP)] == [erasure.erasure_id]
        (task_id,) = await stores.server.execute_slow("ZRANGE", keys.task_open(APP), 0, -1)
        task = await stores.tasks.get(APP, "product", task_id.decode())
        assert task is not None
        assert (task.noun, task.total) == ("product", 1)


async def test_an_erasure_that_ends_during_a_backup_has_ended_in_it(
    redis_stores: OpenStores, easy_stores: OpenStores, tmp_path: Path
) -> None:
    await ensure_schema(redis_stores, 0)
    await redis_stores.access.put_app(an_app())
    source, into = (ArtifactStore.open(tmp_path / name, signer=SIGNER) for name in ("source", "into"))
    erasures = Erasures(redis_stores, SystemClock())
    ending, open_ = [
        await erasures.order(APP, request_id="r", by="command", user_id=user_id) for user_id in ("u1", "u2")
    ]
    for erasure in (ending, open_):
        await redis_stores.erasures.write(erasure.model_copy(update={"status": "running"}))

    async def end() -> None:
        done = ending.model_copy(update={"status": "finished", "finished_at": ending.created_at + 1})
        await redis_stores.erasures.write(done, done=True)

    await back_up(redis_stores, source, target_of(tmp_path), end)
    await restore(target_of(tmp_path), easy_stores, into)
    receipts = {receipt.erasure_id: receipt.status for receipt in await easy_stores.erasures.newest(APP)}
    assert receipts == {ending.erasure_id: "finished", open_.erasure_id: "running"}
    assert [erasure.erasure_id for erasure, _ in await easy_stores.erasures.list_orders()] == [
        open_.erasure_id
    ]


async def test_a_snapshot_that_is_promoted_after_the_copy_of_files_is_in_the_backup(
    redis_stores: OpenStores, easy_stores: OpenStores, tmp_path: Path
) -> None:
    await ensure_schema(redis_stores, 0)
    await redis_stores.access.put_app(an_app())
    source, into = (ArtifactStore.open(tmp_path / name, signer=SIGNER) for name in ("source", "into"))
    built = tmp_path / "built"
    built.mkdir()
    (built / "scores").write_bytes(b"x" * 100)
    files = (file_entry_from_path(built / "scores"),)
    (built / "manifest.json").write_bytes(Manifest("snapshot", 1, 0, {"version": "v1"}, files).dump())

    async def promote() -> None:
        version = SnapshotStore(source).publish(APP, "default", built)
        engine = Engine(app_id=APP, engine_id="default", created_at=1, snapshot=version)
        await redis_stores.engines.put(engine)

    job = LateBackup(redis_stores, source, target_of(tmp_path), MARK, pace=Pace(rest=0))
    job.event = promote
    await job.run()
    await restore(target_of(tmp_path), easy_stores, into)
    (engine,) = await easy_stores.engines.all(APP)
    assert SnapshotStore(into).has(APP, "default", engine.snapshot)


async def test_changes_made_during_a_backup_are_in_its_audit_log(
    redis_stores: OpenStores, easy_stores: OpenStores, tmp_path: Path
) -> None:
    await ensure_schema(redis_stores, 0)
    await redis_stores.access.put_app(an_app())
    source, into = (ArtifactStore.open(tmp_path / name, signer=SIGNER) for name in ("source", "into"))
    audit = redis_stores.audit
    ending = await audit.begin(a_row(1, outcome="begun"))
    rows = [await audit.append(a_row(0))]

    async def change() -> None:
        rows.append(await audit.append(a_row(1), begun_id=ending))
        rows.append(await audit.append(a_row(2)))
        await audit.begin(a_row(3, outcome="begun"))

    backup = await back_up(redis_stores, source, target_of(tmp_path), change)
    assert backup.facts.audit == AuditPosition(rows[-1].row_id, rows[-1].chain)
    await restore(target_of(tmp_path), easy_stores, into)
    assert [row async for row in easy_stores.audit.rows()] == rows
    assert [row for _, row in await easy_stores.audit.begun()] == [a_row(3, outcome="begun")]
    await record_restore(easy_stores.audit, backup.facts, SystemClock().now_ms())


async def test_a_restart_of_redis_while_keys_are_listed_loses_none(tmp_path: Path) -> None:
    server = RedisProcess(durable=True, folder=tmp_path).start()
    try:
        async with open_stores(server.url, **EASY) as stores, empty_side(tmp_path) as (other, into):
            await ensure_schema(stores, 0)
            await stores.access.put_app(an_app())
            await put(
                stores, *(RecordPut(f"p{n}", b'{"product_id":"p%d"}' % n) for n in range(3000)), task_id="t"
            )
            pace = RestartingPace(stores, server)
            source = ArtifactStore.open(tmp_path / "source", signer=SIGNER)
            await BackupJob(stores, source, target_of(tmp_path), MARK, pace=pace).run()
            await restore(target_of(tmp_path), other, into)
            assert len(await other.server.execute_slow("KEYS", "*:product:*")) == 3000
            assert pace.listings == 2
    finally:
        server.stop()


async def test_an_app_that_is_made_during_a_backup_is_whole_in_it(
    redis_stores: OpenStores, easy_stores: OpenStores, tmp_path: Path
) -> None:
    await ensure_schema(redis_stores, 0)
    await redis_stores.access.put_app(an_app())
    source, into = (ArtifactStore.open(tmp_path / name, signer=SIGNER) for name in ("source", "into"))

    async def make_app() -> None:
        await redis_stores.access.put_app(App(app_id="late", environment="development", created_at=1))
        await redis_stores.engines.put(Engine(app_id="late", engine_id="default", created_at=1))
        for number in range(40):
            await redis_stores.server.execute_slow("XADD", keys.archive_call("late"), "*", "call", number)
        body = orjson.dumps({"product_id": "p1", "title": "late"})
        await put(redis_stores, RecordPut("p1", body, "book"), app_id="late", task_id="late")

    await back_up(redis_stores, source, target_of(tmp_path), make_app)
    await restore(target_of(tmp_path), easy_stores, into)
    assert {*await easy_stores.server.execute_slow("HKEYS", keys.access_app())} == {APP.encode(), b"late"}
    assert [engine.engine_id for engine in await easy_stores.engines.all("late")] == ["default"]
    assert await easy_stores.records.ids("late", "product") == ["p1"]
    assert int(await easy_stores.server.execute_slow("XLEN", keys.archive_call("late"))) == 40
    assert await easy_stores.changes.last("late", "product") == await redis_stores.changes.last(
        "late", "product"
    )


async def small_backup(stores: OpenStores, tmp_path: Path) -> tuple[ArtifactStore, Backup]:
    """Back up a few products and files."""
    await ensure_schema(stores, 0)
    await stores.access.put_app(an_app())
    await put(stores, *(RecordPut(f"p{n}", b'{"product_id":"p%d"}' % n) for n in range(30)), task_id="t")
    source = ArtifactStore.open(tmp_path / "source", signer=SIGNER)
    for number in range(4):
        source.write(f"loose/{number}", b"%d" % (number % 3) * 1000)

    async def nothing() -> None:
        """Let no event happen."""

    return target_of(tmp_path), await back_up(stores, source, target_of(tmp_path), nothing)


async def test_a_sample_finds_damage_and_what_a_restore_would_change(
    redis_stores: OpenStores, easy_stores: OpenStores, tmp_path: Path
) -> None:
    target, backup = await small_backup(redis_stores, tmp_path)
    sample = await verify_sample(target, backup, easy_stores, SystemClock())
    assert (sample.is_good, sample.damaged, sample.different) == (True, [], [])
    assert sample.keys == backup.facts.keys + 1, "the change log is a key more"
    assert sample.chunks == sample.of - len(backup.facts.answers)
    assert await easy_stores.server.execute_slow("KEYS", "*") == []
    chosen = [*backup.facts.bulk, backup.facts.artifacts[0].pieces[0]]
    for digest in chosen:
        path = tmp_path / "target" / backup.chunks[digest].name
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        sample = await verify_sample(target, backup, easy_stores, SystemClock())
        assert sample.damaged == [backup.chunks[digest].name]
        assert not sample.is_good
        path.write_bytes(whole)
    chunks = ChunkWriter.open(target)
    twice = [KeyPart(b"{shop}:thing", "string", [value]) for value in (b"one", b"two")]
    backup.facts.bulk = [chunks.write_parts(twice)]
    backup.chunks.update(chunks.needed)
    sample = await verify_sample(target, backup, easy_stores, SystemClock())
    assert sample.different == ["{shop}:thing"]
    falling = [KeyPart(b"{shop}:thing", "stream", [[offset, [b"a", b"b"]]]) for offset in (b"9-0", b"5-0")]
    backup.facts.bulk = [chunks.write_parts(falling)]
    backup.chunks.update(chunks.needed)
    with pytest.raises(Fault, match="equal or smaller than the target stream top item"):
        await verify_sample(target, backup, easy_stores, SystemClock())


async def test_a_sample_is_bounded_in_time_and_always_has_the_control_keys(
    redis_stores: OpenStores, easy_stores: OpenStores, tmp_path: Path
) -> None:
    target, backup = await small_backup(redis_stores, tmp_path)
    sample = await verify_sample(target, backup, easy_stores, SystemClock(), seconds=0.0)
    assert (sample.chunks, sample.is_good) == (len(backup.facts.control), True)
    assert sample.keys > 3


class _Killed(BaseException):
    """The end of a process."""


class _DyingStore(ArtifactStore):
    """Ends the process when it reads the n-th chunk."""

    reads_left = 0

    def read_checked(self, path: str, *, size: int, sha256: str) -> bytes:
        type(self).reads_left -= 1
        if self.reads_left < 0:
            raise _Killed
        return super().read_checked(path, size=size, sha256=sha256)


@pytest.mark.parametrize("reads", range(0, 6))
async def test_a_restore_that_ended_half_way_is_refused_and_starts_over(
    redis_stores: OpenStores, easy_stores: OpenStores, tmp_path: Path, reads: int
) -> None:
    target, backup = await small_backup(redis_stores, tmp_path)
    into = ArtifactStore.open(tmp_path / "into", signer=SIGNER)
    backup_id, now_ms = backup.facts.backup_id, SystemClock().now_ms()
    await empty_for_restore(easy_stores, into, backup_id)
    dying = _DyingStore.open(tmp_path / "target", signer=SIGNER)
    _DyingStore.reads_left = reads
    with pytest.raises(_Killed):
        await RestoreJob(plan_restore(target, MARK), dying, easy_stores, into, now_ms).run()
    for start in (check_schema(easy_stores), ensure_schema(easy_stores, now_ms)):
        with pytest.raises(Conflict, match=f"backup {backup_id} ended half way here.*repeat `kiosk restore`"):
            await start
    with pytest.raises(Conflict, match="ended half way"):
        await BackupJob(easy_stores, into, target, MARK).run()
    await empty_for_restore(easy_stores, into, backup_id)
    await restore(target, easy_stores, into)
    await check_schema(easy_stores)
    assert not (await easy_stores.schema.read()).restoring
    assert (await easy_stores.schema.read()).number == 1
    assert await easy_stores.records.count(APP, "product") == 30
    assert [entry.path for entry in into.entries("")] == [f"loose/{number}" for number in range(4)]
    with pytest.raises(Conflict, match="has data"):
        await empty_for_restore(easy_stores, into, backup_id)
