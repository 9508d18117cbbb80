"""`kiosk ingest --json`: one object on standard output, whatever happens."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from cluster.records.apps import App
from cluster.store.connect import open_stores
from cluster.store.installation.identity import IdentityStore, StoredIdentity
from jobs.ingest.__main__ import main


async def _mark_installation(redis_url: str) -> None:
    async with open_stores(redis_url, hot_s=5.0, slow_s=10.0) as stores:
        await IdentityStore(stores.server).claim(StoredIdentity("0" * 32, ""))


def _run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str
) -> tuple[int, Any, str]:
    monkeypatch.setattr(sys, "argv", ["jobs.ingest", *words, "--json"])
    code = main()
    shown = capsys.readouterr()
    return code, json.loads(shown.out), shown.err


async def _open_app(redis_url: str) -> None:
    async with open_stores(redis_url, hot_s=5.0, slow_s=10.0) as stores:
        await stores.access.put_app(App(app_id="ingested", environment="development", created_at=0))


@pytest.mark.redis
@pytest.mark.usefixtures("allow_world")
def test_a_refused_installation_is_one_json_object_too(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path / "another"))
    monkeypatch.setenv("KIOSK_REDIS_URL", redis_url)
    asyncio.run(_mark_installation(redis_url))
    file = tmp_path / "clicks.jsonl"
    file.write_text(json.dumps({"type": "click", "user_id": "u", "product_ids": ["p"]}) + "\n")
    code, report, progress = _run(
        monkeypatch, capsys, str(file), "--noun", "interaction", "--app", "ingested"
    )
    assert code == 2
    assert "this Redis belongs to installation" in report["error"]["message"]
    assert "identity_refused" in progress


@pytest.mark.redis
@pytest.mark.usefixtures("allow_world")
def test_the_end_of_an_ingest_is_one_json_object_and_progress_is_elsewhere(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("KIOSK_REDIS_URL", redis_url)
    asyncio.run(_open_app(redis_url))
    file = tmp_path / "clicks.jsonl"
    good = {"type": "click", "user_id": "u", "product_ids": ["p"]}
    file.write_text("\n".join(json.dumps(item) for item in (good, good, {"type": "zap"})) + "\n")
    words = (str(file), "--noun", "interaction", "--app", "ingested")
    code, report, progress = _run(monkeypatch, capsys, *words)
    assert code == 1, report
    assert {name: report[name] for name in ("app_id", "noun", "rows", "accepted", "refused", "failed")} == {
        "app_id": "ingested", "noun": "interaction", "rows": 3, "accepted": 2, "refused": 1, "failed": 0,
    }  # fmt: skip
    assert Path(report["quarantine"]).exists()
    assert [(reason["count"], reason["row"]) for reason in report["reasons"]] == [(1, 2)]
    assert "2 accepted, 1 refused" in progress


def test_what_stopped_it_is_an_object_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("KIOSK_REDIS_URL", raising=False)
    code, report, log = _run(monkeypatch, capsys, "none.jsonl", "--noun", "user", "--app", "development")
    assert code == 3
    assert report["error"]["code"] == "unavailable"
    assert "ingest stopped" in log


@pytest.mark.redis
@pytest.mark.usefixtures("allow_world")
def test_an_ingest_stops_when_the_disk_of_the_installation_is_full_and_goes_on_later(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("KIOSK_REDIS_URL", redis_url)
    asyncio.run(_open_app(redis_url))
    file = tmp_path / "clicks.jsonl"
    click = {"type": "click", "user_id": "u", "product_ids": ["p"]}
    file.write_text("".join(json.dumps(click) + "\n" for _ in range(10)))
    words = (str(file), "--noun", "interaction", "--app", "ingested", "--chunk", "2")
    monkeypatch.setenv("KIOSK_DISK_LIMIT", "0.000001")
    code, report, _ = _run(monkeypatch, capsys, *words)
    assert code == 3
    assert "writes are refused until there is room again" in report["error"]["message"]
    monkeypatch.setenv("KIOSK_DISK_LIMIT", "1")
    code, report, _ = _run(monkeypatch, capsys, *words)
    assert (code, report["accepted"]) == (0, 10)
