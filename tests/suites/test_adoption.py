"""A data directory of an earlier release: signed once when this release starts on it, never believed unsigned after."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.admin.master_keys import ensure_master_key, open_vault
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.errors import Fault, Invalid
from cluster.process.artifact_access import open_artifact_store
from cluster.process.signing_upgrade import sign_keys, sign_unsigned
from cluster.records.api_keys import issue_key
from cluster.records.apps import App
from cluster.records.run import Run, Schedule
from cluster.settings import Settings
from cluster.store.connect import OpenStores
from deployments.edge.access.keyring import Keyring
from jobs.refresh.runs.run_commands import create_run
from jobs.refresh.runs.scheduler import RunScheduler
from jobs.refresh.runs.worker import TrainingWorker, WorkerResources
from tests.fakes import generated_market
from tests.fakes.process_pool import ProcessWorkerPool

pytestmark = pytest.mark.redis
ROOT = Path(__file__).resolve().parents[2]
APP = App(app_id=generated_market.APP, environment="development", created_at=0)


@pytest.fixture
def settings(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings of an installation that has its master key and was never started by this release."""
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("KIOSK_REDIS_URL", redis_url)
    settings = Settings()
    ensure_master_key(settings)
    return settings


async def live(stores: OpenStores, settings: Settings, text: str) -> bool:
    ring = Keyring(stores.access, open_vault(settings))
    await ring.refresh()
    return ring.find(text) is not None


async def test_the_first_start_signs_what_an_earlier_release_left(
    settings: Settings, redis_stores: OpenStores
) -> None:
    vault = open_vault(settings)
    await generated_market.open_market(redis_stores)
    issued = issue_key(vault, APP, "secret", now_ms=1)
    await redis_stores.access.put_key(issued.record.model_copy(update={"mac": ""}))
    generated_market.settle(
        SegmentStore(ArtifactStore.open(settings.artifacts_address)),
        generated_market.table(600, 60, 30, topics=3),
    )
    assert not await live(redis_stores, settings, issued.text)

    assert await sign_unsigned(settings)
    assert await live(redis_stores, settings, issued.text)
    assert SegmentStore(open_artifact_store(settings)).load(generated_market.APP).interactions.num_rows == 600
    # a release before goes on with both
    assert (
        SegmentStore(ArtifactStore.open(settings.artifacts_address))
        .load(generated_market.APP)
        .interactions.num_rows
        == 600
    )
    (record,) = (await redis_stores.access.read_all()).keys.values()
    assert vault.open(record.ciphertext, record.sha256) == issued.text


async def test_later_starts_sign_nothing(settings: Settings, redis_stores: OpenStores) -> None:
    assert await sign_unsigned(settings)
    await generated_market.open_market(redis_stores)
    planted = issue_key(open_vault(settings), APP, "publishable", now_ms=1)
    stripped = planted.record.model_copy(update={"kind": "secret", "mac": ""})
    await redis_stores.access.put_key(stripped)
    generated_market.settle(
        SegmentStore(ArtifactStore.open(settings.artifacts_address)),
        generated_market.table(600, 60, 30, topics=3),
    )
    assert not await sign_unsigned(settings)
    assert not await live(redis_stores, settings, planted.text)
    with pytest.raises(Fault, match="kiosk artifacts sign"):
        SegmentStore(open_artifact_store(settings)).load(generated_market.APP)


async def test_a_relabelled_record_is_not_signed_by_the_way(
    settings: Settings, redis_stores: OpenStores
) -> None:
    """A wrong proof is not a missing one: nothing signs it."""
    vault = open_vault(settings)
    await redis_stores.access.put_app(APP)
    issued = issue_key(vault, APP, "publishable", now_ms=1)
    await redis_stores.access.put_key(issued.record.model_copy(update={"kind": "secret"}))
    result = await sign_keys(redis_stores.access, vault)
    assert (result.signed, result.valid) == ((), 0)
    assert result.refused == (f"{issued.record.key_id} (secret key of {generated_market.APP})",)
    assert not await live(redis_stores, settings, issued.text)


async def test_keys_of_another_master_key_are_reported_and_unchanged(
    settings: Settings, redis_stores: OpenStores, tmp_path: Path
) -> None:
    other = Settings(data_dir=tmp_path / "other")
    ensure_master_key(other)
    issued = issue_key(open_vault(other), APP, "secret", now_ms=1)
    await redis_stores.access.put_app(APP)
    await redis_stores.access.put_key(issued.record)
    result = await sign_keys(redis_stores.access, open_vault(settings))
    assert (result.signed, result.refused) == (
        (),
        (f"{issued.record.key_id} (secret key of {generated_market.APP})",),
    )


async def test_the_command_signs_on_an_administrators_word(
    settings: Settings, redis_stores: OpenStores, redis_url: str
) -> None:
    generated_market.settle(
        SegmentStore(ArtifactStore.open(settings.artifacts_address)),
        generated_market.table(600, 60, 30, topics=3),
    )

    def kiosk(*words: str) -> str:
        clean = {name: text for name, text in os.environ.items() if not name.startswith(("KIOSK_", "RAY_"))}
        ours = {
            "KIOSK_DATA_DIR": str(settings.data_dir),
            "KIOSK_REDIS_URL": redis_url,
            "PYTHONPATH": str(ROOT),
        }
        done = subprocess.run(
            [sys.executable, "-m", "deployments.cli", "artifacts", *words],
            env={**clean, **ours},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stdout

    report = json.loads(kiosk("sign", "--dry-run", "--json"))
    assert (len(report["manifests"]["signed"]), report["dry_run"]) == (1, True)
    assert "1 manifests and 0 key records signed" in kiosk("sign")
    assert json.loads(kiosk("sign", "--json"))["manifests"] == {"signed": [], "valid": 1, "damaged": []}
    assert SegmentStore(open_artifact_store(settings)).load(generated_market.APP).interactions.num_rows == 600
    key = kiosk("key").strip()
    assert len(key) == 44
    assert key not in (settings.data_dir / "master.key").read_text()


# --- what Redis says names no code -----------------------------------------------------------------------------


def planted(ran: Path) -> dict[str, object]:
    """Make a recipe that names a function which would leave a file."""
    config = {"args": ["touch", str(ran)]}
    return {
        "parts": {"x": {"learner": "subprocess:run", "config": config}},
        "blend": {"weights": {"x": 1.0}, "weights_new": {}},
    }


async def test_a_run_in_redis_that_names_a_function_fails_and_runs_nothing(
    redis_stores: OpenStores, tmp_path: Path
) -> None:
    await generated_market.open_market(redis_stores)
    artifacts = ArtifactStore.open(tmp_path / "shelf")
    generated_market.settle(SegmentStore(artifacts), generated_market.table(600, 60, 30, topics=3))
    run = Run(
        app_id=generated_market.APP, run_id="run-planted", engine_id="default", recipe=planted(tmp_path / "ran"),
        by="somebody", created_at=1,
    )  # fmt: skip
    assert await redis_stores.runs.compare_and_set(run) is not None
    place = WorkerResources(redis_stores, artifacts, SystemClock(), tmp_path / "scratch", settle_s=0.1)
    done = await TrainingWorker(place, "a worker").work(generated_market.APP, "run-planted")
    assert done is not None
    assert done.status == "failed"
    assert "kiosk learners allow subprocess:run" in done.error
    assert not (tmp_path / "ran").exists()


async def test_a_schedule_in_redis_that_names_a_function_orders_nothing(
    redis_stores: OpenStores, tmp_path: Path
) -> None:
    await generated_market.open_market(redis_stores)
    await redis_stores.schedules.add(
        Schedule(
            app_id=generated_market.APP,
            name="often",
            engine_id="default",
            when="every 1m",
            recipe=planted(tmp_path / "ran"),
            created_at=1,
        )
    )
    pool = ProcessWorkerPool()
    assert await RunScheduler(redis_stores, pool, SystemClock(), owner="one").run_once() == 0
    assert await redis_stores.runs.list_open(generated_market.APP) == []
    assert pool.pids == {}


async def test_submitting_a_run_explains_how_to_allow_a_class(
    redis_stores: OpenStores, tmp_path: Path, allow_learners: Callable[..., None]
) -> None:
    await generated_market.open_market(redis_stores)
    recipe = planted(tmp_path / "ran")
    with pytest.raises(Invalid, match="kiosk learners allow subprocess:run"):
        await create_run(redis_stores, generated_market.APP, "default", recipe, now_ms=1, by="a test")
    allow_learners("subprocess:run")
    await create_run(redis_stores, generated_market.APP, "default", recipe, now_ms=1, by="a test")
