from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deployments.cli.command_line import command_line

MINE = "shop.markov:Markov"


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path))

    def kiosk(*words: str) -> str:
        done = CliRunner().invoke(command_line(), ["learners", *words])
        assert done.exit_code == 0, done.output
        return done.stdout

    assert "none" in kiosk("list")
    assert "is allowed" in kiosk("allow", MINE)
    assert MINE in kiosk("list", "--json")
    assert (tmp_path / "learners").stat().st_mode & 0o077 == 0
    assert "not allowed any more" in kiosk("remove", MINE)
    assert "none" in kiosk("list")


def test_conform_tells_needed_promises_from_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.path", [*sys.path])
    examples = str(Path(__file__).parents[4] / "docs" / "examples")
    words = ["learners", "conform", "my_learner:NextItem", "--working-dir", examples, "--config"]
    done = CliRunner().invoke(command_line(), [*words, '{"window": 2}'])
    assert done.exit_code == 0, done.output
    assert "13 of 13 promises are kept" in done.stdout
    report = json.loads(CliRunner().invoke(command_line(), [*words, "{}", "--json"]).stdout)
    assert report["usable"]
    assert {promise["needed"] for promise in report["promises"]} == {True, False}
