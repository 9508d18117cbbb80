"""Where things lie, who may look, and that sockets fit."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from cluster.errors import Fault, Invalid
from cluster.paths import LONGEST_RUN_DIR, InstallationPaths, write_private

NODE = "a" * 56
LONGEST_SOCKET = 107


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_every_directory_is_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o755)
    places = InstallationPaths.from_data_dir(tmp_path / "data", tmp_path)
    object.__setattr__(places, "run_dir", tmp_path / "run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("cluster.paths.LONGEST_RUN_DIR", 4096)
        places.make()
    for folder in (places.data_dir, places.redis_dir, places.logs_dir, places.run_dir, places.haproxy_dir):
        assert _mode(folder) == 0o700, folder


def test_sockets_of_haproxy_fit_behind_the_run_directory() -> None:
    places = InstallationPaths.from_data_dir(Path("/somewhere/very/long" * 10))
    assert len(str(places.run_dir)) <= LONGEST_RUN_DIR
    bound = f"{'r' * LONGEST_RUN_DIR}/h/{NODE}/a.sock.4194304.tmp"
    assert len(bound) <= LONGEST_SOCKET


def test_each_installation_has_a_separate_run_directory(tmp_path: Path) -> None:
    first, second = (
        InstallationPaths.from_data_dir(tmp_path / "one"),
        InstallationPaths.from_data_dir(tmp_path / "two"),
    )
    assert first.run_dir != second.run_dir
    assert first.run_dir == InstallationPaths.from_data_dir(tmp_path / "x" / ".." / "one").run_dir


def test_a_run_directory_that_is_a_link_is_refused(tmp_path: Path) -> None:
    temp = Path("/tmp")
    places = InstallationPaths.from_data_dir(tmp_path / "data", temp)
    places.run_dir.symlink_to(tmp_path)
    try:
        with pytest.raises(Fault, match="remove it and start again"):
            places.make()
    finally:
        places.run_dir.unlink()


def test_a_data_directory_that_is_a_file_is_refused_with_advice(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(Invalid, match="set KIOSK_DATA_DIR"):
        InstallationPaths.from_data_dir(tmp_path / "data").make()


def test_secrets_are_written_for_their_owner_only_whatever_stood_there(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, "new")
    assert (path.read_text(), _mode(path)) == ("new", 0o600)
    assert list(tmp_path.iterdir()) == [path]
