"""A new master key, over a real Redis and artifact store: everything stays readable, and then the old key can go."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cluster.admin.master_keys import derive_manifest_keys, open_vault
from cluster.admin.reseal import MasterKeyReseal
from cluster.admin.second_factor import SecondFactors
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.backup.catalogue import fingerprint_of
from cluster.backup.creation import BackupJob
from cluster.backup.restoring import RestoreJob, plan_restore
from cluster.backup_pace import Pace
from cluster.clock import SystemClock
from cluster.crypto import Signer, Vault, key_text
from cluster.errors import Conflict, InvalidSetting, Unavailable
from cluster.process.artifact_access import open_artifact_store
from cluster.process.identity_registration import mark_identity
from cluster.records.account import Account
from cluster.records.api_keys import ApiKey, issue_key, reveal_key
from cluster.records.apps import App
from cluster.settings import Settings
from cluster.store.connect import OpenStores
from cluster.store.installation.identity import IdentityStore
from deployments.cli.command_line import command_line
from deployments.cli.doctor.security_checks import check_artifacts, check_previous_keys
from deployments.cli.framework.installation import Installation
from tests.fakes import generated_market
from tests.suites.doing import NOW, require

pytestmark = [pytest.mark.redis, pytest.mark.usefixtures("allow_world", "redis_stores")]

OLD, NEW, OTHER = b"o" * 32, b"n" * 32, b"x" * 32
APP = App(app_id=generated_market.APP, environment="development", created_at=0)
SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"
Hold = Callable[..., Settings]

PROGRAM = """
import asyncio, logging, signal, sys
from cluster.admin.second_factor import SecondFactors
from cluster.admin.master_keys import open_vault
from cluster.artifacts.segments import SegmentStore
from cluster.log import set_up_logging
from cluster.process.artifact_access import open_artifact_store
from cluster.process.store_connections import connect
from cluster.settings import Settings
from deployments.edge.access.keyring import Keyring

async def main():
    set_up_logging(level=logging.ERROR)
    settings, rounds, ends = Settings(), 0, []
    signal.signal(signal.SIGTERM, lambda *_: ends.append(1))
    vault, artifacts = open_vault(settings), open_artifact_store(settings)
    async with connect(settings) as stores:
        while not ends:
            ring = Keyring(stores.access, vault)
            await ring.refresh()
            assert all(ring.find(text) for text in sys.argv[3:]), "a key"
            account = await stores.accounts.get("ada")
            assert vault.open(account.totp, f"totp {account.user_id}") == sys.argv[2], "a second factor"
            assert SegmentStore(artifacts).offsets(sys.argv[1]), "a manifest"
            rounds += 1
            if rounds == 1:
                print("reading", flush=True)
    print(rounds)

asyncio.run(main())
"""


@pytest.fixture
def hold(redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hold:
    """Become a process with these master keys, the current one first."""
    monkeypatch.setenv("KIOSK_REDIS_URL", redis_url)
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("KIOSK_MASTER_KEY_FILE", str(tmp_path / "keys"))
    (tmp_path / "data").mkdir()

    def become(*keys: bytes) -> Settings:
        (tmp_path / "keys").write_text("\n".join(map(key_text, keys)) + "\n")
        return Settings()

    return become


async def fill(settings: Settings, stores: OpenStores, keys: int = 20) -> list[str]:
    """Start an installation with API keys, a second factor and segments; return the keys."""
    vault = open_vault(settings)
    await mark_identity(settings)
    await stores.access.put_app(APP)
    issued = [issue_key(vault, APP, "secret", now_ms=NOW + number) for number in range(keys)]
    for key in issued:
        await stores.access.put_key(key.record)
    for name in ("ada", "bob"):
        sealed = vault.seal(SECRET, f"totp u-{name}") if name == "ada" else ""
        await stores.accounts.add(
            Account(username=name, user_id=f"u-{name}", password="x", created_at=NOW, totp=sealed)
        )
    generated_market.settle(
        SegmentStore(open_artifact_store(settings)), generated_market.table(600, 60, 30, topics=3)
    )
    return [key.text for key in issued]


async def assert_readable(
    vault: Vault, stores: OpenStores, artifacts: ArtifactStore, texts: list[str]
) -> None:
    revealed = [reveal_key(vault, key) for key in (await stores.access.read_all()).keys.values()]
    assert sorted(revealed) == sorted(texts)
    account = require(await stores.accounts.get("ada"))
    assert vault.open(account.totp, "totp u-ada") == SECRET
    artifacts.signer = Signer(derive_manifest_keys(vault))
    assert SegmentStore(artifacts).load(generated_market.APP).interactions.num_rows == 600


async def run(*words: str) -> Result:
    return await asyncio.to_thread(CliRunner().invoke, command_line(), words)


async def reseal() -> dict[str, object]:
    done = await run("master-key", "reseal", "--json")
    assert done.exit_code == 0, (done.output, done.exception)
    result: dict[str, object] = json.loads(done.stdout)
    return result


async def recorded(stores: OpenStores) -> tuple[str, tuple[str, ...]]:
    identity = await IdentityStore(stores.server).read()
    return identity.fingerprint, identity.previous


async def levels_of_previous_keys() -> list[str]:
    return [
        finding.level
        for finding in await asyncio.to_thread(lambda: list(check_previous_keys(Installation())))
    ]


@asynccontextmanager
async def reading(texts: list[str]) -> AsyncIterator[None]:
    """Let another process read everything again and again; it must not fail once."""
    words = [PROGRAM, generated_market.APP, SECRET, *texts]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", *words, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"reading\n"
        yield
        await asyncio.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        rounds, errors = await process.communicate()
        assert (process.returncode, errors.decode()[-500:]) == (0, "")
        assert int(rounds) > 1
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def test_the_key_changes_while_a_process_keeps_reading(hold: Hold, redis_stores: OpenStores) -> None:
    texts = await fill(hold(OLD), redis_stores)
    old, new = (Vault(master).derive("fingerprint of the master key").hex()[:16] for master in (OLD, NEW))
    both = hold(OLD, NEW)
    async with reading(texts):
        assert await mark_identity(both) == await IdentityStore(redis_stores.server).read()
        assert await recorded(redis_stores) == (old, ())

        await mark_identity(hold(NEW, OLD))
        assert await recorded(redis_stores) == (new, (old,))
        assert await levels_of_previous_keys() == ["warning"]
        report = json.loads((await run("master-key", "status", "--json")).stdout)
        assert (report["here"], report["needed"]) == ([new, old], [old])
        assert report["sealed_with_previous"]["api_keys"] == len(texts)

        report = await reseal()
        assert (report["api_keys"], report["second_factors"], report["manifests"]) == (len(texts), 1, 1)
        assert (report["complete"], report["skipped"], report["master_key"]) == (True, [], new)
        assert (await reseal())["api_keys"] == 0
        assert await recorded(redis_stores) == (new, ())
        assert await levels_of_previous_keys() == ["ok"]

    after = hold(NEW)
    await mark_identity(after)
    await assert_readable(open_vault(after), redis_stores, open_artifact_store(after), texts)
    assert (await asyncio.to_thread(check_artifacts, Installation())).level == "ok"
    assert await levels_of_previous_keys() == []
    rows = json.loads((await run("audit", "list", "--operation", "master_key.reseal", "--json")).stdout)
    assert [row["after"]["api_keys"] for row in rows["rows"]] == [0, len(texts)]
    for wrong in ((OLD,), (OTHER,), (OTHER, OLD)):
        with pytest.raises(InvalidSetting, match="is not that of installation"):
            await mark_identity(hold(*wrong))


async def test_the_old_key_can_not_go_before_the_reseal_has_ended(
    hold: Hold, redis_stores: OpenStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = await fill(hold(OLD), redis_stores)
    settings = hold(NEW, OLD)
    await mark_identity(settings)
    vault, artifacts, replaced = open_vault(settings), open_artifact_store(settings), 0
    replace_key = type(redis_stores.access).replace_key

    async def die(self: object, before: ApiKey, after: ApiKey) -> bool:
        nonlocal replaced
        replaced += 1
        if replaced > 7:
            raise Unavailable("the power went")
        return await replace_key(redis_stores.access, before, after)

    with monkeypatch.context() as patch:
        patch.setattr(type(redis_stores.access), "replace_key", die)
        with pytest.raises(Unavailable):
            await MasterKeyReseal(redis_stores.access, redis_stores.accounts, artifacts, vault).run()
    await assert_readable(vault, redis_stores, artifacts, texts)
    with pytest.raises(
        InvalidSetting, match=r"the previous master key .* is missing.*kiosk master-key reseal"
    ):
        await mark_identity(hold(NEW))
    result = await MasterKeyReseal(redis_stores.access, redis_stores.accounts, artifacts, vault).run()
    assert (result.api_keys, result.second_factors, result.manifests) == (len(texts) - 7, 1, 1)
    assert result.is_complete
    await assert_readable(Vault(NEW), redis_stores, artifacts, texts)


async def test_what_changes_beside_a_reseal_is_not_undone(hold: Hold, redis_stores: OpenStores) -> None:
    """A key that is revoked, and a second factor that is replaced or removed, stay so."""
    await fill(hold(OLD), redis_stores, keys=3)
    settings = hold(NEW, OLD)
    vault, artifacts = open_vault(settings), open_artifact_store(settings)
    factors, book = SecondFactors(redis_stores.accounts, vault), await redis_stores.access.read_all()
    gone, *_ = book.keys.values()
    seen = 0

    def revoke(stage: str, done: int) -> None:
        nonlocal seen
        seen += stage == "API keys"

    class Revoking:
        """The access store, in which somebody revokes a key after it was read."""

        async def read_all(self) -> object:
            state = await redis_stores.access.read_all()
            await redis_stores.access.revoke_key(gone.sha256)
            return state

        replace_key = redis_stores.access.replace_key

    access: object = Revoking()
    result = await MasterKeyReseal(access, redis_stores.accounts, artifacts, vault, revoke).run()  # type: ignore[arg-type]
    assert result.is_complete
    assert seen >= 3
    assert gone.sha256 not in (await redis_stores.access.read_all()).keys
    before = require(await redis_stores.accounts.get("ada"))
    await factors.remove(before)
    await factors.reseal(before)
    after = require(await redis_stores.accounts.get("ada"))
    assert not after.has_second_factor


async def test_what_no_key_opens_stays_and_holds_nothing_up(hold: Hold, redis_stores: OpenStores) -> None:
    await fill(hold(OLD), redis_stores, keys=2)
    foreign = issue_key(Vault(OTHER), APP, "secret", now_ms=NOW).record
    changed = issue_key(Vault(OLD), APP, "publishable", now_ms=NOW).record.model_copy(
        update={"kind": "secret"}
    )
    for key in (foreign, changed):
        await redis_stores.access.put_key(key)
    settings = hold(NEW, OLD)
    await mark_identity(settings)
    report = await reseal()
    assert (report["api_keys"], report["complete"]) == (2, True)
    assert sorted(str(report["skipped"]).count(key.key_id) for key in (foreign, changed)) == [1, 1]
    book = await redis_stores.access.read_all()
    assert (book.keys[foreign.sha256], book.keys[changed.sha256]) == (foreign, changed)


async def test_a_process_that_has_other_keys_than_its_file_is_named(
    hold: Hold, redis_stores: OpenStores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(hold(OLD), redis_stores, keys=1)
    (tmp_path / "manifest.key").write_text(key_text(Vault(OLD).derive("artifact manifests")))
    monkeypatch.setenv("KIOSK_MANIFEST_KEY_FILE", str(tmp_path / "manifest.key"))
    hold(NEW, OLD)
    error = (await run("master-key", "reseal")).exception
    assert isinstance(error, InvalidSetting)
    assert "kiosk artifacts key" in error.message
    (tmp_path / "manifest.key").write_text((await run("artifacts", "key")).stdout)
    assert (await reseal())["manifests"] == 1


async def test_a_backup_of_the_old_key_is_restored_with_both(
    hold: Hold, redis_stores: OpenStores, easy_stores: OpenStores, tmp_path: Path
) -> None:
    def marks(vault: Vault) -> tuple[str, ...]:
        return tuple(map(fingerprint_of, vault.derive_all("backup fingerprint")))

    def store(name: str, vault: Vault) -> ArtifactStore:
        return ArtifactStore.open(tmp_path / name, signer=Signer(derive_manifest_keys(vault)))

    settings = hold(OLD)
    texts = await fill(settings, redis_stores, keys=3)
    before, both, after = Vault(OLD), Vault(NEW, previous=[OLD]), Vault(NEW)
    source = open_artifact_store(settings)
    await BackupJob(
        redis_stores, source, store("target", before), marks(before), pace=Pace(rest=0), answers=0
    ).run()
    with pytest.raises(Conflict, match="another master key"):
        plan_restore(store("target", after), marks(after))
    plan = plan_restore(store("target", both), marks(both))
    into = store("into", both)
    await RestoreJob(plan, store("target", both), easy_stores, into, SystemClock().now_ms()).run()
    assert (await MasterKeyReseal(easy_stores.access, easy_stores.accounts, into, both).run()).is_complete
    await assert_readable(after, easy_stores, into, texts)
    # the next backup, of both, is read with the new key alone
    made = await BackupJob(
        easy_stores, into, store("target", both), marks(both), pace=Pace(rest=0), answers=0
    ).run()
    assert made.facts.fingerprint == marks(after)[0]
    assert plan_restore(store("target", after), marks(after)).backup.facts.keys


async def test_one_machine_adds_a_key_and_drops_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path / "data"))
    for name in ("KIOSK_REDIS_URL", "KIOSK_MASTER_KEY_FILE", "KIOSK_MASTER_KEY"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "data" / "master.key"
    assert (await run("apps", "create", "acme")).exit_code == 0
    (first,) = path.read_text().split()
    listed = json.loads((await run("keys", "list", "--reveal", "--json")).stdout)
    assert (await run("master-key", "add")).exit_code == 0
    new, old = path.read_text().split()
    assert (old, path.stat().st_mode & 0o777) == (first, 0o600)
    error = (await run("master-key", "drop")).exception
    assert isinstance(error, Conflict)
    assert "kiosk master-key reseal" in error.message
    assert path.read_text().split() == [new, old]
    assert (await reseal())["api_keys"] == 2
    assert (await run("master-key", "drop")).exit_code == 0
    assert path.read_text().split() == [new]
    assert json.loads((await run("keys", "list", "--reveal", "--json")).stdout) == listed
    monkeypatch.setenv("KIOSK_MASTER_KEY", f"{new}\n{old}")
    for word in ("add", "drop"):
        error = (await run("master-key", word)).exception
        assert isinstance(error, InvalidSetting)
        assert "kiosk master-key create" in error.message
    created = (await run("master-key", "create")).stdout.strip()
    assert len(created) == 44
    assert created not in (new, old)
