"""Backup and restore over real Redis servers: what was there at the cut is there again, whatever was written beside."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import orjson
import pytest
from typer.testing import CliRunner

from cluster.admin.schema import ensure_schema
from cluster.artifacts.manifest import FileEntry, Manifest, save_manifest
from cluster.artifacts.storage.artifact_store import ArtifactStore, checksum
from cluster.backup import catalogue
from cluster.backup.catalogue import list_backup_ids, load_backup
from cluster.backup.creation import FOLLOWER, BackupJob, BackupResult
from cluster.backup.removal import (
    RUNNING,
    STALE_MS,
    mark_target_in_use,
    plan_removal,
    remove_backups,
)
from cluster.backup.restoring import RestoreJob, RestorePlan, empty_for_restore, plan_restore
from cluster.backup.verification import compare_records, find_damage
from cluster.backup_pace import Pace
from cluster.clock import SystemClock
from cluster.crypto import Signer, new_master_key, parse_master_key
from cluster.errors import Conflict, NewerRelease, NotFound
from cluster.records.engine import Engine
from cluster.store import keys
from cluster.store.backup_key_classes import key_class
from cluster.store.connect import OpenStores
from cluster.store.data.intake import RecordPut
from deployments.cli.command_line import command_line
from tests.suites.doing import APP, NOW, accept, put, remove, view_interaction
from tests.suites.test_small_stores import a_key, an_app

pytestmark = [pytest.mark.redis, pytest.mark.usefixtures("allow_world")]

MARK = ("f" * 32,)


@pytest.fixture
def source(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore.open(tmp_path / "source", signer=Signer(b"k" * 32))


@pytest.fixture
def target(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore.open(tmp_path / "target", signer=Signer(b"k" * 32))


@pytest.fixture
def into(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore.open(tmp_path / "into", signer=Signer(b"k" * 32))


def product(n: int, version: int = 0) -> RecordPut:
    kind = ("book", "film")[(n + version) % 2]
    body = {"product_id": f"p{n}", "type": kind, "version": version, "title": "x" * 50}
    return RecordPut(f"p{n}", orjson.dumps(body), kind)


class Sides(NamedTuple):
    """An installation, an empty one beside it, and the target of a backup between them."""

    redis_stores: OpenStores
    easy_stores: OpenStores
    source: ArtifactStore
    target: ArtifactStore
    into: ArtifactStore


@pytest.fixture
def sides(
    redis_stores: OpenStores,
    easy_stores: OpenStores,
    source: ArtifactStore,
    target: ArtifactStore,
    into: ArtifactStore,
) -> Sides:
    return Sides(redis_stores, easy_stores, source, target, into)


async def fill(stores: OpenStores, source: ArtifactStore, products: int = 700) -> None:
    """Write a little of everything."""
    await ensure_schema(stores, NOW)
    await stores.access.put_app(an_app())
    await stores.access.put_key(a_key())
    await stores.engines.put(Engine(app_id=APP, engine_id="news", created_at=NOW))
    for first in range(0, products, 100):
        await put(stores, *map(product, range(first, first + 100)), task_id=f"t{first}")
    await put(stores, RecordPut("u1", orjson.dumps({"user_id": "u1"})), noun="user")
    await remove(stores, "p3")
    ask = stores.server.execute_slow
    for n in range(30):
        await ask("LPUSH", keys.recent(APP, f"u{n}"), *(view_interaction(i) for i in range(n + 1)))
        await ask("PEXPIRE", keys.recent(APP, f"u{n}"), 3_600_000)
    await ask("XADD", keys.change_log(APP, "interaction"), "*", "op", "put", "payload", "x")
    await ask("HSET", keys.threads(APP), *(word for n in range(900) for word in (f"u{n}", f"thread {n}")))
    await ask("SADD", keys.linked(APP, "u\xe9"), "a", "b")
    await ask("ZADD", keys.thread_watch(APP), 3, "u1", 4.5, "u2")
    await ask("RPUSH", keys.engine_history(APP, "news"), *range(500))
    await ask("HSET", keys.boost_rule(APP), "news\x1frule", "sealed")
    await ask("HSET", keys.experiment(APP), "e1", "sealed")
    await ask("SET", "kiosk:{access}:new-thing", "a key of a newer release")
    await ask("SET", "foreign", "another program's")
    await ask("HSET", keys.limit(APP, "k1", "read"), "tokens", 1)
    await ask("SET", keys.lease("intake"), "me")
    await accept(stores, "waiting", ["p-waiting"])
    data = np.random.default_rng(1).bytes(100_000)
    source.write(f"snapshots/{APP}/news/v1/items.npy", data)
    entry = FileEntry("items.npy", len(data), checksum(data))
    save_manifest(source, f"snapshots/{APP}/news/v1/manifest.json", Manifest("snapshot", 1, files=(entry,)))
    source.write(f"snapshots/{APP}/news/v1/left-over.npy", b"of an interrupted write")
    source.write("installation.json", b"{}")


async def drop_waiting(stores: OpenStores) -> None:
    (batch,) = await stores.intake.claim("worker", [APP], count=1, block_ms=0)
    assert await stores.intake.give_up(batch, "out of the way", now_ms=NOW)


async def back_up(stores: OpenStores, source: ArtifactStore, target: ArtifactStore) -> BackupResult:
    return await BackupJob(stores, source, target, MARK, pace=Pace(rest=0)).run()


async def restore(plan: RestorePlan, target: ArtifactStore, stores: OpenStores, into: ArtifactStore) -> None:
    await RestoreJob(plan, target, stores, into, SystemClock().now_ms()).run()


async def everything(stores: OpenStores) -> dict[str, Any]:
    """Read all keys that a backup keeps, with whether they expire."""
    ask, values = stores.server.execute_slow, dict[str, Any]()
    for key in await ask("KEYS", "*"):
        name, kind = key.decode(), await ask("TYPE", key)
        if name == "foreign" or key_class(name) == "ephemeral":
            continue
        value = await {
            "string": lambda k: ask("GET", k), "hash": lambda k: ask("HGETALL", k), "set": lambda k: ask("SMEMBERS", k),
            "zset": lambda k: ask("ZRANGE", k, 0, -1, "WITHSCORES"), "list": lambda k: ask("LRANGE", k, 0, -1),
            "stream": lambda k: ask("XRANGE", k, "-", "+"),
        }[kind if isinstance(kind, str) else kind.decode()](key)  # fmt: skip
        if kind in ("hash", b"hash"):
            value = dict(zip(value[::2], value[1::2], strict=True))
        values[name] = (sorted(value) if kind in ("set", b"set") else value, await ask("PTTL", key) > 0)
    return values


async def test_what_was_there_is_there_again(sides: Sides) -> None:
    redis_stores, easy_stores, source, target, into = sides
    await fill(redis_stores, source)
    before = await everything(redis_stores)
    result = await back_up(redis_stores, source, target)
    assert not await redis_stores.server.execute_slow("HEXISTS", keys.follower(APP), FOLLOWER)
    plan = plan_restore(target, MARK)
    await restore(plan, target, easy_stores, into)
    assert await everything(easy_stores) == before
    assert not await easy_stores.server.execute_slow("EXISTS", "foreign", keys.lease("intake"))
    assert {entry.path for entry in into.entries("")} == {
        f"snapshots/{APP}/news/v1/items.npy", f"snapshots/{APP}/news/v1/manifest.json", "installation.json",
    }  # fmt: skip
    for entry in into.entries(""):
        assert into.read(entry.path) == source.read(entry.path)
    assert await easy_stores.changes.last(APP, "product") == await redis_stores.changes.last(APP, "product")
    compared = await compare_records(target, plan.backup, easy_stores, 10_000)
    assert compared.compared == 699 + 1
    assert compared.different == ()
    assert (await easy_stores.intake.claim("c", [APP], count=5, block_ms=0))[0].task_id == "waiting"
    assert result.facts.schema == 1


async def test_a_backup_under_writes_is_the_state_of_its_cut(sides: Sides) -> None:
    redis_stores, easy_stores, source, target, into = sides
    await fill(redis_stores, source, products=1500)
    await drop_waiting(redis_stores)
    done = asyncio.Event()
    written = dict[int, int]()

    async def write() -> None:
        version = 0
        while not done.is_set():
            version += 1
            for n in range(version % 7, 1500, 97):
                await put(redis_stores, product(n, version), task_id=f"w{version}-{n}")
                written[n] = version
            if version % 5 == 0:
                await remove(redis_stores, f"p{version + 10}")
            written.pop(version, None)

    writing = asyncio.create_task(write())
    try:
        job = BackupJob(redis_stores, source, target, MARK, pace=Pace(rest=3), answers=2000)
        facts = (await job.run()).facts
    finally:
        done.set()
        await writing
    cut = facts.apps[APP]
    assert cut.start["product"] != cut.end["product"]
    plan = plan_restore(target, MARK)
    await restore(plan, target, easy_stores, into)
    compared = await compare_records(target, plan.backup, easy_stores, 10_000)
    assert compared.compared > 900
    assert compared.different == ()
    ask = easy_stores.server.execute_slow
    stored = {key.decode().rpartition(":")[2] for key in await ask("KEYS", f"{{{APP}}}:product:*")}
    assert set(await easy_stores.records.ids(APP, "product")) == stored
    by_type = [await easy_stores.records.ids(APP, "product", kind) for kind in ("book", "film")]
    assert sorted(by_type[0] + by_type[1]) == sorted(stored)
    for kind, ids in zip(("book", "film"), by_type, strict=True):
        bodies = await easy_stores.records.get_many(APP, "product", ids)
        assert {orjson.loads(body or b"{}")["type"] for body in bodies} == {kind}


async def test_a_later_backup_copies_only_what_is_new(
    redis_stores: OpenStores, source: ArtifactStore, target: ArtifactStore
) -> None:
    await fill(redis_stores, source)
    first = await back_up(redis_stores, source, target)
    second = await back_up(redis_stores, source, target)
    assert first.new_chunks >= 3
    assert second.new_bytes < first.new_bytes / 5  # answers are sampled anew, times to live are read anew
    await redis_stores.server.execute_slow("SET", keys.record(APP, "user", "u9"), "100000000{}")
    third = await back_up(redis_stores, source, target)
    assert 0 < third.new_bytes < first.new_bytes / 2
    assert len(list_backup_ids(target)) == 3


async def test_old_backups_are_removed_and_the_kept_ones_stay_whole(sides: Sides) -> None:
    redis_stores, easy_stores, source, target, into = sides
    await fill(redis_stores, source)
    ids = []
    for n in range(3):
        source.write(f"snapshots/{APP}/news/v2/part.npy", np.random.default_rng(n).bytes(50_000))
        ids.append((await back_up(redis_stores, source, target)).facts.backup_id)
    target.write("chunks/ab/" + "ab" * 32, b"of an interrupted backup")
    before = {entry.path for entry in target.entries("")}
    plan = plan_removal(target, MARK, keep=2)
    assert (plan.kept, plan.removed) == (tuple(ids[1:]), (ids[0],))
    assert {entry.path for entry in target.entries("")} == before, "a plan changes nothing"
    assert "chunks/ab/" + "ab" * 32 in plan.chunks
    assert len(plan.chunks) >= 2
    for _ in range(2):
        remove_backups(target, plan)
    assert list_backup_ids(target) == ids[1:]
    for record_id in ids[1:]:
        assert find_damage(target, load_backup(target, record_id, MARK)) == []
    assert plan_removal(target, MARK, keep=2).chunks == ()
    assert await everything(redis_stores)
    await restore(plan_restore(target, MARK, backup_id=ids[1]), target, easy_stores, into)
    assert await everything(easy_stores) == await everything(redis_stores)


async def test_nothing_is_removed_beside_a_backup_or_from_a_foreign_one(
    redis_stores: OpenStores, source: ArtifactStore, target: ArtifactStore
) -> None:
    with pytest.raises(NotFound, match="no complete backup"):
        plan_removal(target, MARK, keep=1)
    await fill(redis_stores, source)
    first = await back_up(redis_stores, source, target)
    assert target.entries(RUNNING) == []
    with (
        mark_target_in_use(target, "backup", "a", NOW),
        mark_target_in_use(target, "backup", "b", NOW),
        pytest.raises(Conflict, match="a backup works on the same target"),
        mark_target_in_use(target, "removal", "c", NOW),
    ):
        raise AssertionError
    with (
        mark_target_in_use(target, "removal", "c", SystemClock().now_ms()),
        pytest.raises(Conflict, match="a removal"),
    ):
        await back_up(redis_stores, source, target)
    target.write(f"{RUNNING}/backup-killed", str(NOW).encode())
    with mark_target_in_use(target, "removal", "c", NOW + STALE_MS):
        pass
    loaded = load_backup(target, first.facts.backup_id, MARK)
    foreign = msgspec.structs.replace(
        loaded.facts, fingerprint="0" * 32, backup_id="20000101T000000000Z-abcdef"
    )
    catalogue.commit_backup(target, foreign, loaded.chunks)
    with pytest.raises(Conflict, match="another master key"):
        plan_removal(target, MARK, keep=1)


class _Dying(ArtifactStore):
    """Dies at the n-th write."""

    writes_left = 3

    def write(self, path: str, data: bytes, *, new: bool = False) -> None:
        type(self).writes_left -= 1
        if self.writes_left < 0:
            raise KeyboardInterrupt
        super().write(path, data, new=new)


async def test_an_interrupted_backup_leaves_the_one_before(
    redis_stores: OpenStores, source: ArtifactStore, target: ArtifactStore, tmp_path: Path
) -> None:
    await fill(redis_stores, source)
    first = await back_up(redis_stores, source, target)
    for n in range(300):
        await redis_stores.server.execute_slow("SET", keys.record(APP, "user", f"n{n}"), "x")
    dying = _Dying.open(tmp_path / "target", signer=Signer(b"k" * 32))
    _Dying.writes_left = 1
    with pytest.raises(BaseException):  # noqa: B017, PT011 - as a killed process: whatever ends it
        await back_up(redis_stores, source, dying)
    assert list_backup_ids(target) == [first.facts.backup_id]
    assert find_damage(target, plan_restore(target, MARK).backup) == []


async def test_a_flipped_bit_is_detected(
    redis_stores: OpenStores, source: ArtifactStore, target: ArtifactStore, tmp_path: Path
) -> None:
    await fill(redis_stores, source)
    await back_up(redis_stores, source, target)
    backup = plan_restore(target, MARK).backup
    assert find_damage(target, backup) == []
    for entry in backup.chunks.values():
        path = tmp_path / "target" / entry.name
        whole = path.read_bytes()
        path.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
        assert find_damage(target, backup) == [entry.name]
        path.write_bytes(whole)
    manifest = tmp_path / "target" / catalogue.FOLDER / f"{backup.facts.backup_id}.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"keys":', b'"keyz":'))
    with pytest.raises(Exception, match="damaged"):
        plan_restore(target, MARK)


async def test_a_restore_is_refused_where_it_would_destroy_or_not_fit(sides: Sides) -> None:
    redis_stores, easy_stores, source, target, into = sides
    with pytest.raises(NotFound, match="no complete backup"):
        plan_restore(target, MARK)
    await fill(redis_stores, source)
    await back_up(redis_stores, source, target)
    with pytest.raises(Conflict, match="another master key"):
        plan_restore(target, "0" * 32)
    with pytest.raises(Conflict, match="runs"):
        await empty_for_restore(redis_stores, source, "b", replace=True)
    await redis_stores.server.execute_slow("DEL", keys.lease("intake"))
    with pytest.raises(Conflict, match="has data"):
        await empty_for_restore(redis_stores, source, "b")
    await empty_for_restore(easy_stores, into, "b")
    await empty_for_restore(redis_stores, source, "b", replace=True)
    assert sorted(await redis_stores.server.execute_slow("KEYS", "*")) == [b"foreign", keys.schema().encode()]
    assert (await redis_stores.schema.read()).restoring == "b"
    assert source.entries("") == []
    newer = load_backup(target, list_backup_ids(target)[0], MARK)
    facts = msgspec.structs.replace(newer.facts, schema=99, oldest=99, backup_id="29990101T000000000Z-abcdef")
    catalogue.commit_backup(target, facts, newer.chunks)
    with pytest.raises(NewerRelease):
        plan_restore(target, MARK)


async def test_a_time_between_two_backups_is_restored_by_the_change_log(sides: Sides) -> None:
    redis_stores, easy_stores, source, target, into = sides
    await fill(redis_stores, source, products=100)
    await drop_waiting(redis_stores)
    first = await back_up(redis_stores, source, target)
    await asyncio.sleep(0.01)
    await put(redis_stores, product(1, 7), task_id="good")
    at_ms = int((await redis_stores.changes.last(APP, "product")).partition("-")[0])
    await asyncio.sleep(0.01)
    await remove(redis_stores, "p1", "p2")
    with pytest.raises(Conflict, match="no backup reaches"):
        plan_restore(target, MARK, at_ms=at_ms)
    await back_up(redis_stores, source, target)
    with pytest.raises(NotFound, match="no backup is as old"):
        plan_restore(target, MARK, at_ms=first.facts.started_ms - 1)
    plan = plan_restore(target, MARK, at_ms=at_ms)
    await restore(plan, target, easy_stores, into)
    assert await easy_stores.records.get(APP, "product", "p1") == product(1, 7).json
    assert await easy_stores.records.get(APP, "product", "p2") == product(2).json
    assert (await easy_stores.changes.last(APP, "product")).startswith(str(at_ms))
    await redis_stores.server.execute_slow("HSET", keys.trimmed(APP), "product", "9999999999999-0")
    await back_up(redis_stores, source, target)
    late_ms = plan_restore(target, MARK).backup.facts.cut_ms - 1
    with pytest.raises(Conflict, match="were trimmed"):
        plan_restore(target, MARK, at_ms=late_ms)


async def test_the_commands_and_no_trace_of_the_master_key(
    redis_url: str, redis_stores: OpenStores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    master = new_master_key()
    key_file = tmp_path / "given.key"
    key_file.write_text(master)
    for name, value in (
        ("REDIS_URL", redis_url),
        ("DATA_DIR", tmp_path / "d"),
        ("MASTER_KEY_FILE", key_file),
    ):
        monkeypatch.setenv(f"KIOSK_{name}", str(value))
    monkeypatch.setattr("os.nice", lambda by: by)

    async def run(*words: str, code: int = 0) -> dict[str, Any]:
        result = await asyncio.to_thread(CliRunner().invoke, command_line(), [*words, "--json"])
        assert result.exit_code == code, (result.output, result.exception)
        content: dict[str, Any] = json.loads(result.stdout) if result.stdout else {}
        return content

    artifacts = ArtifactStore.open(tmp_path / "d" / "shelf", signer=None)
    await fill(redis_stores, artifacts, products=100)
    # these are no records: their readers would move them into quarantine
    await redis_stores.server.execute_slow("DEL", keys.boost_rule(APP), keys.experiment(APP))
    await asyncio.to_thread(CliRunner().invoke, command_line(), ["artifacts", "sign"])
    place = str(tmp_path / "there")
    made = await run("backup", place, "--pause", "0")
    assert made["keys"] > 100
    assert made["verified"]["good"]
    assert made["verified"]["chunks"] == made["verified"]["of"] - 1, "all but the records at the cut"
    assert made["verified"]["keys"] == made["keys"] + 3, "the change logs are keys more"
    assert (await run("backup", place, "--no-verify"))["verified"] is None
    made = await run("backup", place)
    listed = (await run("backup", "list", place))["backups"]
    assert (len(listed), listed[-1]["backup"]) == (3, made["backup"])
    verified = await run("backup", "verify", place)
    assert (verified["damaged"], verified["different"], verified["compared"]) == ([], [], 100)
    assert verified["answers"] == {
        "answered": 229, "compared": 229, "different": [], "apps": 1, "apps_compared": 1, "not_compared": {},
    }  # fmt: skip
    assert (await run("restore", place, code=1)) == {}
    await redis_stores.server.execute_slow("DEL", keys.lease("intake"))
    restored = await run("restore", place, "--replace")
    assert restored["keys"] == made["keys"]
    assert await redis_stores.records.get(APP, "product", "p1") == product(1).json
    raw, there = parse_master_key(master), ArtifactStore.open(place)
    assert len(there.entries("")) >= 5
    for entry in there.entries(""):
        data = there.read(entry.path)
        assert raw not in data
        assert master.encode() not in data
        assert raw.hex().encode() not in data
