"""`kiosk export` and `kiosk recommend` on a stopped installation, with the exit codes that pipelines rely on."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import orjson
import polars as pl
import pytest

from cluster.admin.app_key_admin import AppKeyAdmin
from cluster.errors import Conflict, Fault, FilterSyntax, Invalid, NotFound, Unavailable
from cluster.ids import new_task_id
from cluster.records.apps import App
from cluster.store.connect import OpenStores
from deployments.cli.content.export import parse_since
from deployments.cli.framework.installation import Installation, read_clock_ms
from deployments.cli.framework.screen import exit_code_of
from tests.fakes.command_runner import run_command, run_json
from tests.fakes.corner_shop import PRODUCTS, upload

pytestmark = [pytest.mark.redis, pytest.mark.usefixtures("allow_world")]
ROOT = Path(__file__).resolve().parents[4]
CLICK = {
    "type": "click",
    "user_id": "ada",
    "product_ids": ["hand-fork"],
    "timestamp": "2026-03-01T09:15:30.250Z",
}


@pytest.fixture
def folder(data_dir: Path) -> Path:
    async def put(keeping: AppKeyAdmin, stores: OpenStores) -> None:
        await stores.access.put_app(App(app_id="shop", environment="development", created_at=0))
        await upload(stores, PRODUCTS)
        await stores.interactions.append("shop", orjson.dumps([CLICK]), [])

    Installation().administer(put)
    return data_dir.parent


def test_a_stopped_shop_is_exported_and_scored(folder: Path) -> None:
    out = folder / "products.parquet"
    summary = run_json("export", "shop", "products", "--out", str(out))
    assert (summary["rows"], summary["from"], summary["file"], summary["format"]) == (
        len(PRODUCTS),
        None,
        str(out),
        "parquet",
    )
    assert summary["digest"].startswith("sha256:")
    assert summary["waiting"] == 0
    assert pl.read_parquet(out)["product_id"].sort().to_list() == sorted(
        product["product_id"] for product in PRODUCTS
    )
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    lines = run_command("export", "shop", "interactions", "--out", "-", "--format", "jsonl")
    assert (lines.exit_code, json.loads(lines.stdout)) == (0, CLICK)
    assert "1 rows, sha256:" in lines.stderr
    later = run_json(
        "export", "shop", "interactions", "--since", "2026-03-02", "--out", str(folder / "x.csv")
    )
    assert (later["rows"], later["from"]) == (0, "2026-03-02T00:00:00.000Z")

    (folder / "users.txt").write_text("ada\nnobody\n")
    scores = folder / "scores.csv"
    summary = run_json("recommend", "shop", "--users", str(folder / "users.txt"), "--rows", "3", "--fq", "brand:Alder",
                 "--out", str(scores))  # fmt: skip
    # the product that ada clicked is not recommended to her
    assert (summary["users"], summary["rows"], summary["snapshots"]) == (2, 5, [])
    frame = pl.read_csv(scores)
    alder = {product["product_id"] for product in PRODUCTS if product["brand"] == "Alder"}
    assert set(frame["product_id"].to_list()) <= alder
    assert frame["rank"].to_list() == [1, 2, 1, 2, 3]


def test_a_reader_that_has_enough_ends_the_export_quietly(folder: Path) -> None:
    async def append(keeping: AppKeyAdmin, stores: OpenStores) -> None:
        for _ in range(20):
            await stores.interactions.append("shop", orjson.dumps([CLICK] * 500), [])

    Installation().administer(append)
    command = f"{sys.executable} -m deployments.cli export shop interactions --out - --format jsonl"
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -1; exit ${{PIPESTATUS[0]}}"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, json.loads(done.stdout), done.stderr) == (1, CLICK, "")


def test_waiting_uploads_are_reported(folder: Path) -> None:
    async def accept(keeping: AppKeyAdmin, stores: OpenStores) -> None:
        body = orjson.dumps([{"user_id": "late"}])
        await stores.intake.accept(
            "shop", "user", "put", body, task_id=new_task_id(), total=1, now_ms=read_clock_ms()
        )

    Installation().administer(accept)
    result = run_command("export", "shop", "users", "--out", str(folder / "users.csv"))
    assert result.exit_code == 1
    assert "1 accepted uploads are not applied yet" in result.stderr
    assert (folder / "users.csv").exists()


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("export", "nowhere", "users", "--out", "x.csv"), "there is no app named nowhere; there are: shop"),
        (
            ("export", "shop", "clicks", "--out", "x.csv"),
            "choose from users, products, interactions, queries",
        ),
        (("export", "shop", "users", "--out", "x.xlsx"), "end it with .parquet, .jsonl or .csv"),
        (("export", "shop", "users", "--out", "x.csv", "--since", "soon"), "'soon' is no day or moment"),
        (("recommend", "shop", "--users", "none.csv", "--out", "x.csv"), "there is no file none.csv"),
        (
            ("recommend", "shop", "--users", "u.txt", "--out", "x.csv", "--fq", "a:[1"),
            "this range is never closed",
        ),
        (
            ("recommend", "shop", "--users", "u.txt", "--out", "x.csv", "--engine", "no"),
            "engine is not found",
        ),
        (
            ("recommend", "shop", "--users", "u.txt", "--out", "x.csv", "--snapshot", "no"),
            "there is no snapshot no",
        ),
    ],
)
def test_wrong_use_ends_with_two(
    folder: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], reason: str
) -> None:
    monkeypatch.chdir(folder)
    (folder / "u.txt").write_text("ada\n")
    result = run_command(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert reason in " ".join(result.stderr.split())
    assert not (folder / "x.csv").exists()


def test_a_store_that_is_away_ends_with_three(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("KIOSK_REDIS_URL", "redis://127.0.0.1:1")
    result = run_command("export", "shop", "users", "--out", str(tmp_path / "x.csv"), "--json")
    assert result.exit_code == 3
    assert json.loads(result.stdout)["error"]["code"] == "unavailable"
    assert not (tmp_path / "x.csv").exists()


def test_every_error_has_its_code() -> None:
    errors = (Invalid("x"), FilterSyntax("x"), NotFound("x"), Unavailable("x"), Conflict("x"), Fault("x"))
    assert [exit_code_of(error) for error in errors] == [2, 2, 2, 3, 1, 1]


def test_a_date_is_a_day_a_moment_or_a_span() -> None:
    assert parse_since("") == 0
    assert parse_since("2026-03-01") == parse_since("2026-03-01T00:00Z") == 1_772_323_200_000
    assert abs(read_clock_ms() - parse_since("2h") - 7_200_000) < 5_000


def test_a_notebook_learns_which_setting_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jobs.export.driver import export_frame
    from jobs.scoring.driver import recommend

    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("KIOSK_REDIS_URL", raising=False)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    for ask in (lambda: export_frame("shop", "users"), lambda: recommend("shop", ["ada"])):
        with pytest.raises(Unavailable, match="set KIOSK_DATA_DIR to the data directory"):
            ask()
