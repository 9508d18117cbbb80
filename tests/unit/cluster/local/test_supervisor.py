"""The supervisor with a real Redis and stand-ins for Ray: starts in order, brings back, leaves nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from cluster.paths import InstallationPaths
from cluster.process.free_ports import free_ports
from cluster.process.installation_processes import is_alive, list_processes
from cluster.process.installation_state import InstallationState, find_lock_holder, load_state
from cluster.process.probe import is_healthy
from tests.suites.waiting import wait_until

pytestmark = [pytest.mark.redis, pytest.mark.usefixtures("allow_world")]
ROOT = Path(__file__).resolve().parents[4]
RUN = """
import json, os, sys
from pathlib import Path
from cluster.log import set_up_logging
from cluster.local import haproxy_process
from cluster.local.supervisor import Supervisor, SupervisorConfig
from cluster.settings import Settings
set_up_logging()
haproxy_process.RETRY_S, haproxy_process.MOST_LOAD = 0.5, float("inf")
head = (sys.executable, "-m", "tests.fakes.bootstrap")
sys.exit(Supervisor(SupervisorConfig(Settings(), "test", Path(sys.argv[1]), json.loads(sys.argv[2]), head)).run())
"""


@dataclass
class _House:
    places: InstallationPaths
    port: int
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, *, host: str = "127.0.0.1", **arguments: Any) -> subprocess.Popen[bytes]:
        plan = {"api_arguments": arguments} | ({} if "late_fronts" in arguments else {"haproxy": False})
        environment = {
            **os.environ,
            "KIOSK_DATA_DIR": str(self.places.data_dir),
            "KIOSK_PORT": str(self.port),
            "KIOSK_HOST": host,
            "FAKE_RUN_DIR": str(self.places.run_dir),
            "PYTHONPATH": str(ROOT),
        }
        log = self.places.data_dir.with_suffix(".log").open("ab")
        command = [sys.executable, "-c", RUN, str(ROOT), json.dumps(plan)]
        with log:
            child = subprocess.Popen(command, env=environment, cwd=ROOT, stdout=log, stderr=log)
        self.started.append(child)
        return child

    def wait_for(self, *phases: str, within_s: float = 20.0, **expected: Any) -> InstallationState:
        until = time.monotonic() + within_s
        while time.monotonic() < until:
            state = load_state(self.places)
            if (
                state
                and state.phase in phases
                and all(getattr(state, name) == is_ for name, is_ in expected.items())
            ):
                return state
            time.sleep(0.02)
        pytest.fail(f"did not become {phases} {expected}: {load_state(self.places)}")

    def redis(self) -> psutil.Process:
        state = load_state(self.places)
        assert state is not None
        return psutil.Process(state.pids["redis"])


@contextmanager
def _open_house(data_dir: Path) -> Iterator[_House]:
    house = _House(InstallationPaths.from_data_dir(data_dir), free_ports(1)[0])
    try:
        yield house
    finally:
        for child in house.started:
            child.kill()
            child.wait()
        for process in list_processes(house.places):
            process.kill()
        shutil.rmtree(house.places.run_dir, ignore_errors=True)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[_House]:
    with _open_house(tmp_path / "data") as house:
        yield house


@pytest.fixture(scope="module")
def ready_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[_House]:
    """One that is ready, for tests after which it still is."""
    with _open_house(tmp_path_factory.mktemp("ready") / "data") as house:
        house.start()
        house.wait_for("ready")
        yield house


def _nothing_is_left(house: _House) -> None:
    assert list_processes(house.places) == []
    assert not house.places.run_dir.exists()
    assert not house.places.redis_url.exists()
    assert find_lock_holder(house.places) == 0


def test_a_start_becomes_ready_and_a_signal_ends_it_without_a_trace(house: _House) -> None:
    child = house.start()
    state = house.wait_for("ready")
    assert state.first_start
    assert state.redis.split()[0] in ("found", "bundled")
    assert is_healthy("127.0.0.1", house.port).is_good
    assert find_lock_holder(house.places) == child.pid == state.pid
    assert len(list_processes(house.places)) >= 4
    child.send_signal(signal.SIGTERM)
    assert child.wait(20) == 0
    _nothing_is_left(house)
    assert not house.places.state.exists()
    assert not is_healthy("127.0.0.1", house.port).is_good


def test_a_second_supervisor_steps_back(ready_house: _House) -> None:
    assert ready_house.start().wait(20) == 2
    assert ready_house.started[0].poll() is None
    assert is_healthy("127.0.0.1", ready_house.port).is_good


def test_a_failed_start_leaves_only_its_reason(house: _House) -> None:
    child = house.start(fail="the moon is in the way")
    assert child.wait(20) == 1
    state = load_state(house.places)
    assert state is not None
    assert (state.phase, state.message) == ("failed", "the moon is in the way")
    _nothing_is_left(house)


def test_a_killed_redis_is_back_within_a_second(house: _House) -> None:
    house.start()
    house.wait_for("ready")
    old = house.redis()
    old.kill()
    killed = time.monotonic()
    house.wait_for("ready", restarts={"redis": 1})
    new = house.redis()
    assert new.pid != old.pid
    assert time.monotonic() - killed < 2
    assert is_healthy("127.0.0.1", house.port).is_good


def test_a_redis_that_can_not_be_started_is_tried_again(house: _House) -> None:
    house.start()
    house.wait_for("ready")
    # As on a full disk, its files can't be written.
    obstacle = house.places.redis_dir / "redis.conf"
    obstacle.unlink()
    (obstacle / "more").mkdir(parents=True)
    house.redis().kill()
    wait_until(lambda: "Redis does not start again" in house.wait_for("ready").message)
    shutil.rmtree(obstacle)
    house.wait_for("ready", restarts={"redis": 1})
    wait_until(lambda: is_healthy("127.0.0.1", house.port).is_good)


def test_a_stopped_redis_is_left_alone(ready_house: _House) -> None:
    redis = ready_house.redis()
    redis.suspend()
    time.sleep(2.5)
    redis.resume()
    state = ready_house.wait_for("ready")
    assert state.restarts == {}
    assert ready_house.redis() == redis


@pytest.mark.parametrize("name", ["gcs_server", "raylet"])
def test_when_a_vital_process_dies_all_of_ray_is_started_again(house: _House, name: str) -> None:
    house.start()
    before = house.wait_for("ready")
    psutil.Process(before.pids[name]).kill()
    after = house.wait_for("ready", restarts={"ray": 1})
    assert after.pids["gcs_server"] != before.pids["gcs_server"]
    assert after.pids["raylet"] != before.pids["raylet"]
    assert not is_alive(before.pids["gcs_server"])
    assert not is_alive(before.pids["raylet"])
    assert after.pids["redis"] == before.pids["redis"]
    assert after.ready_after_s == before.ready_after_s


def test_a_start_after_everything_was_killed_clears_up_first(house: _House) -> None:
    child = house.start()
    before = house.wait_for("ready")
    child.kill()
    child.wait()
    assert is_alive(before.pids["redis"])
    house.start()
    after = house.wait_for("ready", pid=house.started[-1].pid)
    assert not is_alive(before.pids["redis"])
    assert not is_alive(before.pids["raylet"])
    assert is_alive(after.pids["redis"])


def test_a_stop_during_the_start_ends_everything_too(house: _House) -> None:
    child = house.start(hang=True)
    house.wait_for("starting", first_start=True)
    child.send_signal(signal.SIGTERM)
    assert child.wait(20) == 0
    _nothing_is_left(house)


def test_the_state_holds_no_secret(ready_house: _House) -> None:
    places = ready_house.places
    state = places.state.read_text()
    for path in (places.redis_url, places.ray_token, places.master_key):
        assert path.read_text().strip() not in state


def test_a_front_that_is_late_is_tried_again_and_changed_over_to(house: _House) -> None:
    """Finding 19: one slow start is not the end of HAProxy."""
    house.start(late_fronts=1)
    state = house.wait_for("ready")
    assert state.proxy.startswith("slow Python proxy, because HAProxy did not start in time")
    state = house.wait_for("ready", proxy="haproxy")
    assert state.restarts["front"] == 1


@pytest.mark.parametrize("late_fronts", [1, 2], ids=["at once", "after a change over that failed"])
def test_no_connection_is_refused_while_the_installation_changes_over_to_haproxy(
    house: _House, late_fronts: int
) -> None:
    house.start(late_fronts=late_fronts, rest_s=2.0)
    state = house.wait_for("ready", within_s=60.0)
    assert state.proxy.startswith("slow Python proxy")
    outcomes = dict.fromkeys(("200", "503", "lost"), 0)
    refused, until = 0, time.monotonic() + 120
    while (state.proxy, state.phase, state.restarts.get("front")) != ("haproxy", "ready", late_fronts):
        assert time.monotonic() < until
        state = load_state(house.places) or state
        try:
            with socket.create_connection(("127.0.0.1", house.port), timeout=5) as line:
                line.sendall(b"GET /-/healthz HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
                reply = line.recv(64)
        except ConnectionRefusedError:
            refused += 1
            continue
        except OSError:
            reply = b""
        outcomes[reply[9:12].decode() or "lost"] += 1
        time.sleep(0.005)
    assert refused == 0, outcomes
    assert outcomes["503"] > 0, outcomes
    assert outcomes["lost"] <= 2 * late_fronts, "connections that Ray had when it ended"


def test_the_slow_proxy_does_not_listen_where_others_reach_it(house: _House) -> None:
    child = house.start(host="0.0.0.0", late_fronts=9)
    assert child.wait(30) == 1
    state = load_state(house.places)
    assert state is not None
    assert state.phase == "failed"
    assert "does not listen on 0.0.0.0" in state.message
    assert "--host 127.0.0.1" in state.message


def test_a_late_front_that_others_reach_is_tried_again_before_that(house: _House) -> None:
    house.start(host="0.0.0.0", late_fronts=2)
    assert house.wait_for("ready").proxy == "haproxy"
