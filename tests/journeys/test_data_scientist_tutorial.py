"""The tutorial for data scientists and its notebook, command by command, against a real installation.

Blocks below `<!-- run kiosk -->` run in a shell or as programs, in the order of the page and in one folder. A block
below `<!-- file NAME -->` is written to that file.
"""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.paths import InstallationPaths
from cluster.process.free_ports import free_ports
from tests.cluster.installed import Installed
from tests.house.tree import ROOT

pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.slow, pytest.mark.timeout(600)]
TUTORIAL = ROOT / "docs" / "tutorials" / "data-scientist.md"
NOTEBOOK = ROOT / "docs" / "examples" / "data_frame.ipynb"
BLOCK = re.compile(r"^<!-- (run kiosk|file [\w.]+) -->\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Installed]:
    installed = Installed(InstallationPaths.from_data_dir(tmp_path / "data"), free_ports(1)[0])
    installed.kiosk("up", "--port", str(installed.port))
    yield installed
    installed.kiosk("down")


class Shell:
    """A folder in which programs run with `kiosk` on their path, as in an activated environment."""

    def __init__(self, installed: Installed, folder: Path) -> None:
        self.folder, programs = folder / "lab", folder / "bin"
        for made in (self.folder, programs):
            made.mkdir()
        (programs / "kiosk").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m deployments.cli "$@"\n')
        (programs / "kiosk").chmod(0o755)
        self._environment = {
            **installed.environment,
            "PYTHONPATH": str(ROOT),
            "CHECKOUT": str(ROOT),
            "COLUMNS": "120",
            "PATH": f"{programs}:{installed.environment['PATH']}",
        }

    def run(self, language: str, text: str) -> str:
        program = {"bash": ["bash", "-euo", "pipefail"], "python": [sys.executable, "-"]}[language]
        done = subprocess.run(
            program,
            input=text,
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, (text, done.stdout, done.stderr)
        print(done.stdout)
        return done.stdout


def test_every_command_of_the_tutorial_works(installed: Installed, tmp_path: Path) -> None:
    shell = Shell(installed, tmp_path)
    blocks = BLOCK.findall(TUTORIAL.read_text("utf-8"))
    assert len(blocks) >= 11
    for use, language, text in blocks:
        if use.startswith("file "):
            (shell.folder / use.removeprefix("file ")).write_text(text, "utf-8")
        else:
            shell.run(language, text)
    assert {"report.md", "report.json"} <= {path.name for path in (shell.folder / "figures").iterdir()}
    with (shell.folder / "lists.csv").open(encoding="utf-8", newline="") as file:
        served = {row["user_id"]: row["served_by"] for row in csv.DictReader(file)}
    assert served == {"c0": "personal", "c1": "personal", "nobody": "trending"}

    cells = [
        "".join(cell["source"])
        for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
        if cell["cell_type"] == "code"
    ]
    assert len(cells) >= 8
    # one process, as a kernel; the last line shows what the last cell does
    output = shell.run(
        "python", "\n".join([*cells, "import json; print(json.dumps(lists.to_dicts(), default=str))"])
    )
    served = {row["user_id"]: row["served_by"] for row in json.loads(output.splitlines()[-1])}
    assert served == {"c0": "personal", "c1": "personal", "nobody": "trending"}
    assert "order" in output
    assert (shell.folder / "order-segments.svg").exists()
