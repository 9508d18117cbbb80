from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster.commands.line import command_line

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
