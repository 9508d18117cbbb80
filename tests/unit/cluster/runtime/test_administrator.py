"""The administrator's password is made once, shown once, and kept as a hash."""

from __future__ import annotations

import stat
from pathlib import Path

from cluster.runtime.administrator import USERNAME, ensure_administrator, is_administrator


def test_a_password_is_made_on_the_first_start_only(tmp_path: Path) -> None:
    path = tmp_path / "administrator.json"
    password = ensure_administrator(path)
    assert len(password) >= 16
    assert ensure_administrator(path) == ""
    assert is_administrator(path, USERNAME, password)


def test_the_password_itself_is_not_kept_and_the_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "administrator.json"
    password = ensure_administrator(path)
    assert password not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_other_names_passwords_and_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "administrator.json"
    password = ensure_administrator(path)
    assert not is_administrator(path, USERNAME, password + "x")
    assert not is_administrator(path, USERNAME, "")
    assert not is_administrator(path, "root", password)
    assert not is_administrator(tmp_path / "absent", USERNAME, password)
    path.write_text("{}")
    assert not is_administrator(path, USERNAME, password)
    assert not is_administrator(path, "", "")
