"""`kiosk support bundle` over a real Redis: whoever helps sees enough, and no secret and no person."""

from __future__ import annotations

import asyncio
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
import structlog
from typer.testing import CliRunner

from cluster.crypto import mint_key
from cluster.records.apps import App
from cluster.records.engine import Engine, Promotion
from cluster.records.run import Run
from cluster.store.connect import open_stores
from deployments.cli.__main__ import command_line
from deployments.operations.insight.support_bundle import (
    LAST_BYTES,
    read_last_lines,
    redact_text,
    redact_value,
)
from tests.suites.redis_process import RedisProcess

SECRET = mint_key("secret", "development")
PLANTED = (
    SECRET[8:],
    "s3cret-CANARY",
    "gina-CANARY",
    "gina@example.org",
    "192.0.2.77",
    "q-CANARY",
    "anna-CANARY",
)


@pytest.fixture
def data_dir(redis_server: RedisProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    redis_server.say("FLUSHALL")
    folder = tmp_path / "data"
    (folder / "logs").mkdir(parents=True)
    monkeypatch.setenv("KIOSK_DATA_DIR", str(folder))
    monkeypatch.setenv("KIOSK_REDIS_URL", redis_server.url)
    monkeypatch.setenv("KIOSK_LLM_KEY", "s3cret-CANARY")
    lines = [
        json.dumps(
            {"event": "request_failed", "request_id": "r-1", "user_id": "gina-CANARY", "process": "api"}
        ),
        json.dumps(
            {"event": "odd", "detail": {"readers": ["u:gina-CANARY"], "note": "asked by a:anna-CANARY"}}
        ),
        f"GET /v1/users/x?q=q-CANARY key {SECRET} from 192.0.2.77 by gina@example.org",
        "Error: user_id=gina-CANARY is odd; redis://user:s3cret-CANARY@host:1/0",
    ]
    (folder / "logs" / "supervisor.log").write_text("\n".join(lines) + "\n")

    async def fill() -> None:
        async with open_stores(redis_server.url, hot_s=5.0, slow_s=10.0) as stores:
            await stores.access.put_app(App(app_id="shop", environment="development", created_at=0))
            await stores.engines.put(Engine(app_id="shop", engine_id="default"))
            run = Run(app_id="shop", run_id="run-1", engine_id="default", created_at=1, by="gina-CANARY")
            await stores.runs.compare_and_set(run)
            await stores.promotions.promote(
                Promotion(app_id="shop", engine_id="default", version="v1", at_ms=7, by="gina-CANARY")
            )

    asyncio.run(fill())
    return folder


@pytest.mark.redis
@pytest.mark.usefixtures("allow_world")
def test_a_bundle_has_what_helps_and_nothing_planted(data_dir: Path, tmp_path: Path) -> None:
    out = tmp_path / "bundle.tar.gz"
    try:
        done = CliRunner().invoke(command_line(), ["support", "bundle", "--out", str(out), "--json"])
    finally:
        structlog.reset_defaults()
    assert done.exit_code == 0, done.output
    assert out.stat().st_mode & 0o077 == 0
    parts: dict[str, str] = {}
    with tarfile.open(out) as archive:
        for entry in archive:
            file = archive.extractfile(entry)
            assert file is not None
            parts[entry.name.removeprefix("kiosk-support/")] = file.read().decode()
    whole = "\n".join(parts.values())
    for planted in PLANTED:
        assert planted not in whole
    master = (
        (data_dir / "master.key").read_text().strip() if (data_dir / "master.key").exists() else "absent-key"
    )
    assert master not in whole
    data: dict[str, Any] = json.loads(parts["data.json"])
    assert data["redis"]["server"]["redis_version"]
    assert [app["app_id"] for app in data["apps"]] == ["shop"]
    assert [run["run_id"] for run in data["runs"]] == ["run-1"]
    assert [(entry["version"], entry["at_ms"]) for entry in data["promotions"]] == [("v1", 7)]
    assert json.loads(parts["versions.json"])["packages"]["ray"].startswith("2.")
    assert json.loads(parts["settings.json"])["port"]
    assert json.loads(parts["doctor.json"])
    (log,) = [text for name, text in parts.items() if name.endswith("supervisor.log")]
    assert "r-1" in log
    assert "request_failed" in log


def test_a_file_that_cant_be_written_is_named(data_dir: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(
        command_line(), ["support", "bundle", "--out", str(tmp_path / "file" / "x.tar.gz")]
    )
    structlog.reset_defaults()
    assert "--out" in str(done.exception)


def test_the_end_of_a_long_log_begins_with_a_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("first\n" + "x" * 99 + "\n" + ("y" * 99 + "\n") * (LAST_BYTES // 100))
    assert read_last_lines(path).startswith("y" * 99)
    assert os.path.getsize(path) > LAST_BYTES


def test_harmless_facts_stay() -> None:
    assert redact_value({"version": "624f0a", "replicas": 3, "event": "snapshot_adopted"}) == {
        "version": "624f0a", "replicas": 3, "event": "snapshot_adopted",
    }  # fmt: skip
    assert redact_text("ray 2.60.0 at 12:30:45") == "ray 2.60.0 at 12:30:45"
