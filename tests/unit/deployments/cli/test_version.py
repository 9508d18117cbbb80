"""`kiosk --version`."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from cluster.build_info import PACKAGES, build_digest, digest_packages, installed_version, package_root
from deployments.cli.command_line import command_line


def test_the_version_is_printed() -> None:
    shown = CliRunner().invoke(command_line("--version"), ["--version"])
    assert (shown.exit_code, shown.stdout) == (0, f"kiosk {installed_version()} (build {build_digest()})\n")


def test_two_builds_of_one_version_have_different_digests(tmp_path: Path) -> None:
    for name in PACKAGES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    before = digest_packages(tmp_path)
    (tmp_path / "cluster" / "__pycache__").mkdir()
    (tmp_path / "cluster" / "__pycache__" / "module.pyc").write_text("compiled")
    assert digest_packages(tmp_path) == before
    (tmp_path / "cluster" / "module.py").write_text("x = 1\n")
    added = digest_packages(tmp_path)
    (tmp_path / "cluster" / "module.py").rename(tmp_path / "jobs" / "module.py")
    assert len({before, added, digest_packages(tmp_path), digest_packages(package_root())}) == 4
