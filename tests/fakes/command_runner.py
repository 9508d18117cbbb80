"""Commands of `kiosk` in this process: their results, their JSON and their refusals."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner, Result

from cluster.errors import KioskError
from deployments.cli.__main__ import command_line


def run_command(*words: str, typed: str | None = None) -> Result:
    """Run a command; `typed` comes on standard input."""
    return CliRunner().invoke(command_line(), list(words), input=typed)


def run_json(*words: str, typed: str | None = None, code: int = 0) -> Any:
    """Run a command with `--json`, check its exit code, and return what it printed."""
    result = run_command(*words, "--json", typed=typed)
    assert result.exit_code == code, (result.output, result.exception)
    return json.loads(result.stdout)


def refusal_of(*words: str, typed: str | None = None) -> KioskError:
    """Run a command that is refused, and return the error."""
    error = run_command(*words, typed=typed).exception
    assert isinstance(error, KioskError), error
    return error
