"""Commands judge by what the installation runs with, not by their own shell, and say where the two differ."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster.errors import Fault, Unavailable
from cluster.paths import InstallationPaths
from cluster.process.installation_state import InstallationLock, InstallationState, load_state, save_state
from cluster.settings import Settings
from deployments.cli import subprocess_commands
from deployments.cli.__main__ import command_line
from deployments.cli.framework.installation import Installation
from deployments.cli.installation import up
from deployments.cli.installation.summary import AppKeys, InstallationSummary
from deployments.operations.insight.installation_checks import check_disk

pytestmark = pytest.mark.usefixtures("allow_world")


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InstallationPaths]:
    """An installation that runs with a disk limit of 0.01 %, as far as files and locks tell."""
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("KIOSK_REDIS_URL", raising=False)
    places = InstallationPaths.from_data_dir(tmp_path / "data")
    places.make()
    state = {
        "phase": "ready", "pid": 7, "version": "1", "host": "127.0.0.1", "port": 8160, "data_dir": str(places.data_dir),
        "run_dir": str(places.run_dir), "logs_dir": str(places.logs_dir), "started_at": 1,
        "settings": Settings(disk_limit=0.0001, port=8160, public_url="https://news.example.com").shareable(),
    }  # fmt: skip
    save_state(places, InstallationState.model_validate(state))
    lock = InstallationLock(places.lock)
    assert lock.acquire()
    yield places
    lock.release()
    places.run_dir.rmdir() if not any(places.run_dir.iterdir()) else None


def test_the_disk_is_judged_by_the_running_limit(running: InstallationPaths) -> None:
    installation = Installation()
    assert installation.settings.disk_limit == 0.0001
    assert installation.settings.public_url == "https://news.example.com"
    assert installation.in_vain == []
    assert check_disk(installation.places.data_dir, installation.settings.disk_limit).level == "bad"


@pytest.mark.parametrize(
    "line", ["ingest x.jsonl --noun product --app a", "ingest archive x.xml --app a", "train"]
)
def test_commands_that_write_refuse_as_the_installation_does(running: InstallationPaths, line: str) -> None:
    result = CliRunner().invoke(command_line(), line.split())
    assert isinstance(result.exception, Unavailable)
    assert "writes are refused" in result.exception.message


def test_a_shell_with_other_settings_is_reported(
    running: InstallationPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIOSK_DISK_LIMIT", "0.99")
    monkeypatch.setenv("KIOSK_PORT", "8160")
    assert Installation().in_vain == ["KIOSK_DISK_LIMIT=0.99"]
    warning = CliRunner().invoke(command_line(), ["train"]).stderr
    assert "KIOSK_DISK_LIMIT=0.99 of this shell" in warning


def test_programs_get_the_running_settings_and_no_secret(running: InstallationPaths) -> None:
    given = subprocess_commands.settings_as_variables(Installation())
    assert given["KIOSK_DISK_LIMIT"] == "0.0001"
    assert (
        not {"KIOSK_REDIS_URL", "KIOSK_MASTER_KEY", "KIOSK_LLM_KEY", "KIOSK_DATA_DIR", "KIOSK_LEARNERS"}
        & given.keys()
    )


def test_every_stage_is_a_line_and_brackets_are_shown_as_they_are(
    running: InstallationPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    """HAProxy names its functions in brackets; a stage may be over before anybody looks."""
    state = load_state(running)
    assert state is not None
    message = "HAProxy crashed: [/opt/haproxy.main()] can't bind"
    stages = ((0.1, "starting Redis"), (0.12, "Redis answers"), (61.04, message))
    change = {"phase": "failed", "message": message, "stages": stages}
    save_state(running, state.model_copy(update=change))
    assert up._await_ready(Installation()).phase == "failed"
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["    0.1 s  starting Redis", "    0.1 s  Redis answers", f"   61.0 s  {message}"]
    result = CliRunner().invoke(command_line(), ["up", "--port", "8160"])
    assert isinstance(result.exception, Fault), result.exception
    assert result.exception.message.startswith(message)


def test_a_second_start_on_another_port_reports_the_kept_port(
    running: InstallationPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = InstallationSummary(load_state(running), [AppKeys("development", "development")])  # type: ignore[arg-type]
    reveals = []

    def build_summary(*given: object, reveal: bool, first: bool = False) -> InstallationSummary:
        reveals.append(reveal)
        return summary

    monkeypatch.setattr(up, "build_summary", build_summary)
    result = CliRunner().invoke(command_line(), ["up", "--port", "8161"])
    assert result.exit_code == 0
    assert "It stays on http://127.0.0.1:8160." in result.stderr
    assert "`kiosk up --host 127.0.0.1 --port 8161`" in result.stderr
    assert CliRunner().invoke(command_line(), ["up", "--port", "8160", "--json"]).exit_code == 0
    assert reveals == [False, True], "programs get the keys every time, people only when they ask"


def test_the_memory_of_apps_reaches_the_processes_of_ray_and_is_not_changed_while_they_run(
    running: InstallationPaths,
) -> None:
    result = CliRunner().invoke(command_line(), ["up", "--port", "8160", "--memory", "900"])
    assert "KIOSK_MEMORY_MB=900" in result.stderr
    variables = up._variables(Settings(memory_mb=900))
    assert variables["KIOSK_MEMORY_MB"] == "900"
    assert "--memory" in CliRunner().invoke(command_line(), ["up", "--memory", "9"]).stderr


def test_no_secret_is_recorded(tmp_path: Path) -> None:
    settings = Settings(
        data_dir=tmp_path, master_key="canary-m", llm_key="canary-l", redis_url="redis://:canary-r@h"
    )
    assert "canary" not in json.dumps(settings.shareable())


@pytest.mark.parametrize("line", ["train", "train --dry-run", "evaluate"])
def test_training_without_an_installation_names_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path / "nothing"))
    monkeypatch.delenv("KIOSK_REDIS_URL", raising=False)
    result = CliRunner().invoke(command_line(), line.split())
    assert isinstance(result.exception, Unavailable)
    assert "start it with `kiosk up` first" in result.exception.message
    assert not (tmp_path / "nothing").exists()
