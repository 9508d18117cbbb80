"""An external Redis that is away is named with its address and the setting, and without its password."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.errors import Fault
from cluster.local.external_redis import wait_for_redis
from cluster.paths import InstallationPaths
from cluster.process.free_ports import free_ports
from cluster.settings import Settings

pytestmark = pytest.mark.usefixtures("allow_world")


def test_address_and_setting_are_named_and_the_password_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KIOSK_REDIS_URL", raising=False)
    (port,) = free_ports(1)
    settings = Settings(data_dir=tmp_path, redis_url=f"redis://me:hunter2@127.0.0.1:{port}/3")
    with pytest.raises(Fault) as refused:
        wait_for_redis(settings, within_s=0.2)
    message = refused.value.message
    assert f"the Redis at 127.0.0.1:{port} can't be reached (Connect" in message
    assert message.endswith("start it, or correct KIOSK_REDIS_URL")
    assert "hunter2" not in message


def test_a_custom_file_is_reported_as_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KIOSK_REDIS_URL", raising=False)
    path = tmp_path / "mounted"
    path.write_text(f"unix://{tmp_path}/none.sock")
    with pytest.raises(Fault, match=r"none\.sock can't be reached .* correct KIOSK_REDIS_URL_FILE$"):
        wait_for_redis(Settings(data_dir=tmp_path, redis_url_file=path, redis_url=path.read_text()), 0.0)
    handed = InstallationPaths.from_data_dir(tmp_path).secrets_dir / "redis.url"
    with pytest.raises(Fault, match=r"correct KIOSK_REDIS_URL$"):
        wait_for_redis(Settings(data_dir=tmp_path, redis_url_file=handed, redis_url=path.read_text()), 0.0)
