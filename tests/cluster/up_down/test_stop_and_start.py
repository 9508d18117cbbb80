"""The end of an installation: killed and repaired, stopped and started again. Its last test leaves it stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import time
from typing import Any

import httpx
import psutil
import pytest

from cluster.process.installation_processes import list_processes
from tests.cluster.installed import Installed
from tests.suites.busy_machine import QuietStopwatch
from tests.suites.canary import MAIL, USER, traces_in_files

pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.timeout(240)]
MOST_START_S = 60.0
APP = "development"


def test_status_reports_a_killed_supervisor_and_the_next_start_repairs_it(
    installed: Installed, up: dict[str, Any]
) -> None:
    before = json.loads(installed.places.state.read_text())
    os.kill(before["pid"], signal.SIGKILL)
    seen = installed.kiosk("status", check=False)
    assert seen.returncode == 1
    assert "the supervisor was killed; " in seen.stderr
    assert "`kiosk up` sets it right" in seen.stderr
    refused = installed.kiosk("apps", "list", check=False)
    assert refused.returncode == 3
    assert "the supervisor was killed" in refused.stderr
    started = installed.kiosk("up", "--port", str(installed.port))
    assert "processes that it left behind were ended" in started.stderr
    assert re.search(r"^ +\d+\.\d s  starting Ray$", started.stderr, re.MULTILINE)
    assert re.search(r"^ +\d+\.\d s  starting the API replicas", started.stderr, re.MULTILINE)
    assert "ksk_" not in started.stdout
    assert not psutil.pid_exists(before["pids"]["redis"])
    assert installed.run_json("status")["ready"] is True
    key = next(app["secret_key"] for app in up["apps"] if app["environment"] == "development")
    assert installed.ask_user(key) == 404


def test_a_command_on_the_stopped_installation_forgets_as_well(
    installed: Installed, up: dict[str, Any], shared_before: set[str]
) -> None:
    key = next(app["secret_key"] for app in up["apps"] if app["app_id"] == APP)
    person = {"user_id": USER, "custom_attributes": {"mail": MAIL}}
    reply = httpx.post(f"{up['api_url']}/v1/users", json={"data": [person]}, headers={"X-API-KEY": key})
    assert reply.status_code == 200, reply.text
    _stop(installed, shared_before)
    assert "Nothing is left." in installed.kiosk("forget", APP, "--user", USER).stdout
    assert traces_in_files(installed.places.data_dir) == []


def test_a_start_finds_the_data_again_and_a_stop_leaves_nothing_else(
    installed: Installed, up: dict[str, Any], shared_before: set[str]
) -> None:
    if installed.places.state.exists():  # without the test above
        _stop(installed, shared_before)
    stopwatch = QuietStopwatch()
    again = installed.run_json("up", "--port", str(installed.port))
    took_s = stopwatch.elapsed_s(list_processes(installed.places))
    print(f"start with data: {took_s:.1f} s without the work of others")
    assert took_s < MOST_START_S
    keys = {app["app_id"]: app["secret_key"] for app in again["apps"]}
    assert all(keys[app["app_id"]] == app["secret_key"] for app in up["apps"])
    assert "password" not in again["administrator"]
    _stop(installed, shared_before)


def _stop(installed: Installed, shared_before: set[str]) -> None:
    """Stop the installation: only its data stays."""
    begin = time.monotonic()
    assert installed.run_json("down")["was_running"] is True
    print(f"\nstop: {time.monotonic() - begin:.1f} s")
    assert installed.leftovers() == []
    assert set(os.listdir("/dev/shm")) - shared_before == set()
    assert not installed.places.state.exists()
    with pytest.raises(OSError, match="refused"), socket.create_connection(("127.0.0.1", installed.port)):
        pass
    assert installed.kiosk("status", check=False).returncode == 3
