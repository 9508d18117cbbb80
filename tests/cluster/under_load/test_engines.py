"""Engines of a running installation: moved under load, killed, deleted, and back after a restart. About a minute."""

from __future__ import annotations

import os
import re
import subprocess
import time
import urllib.request

import pytest

from cluster.paths import InstallationPaths
from cluster.process.installation_state import load_state
from cluster.records.engine import application_name
from cluster.runtime.ray_environment import HARD_STOP_S
from tests.benchmarks.stack import KIOSK, ROOT, Stack
from tests.drills.engines import APP, asking, engine, replicas, say, seed
from tests.drills.journal import call, processes
from tests.drills.storm import storm
from tests.suites.waiting import wait_until

pytestmark = [pytest.mark.alone, pytest.mark.ray, pytest.mark.redis, pytest.mark.timeout(300)]
DEDICATED = application_name(APP)
ASK = "/v1/recommendation/user_to_products"


@pytest.fixture(scope="module", autouse=True)
def seeded(installation: Stack) -> None:
    seed(installation, 300, 600)


def test_an_engine_moves_out_and_back_under_load_and_nobody_notices(installation: Stack) -> None:
    assert engine(installation)["placement"] == "door"
    with storm(asking(installation), port=installation.port, rate=60, seconds=18) as running:
        time.sleep(1)
        begin = time.monotonic()
        moved = say(installation, "engines", "place", APP, "default", "own")
        out_s = time.monotonic() - begin
        assert (moved["placement"], moved["state"]) == ("own", "running")
        assert len(replicas(installation, DEDICATED)) == 1
        time.sleep(2)
        begin = time.monotonic()
        say(installation, "engines", "place", APP, "default", "door")
        back_s = time.monotonic() - begin
        assert _none(installation)
        fates = running.fates()
    print(f"\nout in {out_s:.1f} s, back in {back_s:.1f} s; {fates.statuses()}, p99 {fates.p(0.99):.1f} ms")
    assert fates.statuses().keys() == {200}
    assert back_s < HARD_STOP_S, "the engine waited for HAProxy, which sends it nothing"


def test_missing_parts_return_and_a_refused_engine_has_a_reason(installation: Stack) -> None:
    say(installation, "engines", "create", APP, "large", "--own")
    large = application_name(APP, "large")
    assert call(installation, "POST", ASK, {"user_id": "u1", "engine_id": "large"}).status == 200
    (keeper,) = processes(installation, "EngineOperator")
    keeper.kill()
    (replica,) = replicas(installation, large)
    replica.kill()
    assert call(installation, "POST", ASK, {"user_id": "u1", "engine_id": "large"}).status in (200, 503)
    until = time.monotonic() + 15
    while call(installation, "POST", ASK, {"user_id": "u1", "engine_id": "large"}).status != 200:
        assert time.monotonic() < until
        time.sleep(0.2)
    _numbers_are_exported(installation)
    for _ in range(10):
        assert call(installation, "POST", ASK, {"user_id": "u1", "engine_id": "large"}).status == 200
    # doors tell once a second how much engines are asked
    wait_until(lambda: engine(installation, "large")["requests_per_s"] > 0.1)
    busy = say(installation, "engines", "delete", APP, "large", check=False)
    assert "--force" in busy["error"]["message"]
    refused = say(installation, "engines", "delete", APP, "default", check=False)
    assert "can't be deleted" in refused["error"]["message"]


def test_after_a_restart_engines_are_where_they_were_and_deleted_ones_are_gone(installation: Stack) -> None:
    environment = {**os.environ, "KIOSK_DATA_DIR": str(installation.data_dir)}
    for words in (("down",), ("up", "--port", str(installation.port))):
        subprocess.run(
            [*KIOSK, *words], env=environment, cwd=ROOT, check=True, capture_output=True, timeout=120
        )
    assert call(installation, "POST", ASK, {"user_id": "u1", "engine_id": "large"}).status == 200
    assert engine(installation, "large")["state"] == "running"
    say(installation, "engines", "delete", APP, "large", "--force")
    assert _none(installation)
    until = time.monotonic() + 4
    while call(installation, "POST", ASK, {"user_id": "u1", "engine_id": "large"}).status != 404:
        assert time.monotonic() < until, "a deleted engine still answers"
        time.sleep(0.1)
    answer = call(installation, "POST", ASK, {"user_id": "u1", "engine_id": "large"})
    assert b"engine is not found" in answer.body


def _numbers_are_exported(stack: Stack) -> None:
    """Look at what Prometheus would see; processes hand over every five seconds, Ray a little later."""
    state = load_state(InstallationPaths.from_data_dir(stack.data_dir))
    assert state is not None
    metrics = ("ray_kiosk_requests_total{", "ray_kiosk_engine_replicas{", "ray_kiosk_request_ms_bucket{")
    until = time.monotonic() + 25
    while True:
        with urllib.request.urlopen(state.metrics_url, timeout=5) as reply:
            text = reply.read().decode()
        if all(name in text for name in metrics):
            return
        assert time.monotonic() < until, sorted(set(re.findall(r"^ray_kiosk_\w+", text, re.MULTILINE)))
        time.sleep(0.5)


def _none(stack: Stack) -> bool:
    """Is no replica of any engine left? A process may take a moment to end."""
    until = time.monotonic() + 60
    while replicas(stack, "recommender."):
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True
