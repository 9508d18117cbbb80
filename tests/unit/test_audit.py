"""`.ci/audit` finds published faults in recorded advisories, and says when it can't tell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.house.tree import ROOT

pytestmark = pytest.mark.usefixtures("allow_world")
LOCK = """\
pillow==12.3.0 \\
    --hash=sha256:00
jinja2==3.1.4 ; python_version < '3.11' \\
jinja2==3.1.6
Py_Stemmer==3.1.0
"""


def _advisory(
    name: str, *, versions: tuple[str, ...] = (), events: tuple[dict[str, str], ...] = (), **more: Any
) -> Any:
    affected = {
        "package": {"ecosystem": "PyPI", "name": name},
        "versions": list(versions),
        "ranges": [{"type": "ECOSYSTEM", "events": list(events)}],
    }
    return {"id": f"GHSA-{name}", "summary": f"a fault of {name}", "affected": [affected], **more}


def _audit(tmp_path: Path, *arguments: str, path: str = "/nowhere") -> subprocess.CompletedProcess[str]:
    lock = tmp_path / "some.lock"
    lock.write_text(LOCK)
    return subprocess.run(
        [sys.executable, ROOT / ".ci" / "audit", "--lock", str(lock), *arguments],
        capture_output=True, text=True, timeout=60, env={**os.environ, "PATH": path}, check=False,
    )  # fmt: skip


def _recorded(tmp_path: Path, *advisories: Any) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "advisories.json"
    file.write_text(json.dumps(list(advisories)))
    return _audit(tmp_path, "--advisories", str(file))


@pytest.mark.parametrize(
    ("advisory", "line"),
    [
        (_advisory("Jinja2", events=({"introduced": "0"}, {"fixed": "3.1.6"})), "jinja2 3.1.4: GHSA-Jinja2"),
        (_advisory("pillow", versions=("12.3.0",)), "pillow 12.3.0: GHSA-pillow a fault of pillow"),
        (_advisory("pystemmer", events=({"introduced": "3.0"}, {"last_affected": "3.1"})), ""),
        (
            _advisory("py.stemmer", events=({"introduced": "3.0"}, {"last_affected": "3.1"})),
            "py-stemmer 3.1.0",
        ),
        (_advisory("pillow", events=({"introduced": "0"}, {"fixed": "12.3.0"})), ""),
        (_advisory("pillow", events=({"introduced": "13"}, {"fixed": "13.1"})), ""),
        (_advisory("pillow", versions=("12.3.0",), withdrawn="2026-01-01T00:00:00Z"), ""),
    ],
)
def test_recorded_advisories_are_compared_with_each_locked_version(
    tmp_path: Path, advisory: Any, line: str
) -> None:
    done = _recorded(tmp_path, advisory)
    assert done.returncode == (1 if line else 0), done.stderr
    assert line in done.stdout
    assert "in 4 locked versions" in done.stdout


def test_an_archive_a_folder_and_lines_are_read_alike(tmp_path: Path) -> None:
    text = json.dumps(_advisory("pillow", versions=("12.3.0",)))
    archive = tmp_path / "all.zip"
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("GHSA-pillow.json", text)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "one.json").write_text(text)
    lines = tmp_path / "lines.jsonl"
    lines.write_text(f"{text}\n{text}\n")
    for place in (archive, folder, lines):
        done = _audit(tmp_path, "--advisories", str(place))
        assert done.returncode == 1
        assert "1 published faults" in done.stdout


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "not json", '[{"id": "x", "affected": [{"package": "pillow"}]}]']
)
def test_a_file_without_advisories_is_no_answer(tmp_path: Path, text: str) -> None:
    file = tmp_path / "advisories.json"
    file.write_text(text)
    done = _audit(tmp_path, "--advisories", str(file))
    assert done.returncode == 69
    assert done.stderr.startswith("can't tell: ")


def test_without_file_and_service_the_check_has_no_verdict(tmp_path: Path) -> None:
    done = _audit(tmp_path)
    assert done.returncode == 69
    assert "pip install pip-audit" in done.stderr
    assert _audit(tmp_path, "--nonsense").returncode == 64


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (
            {"dependencies": [{"name": "pillow", "skip_reason": "not found"}]},
            69,
            "does not know 1 of 1 packages",
        ),
        ({"dependencies": [{"name": "pillow", "version": "12.3.0", "vulns": []}]}, 0, "0 published faults"),
        (
            {"dependencies": [{"name": "pillow", "version": "1", "vulns": [{"id": "PYSEC-1"}]}]},
            1,
            "pillow 1: PYSEC-1",
        ),
        (None, 69, "does not answer (no network)"),
    ],
)
def test_a_service_that_knows_not_every_package_is_no_answer(
    tmp_path: Path, answer: Any, code: int, words: str
) -> None:
    program = tmp_path / "pip-audit"
    prints = f"echo '{json.dumps(answer)}'" if answer else "echo no network >&2; exit 1"
    program.write_text(f"#!/bin/sh\n{prints}\n")
    program.chmod(0o755)
    done = _audit(tmp_path, path=f"{tmp_path}:/usr/bin:/bin")
    assert done.returncode == code, done.stderr
    assert words in done.stdout + done.stderr


def test_a_python_without_packaging_has_no_verdict(tmp_path: Path) -> None:
    (tmp_path / "packaging.py").write_text("raise ImportError('absent')\n")
    done = subprocess.run(
        [sys.executable, ROOT / ".ci" / "audit"],
        capture_output=True, text=True, timeout=60, env={**os.environ, "PYTHONPATH": str(tmp_path)}, check=False,
    )  # fmt: skip
    assert done.returncode == 69
    assert "a Python that has `packaging`" in done.stderr
