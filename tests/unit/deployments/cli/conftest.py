"""Stopped installations in a folder of the test, for commands."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data directory of an installation that was never started."""
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("KIOSK_REDIS_URL", raising=False)
    return tmp_path / "data"


@pytest.fixture
def connected_data_dir(data_dir: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same beside the Redis server of the session: no command starts a server of its own."""
    monkeypatch.setenv("KIOSK_REDIS_URL", redis_url)
    return data_dir
