"""Secrets go from the environment of the first process into files, and into no process that is started later."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.admin.master_keys import (
    ensure_master_key,
    manifest_key_text,
    manifest_signer,
    open_vault,
    save_manifest_key,
)
from cluster.crypto import new_master_key, parse_master_key
from cluster.errors import Fault
from cluster.paths import InstallationPaths, read_private
from cluster.runtime.handover import drop_key_variables, hand_over, hidden_secrets, without_secrets
from cluster.settings import SECRET_VARIABLES, Settings

MASTER = new_master_key(lambda size: bytes(range(size)))
GIVEN = {
    "KIOSK_MASTER_KEY": MASTER,
    "KIOSK_LLM_KEY": "canary-llm-key",
    "KIOSK_REDIS_URL": "redis://:canary-password@localhost:6379/0",
}


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in SECRET_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(f"{name}_FILE", raising=False)
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path / "data"))


def set_all(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    for name, text in environment.items():
        monkeypatch.setenv(name, text)


def test_secrets_become_files_that_settings_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {**GIVEN, "PATH": "/bin", "KIOSK_LLM_URL": "https://models.example.com/v1"}
    assert hand_over(environment, tmp_path / "secrets")
    assert not [text for text in environment.values() if "canary" in text or MASTER in text]
    assert environment["PATH"] == "/bin"
    for path in (tmp_path / "secrets").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    set_all(monkeypatch, environment)
    settings = Settings()
    assert settings.redis_url is not None
    assert settings.redis_url.get_secret_value() == GIVEN["KIOSK_REDIS_URL"]
    assert settings.redis_is_external
    assert settings.llm is not None
    assert settings.llm["key"] == "canary-llm-key"
    assert open_vault(settings).derive("x") == open_vault(Settings(master_key=MASTER)).derive("x")  # type: ignore[arg-type]
    assert "canary" not in repr(settings)


def test_handing_over_twice_keeps_what_was_handed_over(tmp_path: Path) -> None:
    environment = dict(GIVEN)
    hand_over(environment, tmp_path)
    before = dict(environment)
    assert not hand_over(environment, tmp_path)
    assert environment == before
    assert len(list(tmp_path.iterdir())) == 3
    assert not hand_over({}, tmp_path)  # another start, without secrets
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_ends_soon_leaves_no_file_behind() -> None:
    with hidden_secrets({**GIVEN, "HOME": "/root"}) as environment:
        path = Path(environment["KIOSK_LLM_KEY_FILE"])
        assert (path.read_text().strip(), environment["HOME"]) == ("canary-llm-key", "/root")
        assert not set(GIVEN) & set(environment)
    assert not path.exists()


def test_redis_gets_neither_secrets_nor_where_they_are() -> None:
    environment = dict(GIVEN)
    with hidden_secrets(environment) as clean:
        assert without_secrets({**clean, **GIVEN, "HOME": "/"}) == {"HOME": "/"}


def test_other_commands_find_the_key_that_was_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    places = InstallationPaths.from_data_dir(Settings().data_dir)
    places.make()
    hand_over(dict(GIVEN), places.secrets_dir)
    assert open_vault(Settings()).derive("x") == open_vault(Settings(master_key=MASTER)).derive("x")  # type: ignore[arg-type]
    ensure_master_key(Settings())
    assert not places.master_key.exists()
    places.secrets_dir.chmod(0o700)
    (places.secrets_dir / "master.key").chmod(0o644)
    assert read_private(places.secrets_dir / "master.key") is None


def test_a_link_in_place_of_a_private_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text(MASTER)
    (tmp_path / "theirs").chmod(0o600)
    (tmp_path / "master.key").symlink_to(tmp_path / "theirs")
    assert read_private(tmp_path / "master.key") is None


def test_a_trainer_signs_without_the_master_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(master_key=MASTER)  # type: ignore[arg-type]
    InstallationPaths.from_data_dir(settings.data_dir).make()
    save_manifest_key(settings)
    monkeypatch.setenv("KIOSK_MASTER_KEY_FILE", str(tmp_path / "somewhere"))
    monkeypatch.setenv("KIOSK_LLM_KEY", "canary")
    monkeypatch.setenv("KIOSK_LLM_URL", "https://models.example.com/v1")
    drop_key_variables()
    trainer = Settings()
    assert (trainer.master_key, trainer.master_key_file) == (None, None)
    assert trainer.llm is not None
    assert trainer.llm["key"] == ""
    with pytest.raises(Fault):
        open_vault(trainer)
    assert manifest_signer(trainer).sign("a", b"b") == manifest_signer(settings).sign("a", b"b")
    text = manifest_key_text(settings)
    assert MASTER not in text
    assert len(parse_master_key(text)) == 32
    (tmp_path / "mounted").write_text(text)
    elsewhere = Settings(data_dir=tmp_path / "other", manifest_key_file=tmp_path / "mounted")
    assert manifest_signer(elsewhere).sign("a", b"b") == manifest_signer(settings).sign("a", b"b")


def test_without_any_key_nothing_is_signed_and_nothing_made_up(tmp_path: Path) -> None:
    with pytest.raises(Fault, match="master key can't be read"):
        manifest_signer(Settings(data_dir=tmp_path)).sign("a", b"b")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("allow_world")
def test_what_a_node_starts_has_no_secret_in_its_environment(tmp_path: Path) -> None:
    """`python -m cluster.runtime.handover COMMAND`, as it stands before `ray start` on a node of a cluster."""
    root = Path(__file__).parents[4]
    environment = {
        **GIVEN,
        "KIOSK_DATA_DIR": str(tmp_path / "data"),
        "PYTHONPATH": str(root),
        "PATH": os.defpath,
    }
    show = "import os; print(open(f'/proc/{os.getpid()}/environ').read().replace(chr(0), chr(10)))"
    done = subprocess.run(
        [sys.executable, "-m", "cluster.runtime.handover", sys.executable, "-c", show],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    seen = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    assert not [text for text in seen.values() if "canary" in text or MASTER in text]
    places = InstallationPaths.from_data_dir(tmp_path / "data")
    assert Path(seen["KIOSK_MASTER_KEY_FILE"]).read_text().strip() == MASTER
    assert read_private(places.secrets_dir / "manifest.key") is not None


def test_a_key_that_was_given_before_is_not_replaced_by_a_new_one(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    (tmp_path / "adopted").write_text("yes")
    with pytest.raises(Fault, match="KIOSK_MASTER_KEY_FILE"):
        ensure_master_key(settings)
    assert not (tmp_path / "master.key").exists()
    ensure_master_key(Settings(data_dir=tmp_path, master_key=MASTER))  # type: ignore[arg-type]
