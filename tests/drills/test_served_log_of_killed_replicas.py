"""API replicas are killed with signal 9 under load: each loses at most the last half second of the log of answers."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import psutil
import pytest

from deployments.edge.batch_writer import WRITE_EVERY_S
from tests.benchmarks.stack import Stack
from tests.drills.engines import APP, installed, replicas, say, seed
from tests.drills.journal import Load

pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.timeout(900)]
KILLS, CLIENTS, RATE = 4, 4, 30.0
MOST_REQUESTS = 20_000
"Of one client."
LOADED_S = 6.0
"Seconds of load before each kill."
WRITING_S = 0.3
"What a write takes beside the answers of the replica: rows that arrive meanwhile wait for the next one."
DEADLINE_S = 180.0


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """An installation with two API replicas."""
    with installed(KIOSK_REPLICAS_MIN="2", KIOSK_REPLICAS_MAX="2") as running:
        seed(running)
        wait_for_replicas(running)
        yield running


def wait_for_replicas(stack: Stack) -> list[psutil.Process]:
    """Return the two API replicas of an installation when both run."""
    until = time.monotonic() + DEADLINE_S
    while len(processes := replicas(stack)) != 2:
        assert time.monotonic() < until, "a replica did not come back"
        time.sleep(0.2)
    return processes


def list_answers(clients: list[Load]) -> dict[str, float]:
    """Return the ids of the acknowledged answers with the time of each."""
    return {
        str(json.loads(answer.body)["data"]["service_id"]): answer.at + answer.took_s
        for client in clients
        for answer in client.answers
        if answer.status == 200
    }


def export_log(stack: Stack, path: Path, newest: set[str]) -> Counter[str]:
    """Return how often the log has each id, as soon as it has the newest ones."""
    until = time.monotonic() + DEADLINE_S
    while True:
        say(stack, "export", APP, "served", "--out", str(path))
        rows = Counter(pl.read_parquet(path)["service_id"].to_list())
        if newest <= rows.keys():
            return rows
        assert time.monotonic() < until, "the newest answers did not reach the log"
        time.sleep(2)


def test_a_killed_replica_loses_half_a_second_of_answers_and_none_is_twice(
    stack: Stack, tmp_path: Path
) -> None:
    bodies: list[object] = [{"user_id": f"u{number % 200}", "rows": 10} for number in range(MOST_REQUESTS)]
    path = "/v1/recommendation/user_to_products"
    clients = [Load(stack, "POST", path, bodies, RATE) for _ in range(CLIENTS)]
    for client in clients:
        client.start()
    kills: list[float] = []
    for _ in range(KILLS):
        processes = wait_for_replicas(stack)
        time.sleep(LOADED_S)
        kills.append(time.monotonic())
        processes[0].kill()
        time.sleep(1)
    wait_for_replicas(stack)
    time.sleep(LOADED_S)
    for client in clients:
        client.finish()
    answered = list_answers(clients)
    calm_s = kills[-1] + 1
    rows = export_log(
        stack, tmp_path / "served.parquet", {name for name, at in answered.items() if at > calm_s}
    )
    assert max(rows.values()) == 1
    lost = [at_s for name, at_s in answered.items() if name not in rows]
    before_s = [min(kill - at_s for kill in kills if kill > at_s - WRITING_S) for at_s in lost]
    print(
        f"\n{KILLS} kills, {len(answered):,} answers, {len(lost):,} not in the log, the oldest "
        f"{max(before_s, default=0.0):.3f} s before the kill"
    )
    assert len(answered) > KILLS * LOADED_S * RATE
    assert max(before_s, default=0.0) <= WRITE_EVERY_S + WRITING_S
