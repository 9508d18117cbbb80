"""What `status`, `up`, `down` and others say after `kill -9` of the supervisor, and whom they end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster.errors import Fault, Unavailable
from cluster.paths import InstallationPaths
from cluster.process.free_ports import free_ports
from cluster.process.installation_processes import MARK, is_alive
from cluster.process.installation_state import InstallationState, save_state
from deployments.cli.__main__ import command_line
from deployments.cli.installation import up

pytestmark = pytest.mark.usefixtures("allow_world")
LISTEN = (
    "import socket, sys, time\n"
    "server = socket.socket(); server.bind(('127.0.0.1', int(sys.argv[1]))); server.listen()\n"
    "print(1, flush=True); time.sleep(60)"
)
WORDS = "the supervisor was killed; 2 processes of it still run; `kiosk up` sets it right"


@dataclass
class Killed:
    """An installation whose supervisor is gone: two processes of its own, one of them on its port, and a stranger that
    has the supervisor's number now."""

    places: InstallationPaths
    port: int
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, port: int, mark: str = "") -> subprocess.Popen[bytes]:
        child = subprocess.Popen(
            [sys.executable, "-c", LISTEN, str(port)],
            env={**os.environ, **({MARK: mark} if mark else {})},
            stdout=subprocess.PIPE,
        )
        self.started.append(child)
        assert child.stdout is not None
        assert child.stdout.readline() == b"1\n"
        return child

    @property
    def alive(self) -> list[bool]:
        return [is_alive(child.pid) for child in self.started]


@pytest.fixture
def killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Killed]:
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("KIOSK_REDIS_URL", raising=False)
    places = InstallationPaths.from_data_dir(tmp_path / "data")
    places.make()
    port, other, third = free_ports(3)
    killed = Killed(places, port)
    killed.start(port, places.mark)
    killed.start(other, places.mark)
    stranger = killed.start(third)
    state = {
        "phase": "ready", "message": "ready", "pid": stranger.pid, "version": "1", "host": "127.0.0.1", "port": port,
        "data_dir": str(places.data_dir), "run_dir": str(places.run_dir), "logs_dir": str(places.logs_dir),
        "started_at": 1,
    }  # fmt: skip
    save_state(places, InstallationState.model_validate(state))
    yield killed
    for child in killed.started:
        with child:
            child.kill()
    CliRunner().invoke(command_line(), ["down"])


def test_status_and_doctor_agree(killed: Killed) -> None:
    seen = CliRunner().invoke(command_line(), ["status", "--json"])
    assert seen.exit_code == 1
    assert json.loads(seen.stdout) == {
        "ready": False, "phase": "killed", "processes": 2, "data_dir": str(killed.places.data_dir),
    }  # fmt: skip
    assert WORDS in seen.stderr
    report = json.loads(CliRunner().invoke(command_line(), ["doctor", "--json"]).stdout)
    finding = next(finding for finding in report["findings"] if finding["check"] == "processes")
    assert finding["words"] == "the supervisor was killed; 2 processes of it still run"


@pytest.mark.parametrize("line", ["ingest x.jsonl --noun product --app a", "apps list", "train"])
def test_no_command_starts_a_second_redis_beside_the_first(killed: Killed, line: str) -> None:
    (killed.places.redis_dir / "appendonly.aof").write_text("")
    result = CliRunner().invoke(command_line(), line.split())
    assert isinstance(result.exception, Unavailable)
    assert result.exception.message == WORDS
    assert killed.alive == [True, True, True]


def test_up_ends_what_was_left_and_nobody_else_and_then_starts(
    killed: Killed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(installation: object) -> InstallationState:
        raise Fault("this is where the start begins")

    monkeypatch.setattr(up, "_start_in_background", begin)
    result = CliRunner().invoke(command_line(), ["up", "--port", str(killed.port)])
    assert isinstance(result.exception, Fault)
    assert result.exception.message == "this is where the start begins"
    assert "The supervisor was killed; 2 processes that it left behind were ended." in result.stderr
    assert killed.alive == [False, False, True]


def test_down_lists_the_ended_processes(killed: Killed) -> None:
    result = CliRunner().invoke(command_line(), ["down"])
    assert result.exit_code == 0
    assert "2 processes of it were ended" in result.stdout
    assert killed.alive == [False, False, True]
    again = json.loads(CliRunner().invoke(command_line(), ["down", "--json"]).stdout)
    assert (again["was_running"], again["ended"]) == (False, 0)
