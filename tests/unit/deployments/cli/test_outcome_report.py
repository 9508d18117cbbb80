"""`kiosk report outcomes` over a stopped installation."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from cluster.admin.app_key_admin import AppKeyAdmin
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.process.artifact_access import open_artifact_store
from cluster.records.apps import App, AppSettings
from cluster.records.served_list import ServedAnswer
from cluster.store.connect import OpenStores
from deployments.cli.__main__ import command_line
from deployments.cli.framework.installation import Installation, read_clock_ms

WORDS = ["report", "outcomes", "bookshop"]


@pytest.mark.redis
@pytest.mark.usefixtures("allow_world")
def test_the_command_prints_a_line_and_rows_and_writes_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("KIOSK_REDIS_URL", raising=False)
    now_ms = read_clock_ms()

    async def fill(keeping: AppKeyAdmin, stores: OpenStores) -> None:
        settings = AppSettings(currency="EUR")
        await stores.access.put_app(
            App(app_id="bookshop", environment="development", created_at=0, settings=settings)
        )

    installation = Installation()
    installation.administer(fill)
    answers = [
        ServedAnswer(f"s{number}", now_ms - 9_000, "user_to_products", "default", user="u", products=("a",))
        for number in range(3)
    ]
    ServedLogStore(open_artifact_store(installation.settings)).append("bookshop", answers, "1-0")
    result = CliRunner().invoke(command_line(), [*WORDS, "--by", "engine"])
    assert result.exit_code == 0, result.output
    line = " ".join(result.output.split())
    assert "3 lists for 1 people led to 0 clicks (CTR 0.0%) and EUR 0.00 of revenue." in line
    assert "only an experiment can tell" in line
    path = tmp_path / "places.csv"
    result = CliRunner().invoke(command_line(), [*WORDS, "--by", "place", "--out", str(path), "--json"])
    assert json.loads(result.stdout)["groups"][0]["lists"] == 3
    assert pl.read_csv(path)["lists"].to_list() == [3]
    for wrong in (["--by", "weather"], ["--since", "long"], ["--out", "rows.xlsx"]):
        assert CliRunner().invoke(command_line(), [*WORDS, *wrong]).exit_code != 0
