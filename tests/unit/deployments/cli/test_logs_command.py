"""`kiosk logs`: lines of all processes in one order, by request, level and time, without secrets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster.local.log_files import MOST_BYTES, read_log_files
from cluster.paths import InstallationPaths
from deployments.cli.command_line import command_line

KEY = "ksk_prd_0123456789abcdefghij"


def event(at: str, level: str, name: str, **fields: str) -> str:
    return json.dumps({"event": name, "level": level, "timestamp": at, "process": "api", "pid": 7, **fields})


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> InstallationPaths:
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path / "data"))
    paths = InstallationPaths.from_data_dir(tmp_path / "data")
    paths.make()
    paths.ray_logs_dir.mkdir(parents=True)
    (paths.ray_logs_dir / "worker-1.err").write_text(
        event(
            "2026-11-23T10:00:02Z",
            "error",
            "console_failed",
            request_id="3e75f0791d05",
            exception="Trace\n x",
        )
        + f"\nTraceback {KEY}\n"
        + event("2026-11-23T10:00:04Z", "info", "late")
    )
    (paths.logs_dir / "supervisor.log").write_text(
        event("2026-11-23T10:00:03Z", "warning", "redis_slow") + "\n"
    )
    return paths


def run(*words: str) -> str:
    shown = CliRunner().invoke(command_line("logs"), ["logs", *words])
    assert shown.exit_code == 0, shown.output
    return shown.stdout


def test_lines_of_all_processes_come_in_one_order_and_without_secrets(places: InstallationPaths) -> None:
    shown = run().splitlines()
    words = ("console_failed", "Trace", " x", "Traceback", "redis_slow", "late")
    assert [next(word for word in words if word in line) for line in shown] == [
        "console_failed", "Trace", " x", "Trace", "redis_slow", "late",
    ]  # fmt: skip
    assert shown[0].startswith("2026-11-23T10:00:02  error    api/7  console_failed  request_id=3e75f0791d05")
    assert KEY not in "".join(shown)


def test_a_request_a_level_and_a_number_select_lines(places: InstallationPaths) -> None:
    assert "console_failed" in run("3e75f0791d05")
    assert "redis_slow" not in run("3e75f0791d05")
    assert [line.split()[3] for line in run("--level", "warning").splitlines() if line.startswith("2026")] == [
        "console_failed", "redis_slow",
    ]  # fmt: skip
    assert run("--lines", "1").split()[3] == "late"
    assert json.loads(run("late", "--json"))["file"] == "worker-1.err"
    assert run("--since", "1h") == ""


def test_a_line_can_not_steer_the_terminal(places: InstallationPaths) -> None:
    hostile = event(
        "2026-11-23T10:00:05Z", "error", "request\x1b[2J", path="/\x1b]0;x\x07", exception="a\x1b[31m\nb"
    )
    (places.logs_dir / "supervisor.log").write_text(f"{hostile}\nplain \x1b[2J\n")
    shown = run("--lines", "4")
    assert "request [2J" in shown
    assert all(char.isprintable() or char == "\n" for char in shown)


def test_the_folder_of_the_logs_leads_to_the_logs_of_all_processes(places: InstallationPaths) -> None:
    assert (places.logs_dir / "processes" / "worker-1.err").is_file()
    places.make()
    assert (places.logs_dir / "processes").readlink() == places.ray_logs_dir


def test_only_the_end_of_a_large_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "worker-2.err"
    line = event("2026-11-23T10:00:00Z", "info", "first")
    with path.open("w") as file:
        file.write(line + "\n")
        file.write((event("2026-11-23T10:00:01Z", "info", "x" * 1000) + "\n") * (MOST_BYTES // 1000))
    assert read_log_files([path], text="first") == []
    assert len(read_log_files([path, tmp_path / "gone.err"], most=3)) == 3
