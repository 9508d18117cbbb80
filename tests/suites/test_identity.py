"""Whoever has another master key or another artifact store than the installation in Redis is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cluster.admin.app_key_admin import AppKeyAdmin
from cluster.admin.master_keys import ensure_master_key, open_vault
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import InvalidSetting
from cluster.process.artifact_access import artifact_store_opener, open_artifact_store
from cluster.process.identity_registration import mark_identity
from cluster.process.installation_identity import IDENTITY_FILE
from cluster.process.installation_identity_check import (
    IdentityWatch,
    prepare_external_key,
    prepare_master_key,
)
from cluster.process.store_connections import connect
from cluster.settings import Settings
from cluster.store.connect import OpenStores
from cluster.store.installation.identity import IdentityStore, StoredIdentity
from deployments.cli.command_line import command_line
from deployments.cli.framework.screen import exit_code_of
from tests.suites.doing import NOW
from tests.suites.redis_process import RedisProcess

pytestmark = [pytest.mark.redis, pytest.mark.usefixtures("allow_world", "redis_stores")]

Machine = Callable[[str], Settings]


@pytest.fixture
def machine(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Become the machine with this name: its data directory, and the Redis of all."""
    monkeypatch.setenv("KIOSK_REDIS_URL", redis_url)

    def become(name: str) -> Settings:
        (tmp_path / name).mkdir(exist_ok=True)
        monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path / name))
        return Settings()

    return become


async def start(settings: Settings) -> StoredIdentity:
    """Do what a start does with the identity."""
    await asyncio.to_thread(prepare_external_key, settings)
    return await mark_identity(settings)


async def run(*words: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, command_line(), words)


def identity_file(settings: Settings) -> Path:
    return Path(settings.artifacts_address, IDENTITY_FILE)


def write_identity(settings: Settings, installation_id: str) -> None:
    identity_file(settings).parent.mkdir(exist_ok=True)
    identity_file(settings).write_text(json.dumps({"installation_id": installation_id}))


def hand_key(settings: Settings, source: Settings) -> None:
    (settings.data_dir / "master.key").write_text((source.data_dir / "master.key").read_text())


async def test_the_first_start_marks_both_and_the_next_changes_nothing(
    machine: Machine, redis_stores: OpenStores
) -> None:
    settings = machine("one")
    identity = await start(settings)
    kept = json.loads(identity_file(settings).read_text())
    assert kept == {"installation_id": identity.installation_id}
    assert await IdentityStore(redis_stores.server).read() == identity
    assert await start(settings) == identity
    assert identity.installation_id
    assert len(identity.fingerprint) == 16


async def test_of_many_first_starts_one_chooses_the_id(machine: Machine) -> None:
    settings = machine("one")
    ensure_master_key(settings)
    assert (
        len(
            {
                identity.installation_id
                for identity in await asyncio.gather(*(start(settings) for _ in range(5)))
            }
        )
        == 1
    )


async def test_redis_without_an_id_takes_that_of_the_artifact_store(
    machine: Machine, redis_stores: OpenStores
) -> None:
    settings = machine("one")
    identity = await start(settings)
    await redis_stores.server.execute_slow("FLUSHALL")
    assert await start(settings) == identity


async def test_a_node_with_another_data_folder_does_not_start(
    machine: Machine, redis_stores: OpenStores
) -> None:
    first = machine("one")
    identity = await start(first)
    other = machine("other")
    hand_key(other, first)
    assert await IdentityWatch(redis_stores, other, has_key=True).check()
    for opened in (open_artifact_store, artifact_store_opener(other)):  # replicas, engines, actors; jobs
        with pytest.raises(InvalidSetting, match=r"no installation\.json"):
            opened()
    with pytest.raises(InvalidSetting, match=r"no installation\.json"):
        await mark_identity(other)
    assert not identity_file(other).exists()
    write_identity(other, "b7")
    with pytest.raises(InvalidSetting, match=f"belongs to installation b7.*{identity.installation_id}"):
        open_artifact_store()
    machine("one")
    open_artifact_store()


async def test_another_master_key_is_refused(machine: Machine, redis_stores: OpenStores) -> None:
    await start(machine("one"))
    other = machine("other")
    ensure_master_key(other)
    watch = IdentityWatch(redis_stores, other, has_key=True)
    for check in (watch.check(), prepare_master_key(redis_stores, other)):
        with pytest.raises(InvalidSetting, match="is not that of installation"):
            await check
    assert watch.is_foreign_store
    done = await run("apps", "create", "acme")
    assert isinstance(done.exception, InvalidSetting)
    assert not (await redis_stores.access.read_all()).apps


@pytest.mark.parametrize("wrong", ["master key", "artifact store", ""])
async def test_a_process_that_started_while_redis_was_away_is_checked_when_it_answers(
    wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis = RedisProcess(durable=True).start()
    try:
        monkeypatch.setenv("KIOSK_REDIS_URL", redis.url)
        settings = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            settings.append(Settings(data_dir=tmp_path / name))
        right, other = settings
        await start(right)
        redis.kill()
        ensure_master_key(other)
        if wrong != "master key":
            hand_key(other, right)
        artifacts = ArtifactStore.open((right if not wrong else other).artifacts_address)
        async with connect(other, slow_s=0.5) as stores:
            watch = IdentityWatch(stores, other, has_key=True)
            assert not await watch.check()
            watch.follow(artifacts, every_s=0.02)
            watch.refuse()
            redis.start()
            assert watch._task is not None
            await asyncio.wait_for(watch._task, 20)
            assert watch.is_foreign_store == bool(wrong)
            if wrong:
                with pytest.raises(InvalidSetting, match=wrong):
                    watch.refuse()
            await watch.close()
    finally:
        redis.stop()


async def test_a_command_without_the_master_key_makes_none(
    machine: Machine, redis_stores: OpenStores
) -> None:
    await start(machine("one"))
    other = machine("other")
    for words in (["apps", "create", "acme"], ["keys", "list"]):
        error = (await run(*words)).exception
        assert isinstance(error, InvalidSetting)
        assert "KIOSK_MASTER_KEY or KIOSK_MASTER_KEY_FILE" in error.message
        assert exit_code_of(error) == 2
    with pytest.raises(InvalidSetting, match="KIOSK_MASTER_KEY_FILE"):
        await start(other)
    assert not (other.data_dir / "master.key").exists()
    assert not (await redis_stores.access.read_all()).apps


@pytest.mark.parametrize(
    "words",
    [
        ["promote", "playground"],
        ["rollback", "playground"],
        ["evaluate", "playground"],
        ["report", "search"],
        ["train", "playground", "--dry-run"],
    ],
    ids=lambda words: words[0],
)
async def test_commands_on_an_absent_artifact_store_are_refused(
    words: list[str], machine: Machine, redis_stores: OpenStores
) -> None:
    first = machine("one")
    await start(first)
    await AppKeyAdmin(redis_stores.access, open_vault(first)).ensure_first_apps(NOW)
    hand_key(machine("other"), first)
    error = (await run(*words)).exception
    assert isinstance(error, InvalidSetting)
    assert "has no installation.json" in error.message


async def test_keys_of_another_installation_are_not_taken_over(
    machine: Machine, redis_stores: OpenStores
) -> None:
    first, other = machine("one"), machine("other")
    for settings in (first, other):
        ensure_master_key(settings)
    await AppKeyAdmin(redis_stores.access, open_vault(first)).ensure_first_apps(NOW)
    with pytest.raises(InvalidSetting, match=r"none of \d API keys in Redis opens"):
        await mark_identity(other)
    assert (await mark_identity(machine("one"))).installation_id


async def test_an_operator_adopts_a_replaced_artifact_store(machine: Machine) -> None:
    first = machine("one")
    identity = await start(first)
    other = machine("other")
    hand_key(other, first)
    done = await run("cluster", "adopt", "--yes", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["installation_id"] == identity.installation_id
    open_artifact_store(other)
    assert await mark_identity(other) == identity
