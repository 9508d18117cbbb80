"""What `kiosk up`, `down`, `status`, `bench` and `ingest` say without anything being started."""

from __future__ import annotations

import json
import shlex
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster.errors import Invalid, Unavailable
from cluster.process.installation_state import InstallationState
from cluster.settings import Settings
from deployments.cli.__main__ import command_line, main
from deployments.cli.installation.summary import AppKeys, InstallationSummary

pytestmark = pytest.mark.usefixtures("allow_world")
COMMANDS = ["up", "down", "status", "doctor"]
COMMANDS += [f"users {word}" for word in ("create", "list", "password", "disable", "clients", "disconnect")]
COMMANDS += ["apps list", "apps create", "apps limit", "keys list", "keys rotate", "keys revoke"]


@pytest.fixture(autouse=True)
def _data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("KIOSK_REDIS_URL", raising=False)


def _summary(**state: object) -> InstallationSummary:
    usual = {
        "phase": "ready", "pid": 7, "version": "1", "host": "127.0.0.1", "port": 8000, "data_dir": "/d",
        "run_dir": "/r", "logs_dir": "/l", "started_at": 1, "ready_after_s": 12.0,
    }  # fmt: skip
    names = ("playground", "development")
    apps = [AppKeys(name, name, f"secret of {name}", f"publishable of {name}") for name in names]
    return InstallationSummary(
        InstallationState.model_validate(usual | state), apps, playground_user="ada's", password="once"
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_json(command: str) -> None:
    result = CliRunner().invoke(command_line(), [*command.split(), "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert "--json" in result.stdout
    assert len(result.stdout) > 300


def test_the_object_has_the_shape_that_scripts_rely_on() -> None:
    content = _summary().to_dict(secrets=True)
    assert content == {
        "ready": True,
        "degraded": False,
        "proxy": "",
        "api_url": "http://127.0.0.1:8000",
        "edge_url": "http://127.0.0.1:8000",
        "mcp_url": "http://127.0.0.1:8000/mcp",
        "console_url": "http://127.0.0.1:8000/console",
        "data_dir": "/d",
        "administrator": {"username": "admin", "password": "once"},
        "apps": [
            {
                "app_id": name,
                "environment": name,
                "secret_key": f"secret of {name}",
                "publishable_key": f"publishable of {name}",
            }
            for name in ("playground", "development")
        ],
    }


def test_the_origin_for_browsers_is_shown_where_it_is_another() -> None:
    summary = replace(_summary(), edge_url="https://edge.example.com")
    assert summary.to_dict(secrets=True)["edge_url"] == "https://edge.example.com"
    assert summary.to_dict(secrets=True)["api_url"] == "http://127.0.0.1:8000"
    assert any("https://edge.example.com" in line for line in summary.lines())
    assert not any("Browsers" in line for line in _summary().lines())


def test_without_secrets_the_same_object_holds_none() -> None:
    content = _summary().to_dict(secrets=False)
    assert content["administrator"] == {"username": "admin"}
    assert content["apps"] == [
        {"app_id": name, "environment": name} for name in ("playground", "development")
    ]
    assert "once" not in json.dumps(content)


def test_a_later_start_prints_no_key_and_names_their_file() -> None:
    summary = _summary()
    summary = replace(
        summary, apps=[AppKeys(app.app_id, app.environment) for app in summary.apps], password=""
    )
    output = "\n".join(summary.lines())
    assert "secret of" not in output
    assert "curl" not in output
    assert "`kiosk keys list --reveal`" in output
    assert summary.state.api_url in output


def test_the_pages_stand_there_unless_the_console_is_off() -> None:
    lines = _summary().lines()
    assert "  Console    http://127.0.0.1:8000/console   (sign in as admin)" in lines
    assert "  Demo       http://127.0.0.1:8000/demo/shop" in lines
    without = "\n".join(replace(_summary(), console=False).lines())
    assert "/console" not in without
    assert "/demo" not in without


def test_the_commands_to_try_are_whole_lines_a_shell_understands() -> None:
    lines = [line for line in _summary().lines() if line.startswith("curl")]
    assert len(lines) == 4
    for line in lines:
        words = shlex.split(line)
        body = json.loads(words[words.index("-d") + 1])
        assert body
        assert words[words.index("-H") + 1].startswith("X-API-KEY: secret of ")
        assert words[2].startswith("http://127.0.0.1:8000/v1/")


def test_a_taken_port_is_refused_with_advice_before_anything_is_started(tmp_path: Path) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        result = CliRunner().invoke(command_line(), ["up", "--port", str(server.getsockname()[1])])
    assert isinstance(result.exception, Invalid)
    assert "choose one with --port" in result.exception.message
    assert not (tmp_path / "data" / "master.key").exists()


def test_an_address_of_another_machine_is_refused_by_the_name_of_its_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIOSK_HOST", "nonsense")
    result = CliRunner().invoke(command_line(), ["up"])
    assert isinstance(result.exception, Invalid)
    assert "'nonsense' is no address of this machine" in result.exception.message
    assert "KIOSK_HOST" in result.exception.message
    assert not (tmp_path / "data" / "master.key").exists()


def test_stopping_what_does_not_run_is_no_error() -> None:
    result = CliRunner().invoke(command_line(), ["down", "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["was_running"] is False


def test_the_status_of_what_does_not_run_is_3() -> None:
    result = CliRunner().invoke(command_line(), ["status", "--json"])
    assert result.exit_code == 3
    assert json.loads(result.stdout)["ready"] is False


def test_ingest_needs_a_running_installation() -> None:
    result = CliRunner().invoke(
        command_line(), ["ingest", "products.jsonl", "--noun", "product", "--app", "shop"]
    )
    assert isinstance(result.exception, Unavailable)
    assert "kiosk up" in result.exception.message


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["ingest", "products.jsonl", "--noun", "product", "--app", "shop"], 3),
        (["doctor", "everything"], 2),
        (["report", "search", "--since", "yesterday", "--json"], 2),
    ],
)
def test_the_exit_code_of_the_program_is_that_of_the_error(
    words: list[str], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["kiosk", *words])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == code
    assert "error:" in capsys.readouterr().err


def test_bench_outside_a_checkout_names_where_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deployments.cli.subprocess_commands.package_root", lambda: tmp_path)
    result = CliRunner().invoke(command_line(), ["bench"])
    assert result.exit_code == 2
    assert "in a checkout" in result.stderr


def test_an_error_is_one_sentence_for_people_and_an_object_for_programs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["kiosk", "ingest", "a.csv", "--noun=user", "--app=shop", "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 3
    captured = capsys.readouterr()
    assert json.loads(captured.out)["error"]["code"] == "unavailable"
    assert captured.err.strip() == "error: Kiosk does not run; start it with `kiosk up`"


def test_the_data_directory_gives_the_address_of_our_redis(tmp_path: Path) -> None:
    assert Settings().redis_url is None
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "redis.url").write_text("unix://:pw@/tmp/x.sock\n")
    settings = Settings()
    assert settings.redis_url is not None
    assert settings.redis_url.get_secret_value() == "unix://:pw@/tmp/x.sock"
    assert not settings.redis_is_external
    assert "pw" not in repr(settings)


def test_an_external_redis_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "redis.url").write_text("unix:///tmp/x.sock")
    monkeypatch.setenv("KIOSK_REDIS_URL", "redis://elsewhere:6379/1")
    settings = Settings()
    assert settings.redis_url is not None
    assert settings.redis_url.get_secret_value() == "redis://elsewhere:6379/1"
    assert settings.redis_is_external
