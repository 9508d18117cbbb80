"""`kiosk --version`."""

from __future__ import annotations

from typer.testing import CliRunner

from cluster.build_info import installed_version
from deployments.cli.command_line import command_line


def test_the_version_is_printed() -> None:
    shown = CliRunner().invoke(command_line("--version"), ["--version"])
    assert (shown.exit_code, shown.stdout) == (0, f"kiosk {installed_version()}\n")
