"""The locks agree with pyproject.toml, hold a hash for each file and name no registry."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cluster.local.bill_of_materials import parse_lock_file
from tests.house.tree import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LOCKS = ROOT / "cluster" / "locks"
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return project


def _locked(path: Path) -> Iterator[Requirement]:
    for line in path.read_text("utf-8").splitlines():
        if re.match(r"[A-Za-z0-9]", line):
            yield Requirement(line.rstrip(" \\"))


def _environment(python: str, machine: str) -> dict[str, str]:
    return {
        "python_version": python, "python_full_version": f"{python}.9", "platform_machine": machine,
        "sys_platform": "linux", "os_name": "posix", "platform_system": "Linux", "extra": "",
        "implementation_name": "cpython", "platform_python_implementation": "CPython",
    }  # fmt: skip


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("machine", MACHINES)
def test_every_dependency_is_locked_once_at_a_version_of_its_range(python: str, machine: str) -> None:
    environment = _environment(python, machine)
    project = _project()
    extras = project["optional-dependencies"]
    requirements = {
        "run": project["dependencies"],
        "test": extras["test"] + extras["meaning"] + extras["docs"] + extras["tracing"],
    }
    locked: dict[str, str] = {}
    for name in ("run", "test"):
        for pin in _locked(LOCKS / f"{name}.lock"):
            if pin.marker is None or pin.marker.evaluate(environment):
                key = canonicalize_name(pin.name)
                assert key not in locked, f"{key} is locked twice for Python {python}"
                locked[key] = str(pin.specifier).removeprefix("==")
        for text in requirements[name]:
            requirement = Requirement(text)
            if requirement.name == "kiosk" or (
                requirement.marker and not requirement.marker.evaluate(environment)
            ):
                continue
            version = locked.get(canonicalize_name(requirement.name))
            assert version is not None, f"{requirement.name} is not locked; run `.ci/lock`"
            assert requirement.specifier.contains(version, prereleases=True), f"{text} is locked at {version}"


@pytest.mark.parametrize("name", ["run", "test", "build", "clients"])
def test_each_locked_version_has_hashes_and_no_address(name: str) -> None:
    text = (LOCKS / f"{name}.lock").read_text("utf-8")
    lock = parse_lock_file(text)
    assert lock
    assert [pin for pin, hashes in lock.items() if not hashes] == []
    for line in text.splitlines()[1:]:
        assert re.fullmatch(r"[a-z0-9.-]+==\S+( ; [^\\]+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?", line), (
            line
        )


def test_what_installs_asks_for_hashes() -> None:
    for name in (".ci/run", "cluster/docker/Dockerfile"):
        text = (ROOT / name).read_text("utf-8")
        assert text.count("--require-hashes") >= 1, name
        assert "cluster/locks/run.lock" in text
        for line in text.splitlines():
            if re.search(r"\bpip install\b(?!.*`)", line) and not line.lstrip().startswith("#"):
                assert "--require-hashes" in line or "--no-deps" in line, f"{name}: {line}"


def test_images_are_named_by_an_exact_version() -> None:
    dockerfile = (ROOT / "cluster/docker/Dockerfile").read_text("utf-8")
    (image,) = re.findall(r"^ARG PYTHON_IMAGE=(\S+)", dockerfile, re.MULTILINE)
    assert set(re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)) == {"${PYTHON_IMAGE}"}
    manifests = (ROOT / "cluster/kuberay").rglob("*.yaml")
    images = [
        image,
        *(name for path in manifests for name in re.findall(r"image: (\S+)", path.read_text("utf-8"))),
    ]
    for name in images:
        assert name == "kiosk" or re.search(r":\d+\.\d+\.\d+", name) or "@sha256:" in name, name


def test_the_audit_is_no_part_of_the_run() -> None:
    script = (ROOT / ".ci/run").read_text("utf-8")
    assert [line for line in script.splitlines() if "audit" in line and not line.startswith("#")] == []
