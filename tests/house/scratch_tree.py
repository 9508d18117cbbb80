"""A copy of the product in which a test adds lines, and programs that run in it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.house.tree import ROOT

_LINKED = ("docs", "jobs", "tests", "pyproject.toml")
_COPIED = ("actors", "cluster", "deployments")


def copy_with_lines(scratch: Path, added: Mapping[str, Mapping[str, str]]) -> None:
    """Copy the tree, and add lines.

    Args:
        added: path of a file -> one of its lines -> the lines that a programmer adds above it
    """
    changed = {Path(path).parts[0] for path in added}
    for name in (*_LINKED, *_COPIED):
        if name in changed:
            shutil.copytree(ROOT / name, scratch / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            (scratch / name).symlink_to(ROOT / name)
    for path, lines in added.items():
        text = (scratch / path).read_text("utf-8")
        for line, more in lines.items():
            assert text.count(line) == 1, line
            text = text.replace(line, more + line)
        (scratch / path).write_text(text, "utf-8")


def run_program(scratch: Path, program: str) -> Any:
    """Run a program in the copy and return what it prints last, as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=scratch, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
