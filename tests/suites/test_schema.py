"""The schema number: written once, checked at every start, raised by migrations of which one process takes each."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from actors.experiments.host import AssignerHost
from actors.experiments.messages import EXPERIMENT_MESSAGES, ExperimentEvent
from actors.intake.host import IntakeHost
from cluster.admin.schema import (
    MIGRATIONS,
    Migration,
    check_schema,
    ensure_schema,
    newest_schema,
    record_running,
)
from cluster.admin.upgrade_check import check_upgrade, count_formats
from cluster.artifacts.manifest import Manifest
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.build_info import build_digest, installed_version
from cluster.errors import Conflict, NewerRelease, NotFound, Refusal
from cluster.process.store_connections import open_serving_stores
from cluster.records.engine import Engine
from cluster.runtime.actors import fail_fast
from cluster.runtime.actors.actor_roles import (
    ActorRole,
    assigner_role,
    engine_operator_role,
    intake_role,
    tracker_role,
    trainer_role,
)
from cluster.settings import Settings
from cluster.store import keys
from cluster.store.connect import OpenStores
from cluster.store.installation.schema_version import RunningRelease, StoredSchema
from cluster.store.seals.record_seal import noun_of
from cluster.store.seals.seal import salt_from_key, seal
from deployments.cli.command_line import command_line
from deployments.cli.framework.screen import exit_code_of
from deployments.operations.insight.installation_checks import check_release
from jobs.playground.driver import load_into_app
from tests.suites.doing import APP, NOW
from tests.suites.test_small_stores import an_app

pytestmark = [pytest.mark.redis, pytest.mark.usefixtures("allow_world")]


@pytest.fixture
def process_environment(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands, jobs and actors find the Redis of the test."""
    monkeypatch.setenv("KIOSK_REDIS_URL", redis_url)
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path))


def steps(applied: list[int], *, oldest: int = 1) -> tuple[Migration, ...]:
    async def apply(stores: OpenStores) -> None:
        await asyncio.sleep(0.01)
        applied.append(2)

    return (*MIGRATIONS, Migration(2, "add a field", oldest, apply))


async def test_the_first_start_writes_the_number_and_the_next_changes_nothing(
    redis_stores: OpenStores,
) -> None:
    schema = redis_stores.schema
    assert await schema.read() == StoredSchema()
    assert await ensure_schema(redis_stores, NOW) == ("number the stored data",)
    assert await schema.read() == StoredSchema(1, 1, installed_version(), NOW)
    assert await ensure_schema(redis_stores, NOW + 5) == ()
    assert (await schema.read()).at_ms == NOW


async def test_of_many_starts_one_applies_a_migration(redis_stores: OpenStores) -> None:
    applied: list[int] = []
    results = await asyncio.gather(*(ensure_schema(redis_stores, NOW, steps(applied)) for _ in range(5)))
    assert applied == [2]
    assert sorted(map(len, results)) == [0, 0, 0, 0, 2]
    assert (await redis_stores.schema.read()).number == 2


async def test_an_interrupted_migration_is_applied_again(redis_stores: OpenStores) -> None:
    async def broken(stores: OpenStores) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await ensure_schema(redis_stores, NOW, (*MIGRATIONS, Migration(2, "add a field", 1, broken)))
    assert (await redis_stores.schema.read()).number == 1
    applied: list[int] = []
    assert await ensure_schema(redis_stores, NOW, steps(applied)) == ("add a field",)


async def test_a_rollback_within_additive_changes_starts(redis_stores: OpenStores) -> None:
    await ensure_schema(redis_stores, NOW, steps([]))
    assert await ensure_schema(redis_stores, NOW) == ()
    await check_schema(redis_stores)
    assert (await redis_stores.schema.read()).number == 2


async def test_a_release_refuses_data_it_can_not_read(redis_stores: OpenStores) -> None:
    await ensure_schema(redis_stores, NOW, steps([], oldest=2))
    for start in (ensure_schema(redis_stores, NOW), check_schema(redis_stores)):
        with pytest.raises(NewerRelease, match=r"schema 2 or newer; this is kiosk .* with schema 1"):
            await start


async def test_what_older_releases_can_not_read_waits_until_they_have_ended(redis_stores: OpenStores) -> None:
    await ensure_schema(redis_stores, NOW)
    await redis_stores.schema.record_release(RunningRelease("0.9", 1, NOW))
    with pytest.raises(Conflict, match=r"can't be read by kiosk 0\.9"):
        await ensure_schema(redis_stores, NOW + 1, steps([], oldest=2))
    assert await ensure_schema(redis_stores, NOW + 2, steps([])) == ("add a field",)


async def test_what_older_releases_can_not_read_is_applied_when_they_have_ended(
    redis_stores: OpenStores,
) -> None:
    await redis_stores.schema.record_release(RunningRelease("0.9", 1, NOW))
    assert len(await ensure_schema(redis_stores, NOW + 30_001, steps([], oldest=2))) == 2


async def test_releases_that_run_are_listed_and_old_ones_forgotten(redis_stores: OpenStores) -> None:
    schema = redis_stores.schema
    await schema.record_release(RunningRelease("0.8", 0, NOW - 86_400_001))
    await schema.record_release(RunningRelease("0.9", 1, NOW - 31_000))
    await record_running(redis_stores, NOW)
    running = RunningRelease(installed_version(), newest_schema(), NOW, build_digest())
    assert await schema.list_releases(NOW) == [running]
    assert await redis_stores.server.execute_slow("HLEN", keys.releases()) == 2


async def test_two_builds_of_one_release_are_listed_apart(redis_stores: OpenStores) -> None:
    schema = redis_stores.schema
    await record_running(redis_stores, NOW)
    other = RunningRelease(installed_version(), newest_schema(), NOW, "0123456789")
    await schema.record_release(other)
    listed = await schema.list_releases(NOW)
    assert {running.build for running in listed} == {build_digest(), "0123456789"}
    report = await check_upgrade(redis_stores, NOW)
    assert {running["build"] for running in report.to_dict()["running"]} == {build_digest(), "0123456789"}
    words = check_release(StoredSchema(1, 1), 1, listed).words
    assert f"{installed_version()} build 0123456789 (schema 1)" in words


async def store_engines(stores: OpenStores) -> None:
    """Store an engine as this release writes it, one with a new field, one with a new value, and a broken one."""
    key, body = keys.engine(APP), orjson.loads(Engine(app_id=APP, engine_id="a").model_dump_json())
    await stores.access.put_app(an_app())
    await stores.engines.put(Engine(app_id=APP, engine_id="a"))
    for name, change in (("b", {"colour": 1}), ("c", {"placement": "moon"})):
        sealed = seal(orjson.dumps({**body, "engine_id": name, **change}), salt_from_key(key, name))
        await stores.server.execute_slow("HSET", key, name, sealed)
    await stores.server.execute_slow("HSET", key, "d", b"100000000{}")


async def test_the_check_counts_what_this_release_can_not_read_and_changes_nothing(
    redis_stores: OpenStores,
) -> None:
    await store_engines(redis_stores)
    for _ in range(2):
        report = await check_upgrade(redis_stores, NOW)
        assert dict(+report.records.extended) == {"engine": 1}
        assert (dict(report.records.unreadable), dict(report.records.broken)) == (
            {"engine": 1},
            {"engine": 1},
        )
        assert report.records.read == {"engine": 2, "app": 1}
        assert report.problems == ["1 of engine were written by a newer release and can't be read"]
        assert [step.number for step in report.pending] == [1]


async def test_the_check_reads_every_hash_of_sealed_records(redis_stores: OpenStores) -> None:
    await redis_stores.access.put_app(an_app())
    hashes = [
        function
        for _, function in inspect.getmembers(keys, inspect.isfunction)
        if re.match(r"Hash [^:]+ -> sealed JSON", inspect.getdoc(function) or "")
    ]
    names = [function(APP) if inspect.signature(function).parameters else function() for function in hashes]
    for name in names:
        await redis_stores.server.execute_slow("HSET", name, "broken", b"100000000{}")
    report = await check_upgrade(redis_stores, NOW)
    assert dict(report.records.broken) == dict.fromkeys(map(noun_of, names), 1)


def test_manifests_are_counted_by_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = ArtifactStore.open(str(tmp_path))
    for name, form in (("a", 1), ("b", 1), ("c", 2)):
        monkeypatch.setattr("cluster.artifacts.manifest.FORMAT", form)
        store.write(f"{name}/manifest.json", Manifest("kind", 1).dump())
    assert count_formats(store) == {"1": 2, "2": 1}


@pytest.mark.usefixtures("process_environment")
async def test_the_command_names_what_stands_in_the_way(redis_stores: OpenStores) -> None:

    async def run(*words: str) -> tuple[int, dict[str, object]]:
        completed = await asyncio.to_thread(CliRunner().invoke, command_line(), ["upgrade", *words, "--json"])
        report: dict[str, object] = json.loads(completed.stdout)
        return completed.exit_code, report

    code, report = await run("--check")
    assert (code, report["applied"], report["together"]) == (0, [], True)
    code, report = await run()
    assert (code, report["applied"]) == (0, ["number the stored data"])
    await store_engines(redis_stores)
    code, report = await run("--check")
    assert (code, report["problems"]) == (
        1,
        ["1 of engine were written by a newer release and can't be read"],
    )
    text = await asyncio.to_thread(CliRunner().invoke, command_line(), ["upgrade", "--check"])
    assert "stored data: schema 1" in text.stdout
    assert "problem: 1 of engine" in text.stdout


@pytest.mark.parametrize("words", [["apps", "create", "acme"], ["keys", "list"], ["engines", "list", APP]])
@pytest.mark.usefixtures("process_environment")
async def test_a_command_leaves_data_of_a_newer_schema_alone(
    words: list[str], redis_stores: OpenStores
) -> None:
    await ensure_schema(redis_stores, NOW, steps([], oldest=2))
    error = (await asyncio.to_thread(CliRunner().invoke, command_line(), words)).exception
    assert isinstance(error, NewerRelease)
    assert "start the newer release" in error.message
    assert not (await redis_stores.access.read_all()).apps


@pytest.mark.usefixtures("process_environment")
async def test_a_job_leaves_data_of_a_newer_schema_alone(
    redis_url: str, redis_stores: OpenStores, tmp_path: Path
) -> None:
    await ensure_schema(redis_stores, NOW, steps([], oldest=2))
    before = await redis_stores.server.execute_slow("KEYS", "*")
    (tmp_path / "users.jsonl").write_text('{"user_id": "ann"}\n')
    words = [
        sys.executable,
        "-m",
        "jobs.ingest",
        str(tmp_path / "users.jsonl"),
        "--app",
        APP,
        "--noun",
        "user",
    ]
    completed = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True)
    assert completed.returncode == exit_code_of(NewerRelease(""))
    assert "the stored data has schema 2" in " ".join(completed.stderr.split())
    with pytest.raises(NewerRelease):
        await asyncio.to_thread(load_into_app, redis_url, "playground")
    assert await redis_stores.server.execute_slow("KEYS", "*") == before


ROLES = (
    intake_role(""),
    trainer_role("", Settings(_env_file=None)),
    assigner_role(""),
    tracker_role("", ""),
    engine_operator_role(""),
)


@pytest.mark.parametrize("actor", ROLES, ids=lambda actor: actor.role)
@pytest.mark.usefixtures("process_environment")
async def test_no_actor_opens_data_of_a_newer_schema(actor: ActorRole, redis_stores: OpenStores) -> None:
    connect = actor.arguments[0]
    async with connect() as stores:
        assert await stores.access.version() == 0
    await ensure_schema(redis_stores, NOW, steps([], oldest=2))
    with pytest.raises(NewerRelease, match="the stored data has schema 2"):
        await connect()
    with pytest.raises(NewerRelease):
        async with connect():
            pass


@pytest.mark.usefixtures("process_environment")
async def test_an_intake_leaves_data_of_a_newer_schema_alone_and_ends(
    redis_stores: OpenStores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fail_fast, "REFUSED_S", 0.0)
    await ensure_schema(redis_stores, NOW, steps([], oldest=2))
    await redis_stores.intake.accept(APP, "user", "put", b"[]", task_id="t", total=0, now_ms=NOW)
    before = set(await redis_stores.server.execute_slow("KEYS", "*"))
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    intake = IntakeHost(
        open_serving_stores,
        lambda: ArtifactStore.open(tmp_path / "shelf"),
        end_process=lambda code: loop.call_soon_threadsafe(ended.set),
    )
    await asyncio.wait_for(ended.wait(), 20)
    await intake.stop()
    assert set(await redis_stores.server.execute_slow("KEYS", "*")) <= before
    assert await redis_stores.intake.depth(APP) == 1


@pytest.mark.usefixtures("process_environment")
async def test_the_assigner_refuses_until_the_data_can_be_read_again(redis_stores: OpenStores) -> None:
    await ensure_schema(redis_stores, NOW, steps([], oldest=2))
    opened = list[OpenStores]()

    def connect() -> OpenStores:
        opened.append(open_serving_stores())
        return opened[-1]

    host = AssignerHost(connect)
    event = EXPERIMENT_MESSAGES.encode(ExperimentEvent(APP, "no-such", user_id="gina"))

    async def refused() -> str:
        refusal = EXPERIMENT_MESSAGES.decode(await host.record(event))
        assert isinstance(refusal, Refusal)
        return str(refusal.code)

    assert await refused() == NewerRelease.code
    await redis_stores.server.execute_slow("DEL", keys.schema())
    assert await refused() == NotFound.code
    await opened[-1].close()
