"""The tutorial for data scientists, command by command, against a real installation.

Blocks below `<!-- run kiosk -->` run in a shell or as programs, in the order of the page and in one folder. A block
below `<!-- file NAME -->` is written to that file.
"""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.paths import InstallationPaths
from cluster.process.sockets import free_ports
from tests.cluster.test_up_down import Installed
from tests.house.tree import ROOT

pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.slow, pytest.mark.timeout(600)]
TUTORIAL = ROOT / "docs" / "tutorials" / "data-scientist.md"
BLOCK = re.compile(r"^<!-- (run kiosk|file [\w.]+) -->\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Installed]:
    installed = Installed(InstallationPaths.from_data_dir(tmp_path / "data"), free_ports(1)[0])
    installed.kiosk("up", "--port", str(installed.port))
    yield installed
    installed.kiosk("down")


def test_every_command_of_the_tutorial_works(installed: Installed, tmp_path: Path) -> None:
    folder, programs = tmp_path / "lab", tmp_path / "bin"
    for made in (folder, programs):
        made.mkdir()
    (programs / "kiosk").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m deployments.cli "$@"\n')
    (programs / "kiosk").chmod(0o755)
    environment = {**installed.environment, "PYTHONPATH": str(ROOT), "CHECKOUT": str(ROOT), "COLUMNS": "120"}
    environment["PATH"] = f"{programs}:{environment['PATH']}"
    blocks = BLOCK.findall(TUTORIAL.read_text("utf-8"))
    assert len(blocks) >= 11
    for use, language, text in blocks:
        if use.startswith("file "):
            (folder / use.removeprefix("file ")).write_text(text, "utf-8")
            continue
        program = {"bash": ["bash", "-euo", "pipefail"], "python": [sys.executable, "-"]}[language]
        done = subprocess.run(
            program,
            input=text,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, (text, done.stdout, done.stderr)
        print(done.stdout)
    assert {"report.md", "report.json"} <= {path.name for path in (folder / "figures").iterdir()}
    with (folder / "lists.csv").open(encoding="utf-8", newline="") as file:
        served = {row["user_id"]: row["served_by"] for row in csv.DictReader(file)}
    assert served == {"c0": "personal", "c1": "personal", "nobody": "trending"}
