"""A writer of the log of answers is killed with signal 9 at random moments, while the intake compacts its rows."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from actors.intake.daily_log_compaction import DailyLogCompactor
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.meter import SilentMeter
from cluster.store.connect import OpenStores
from deployments.edge.batch_writer import WRITE_EVERY_S
from tests.suites.redis_process import RedisProcess
from tests.suites.served_log_process import APP

pytestmark = [pytest.mark.redis, pytest.mark.alone, pytest.mark.timeout(180)]
KILLS = 20
WRITING_S = 0.2
"What the write itself may take, with the rest of the machine at work."


@pytest.fixture
def nursery(private_server: RedisProcess, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.suites.served_log_process", private_server.url]
    process = subprocess.Popen(
        [*command, str(tmp_path / "journal")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.communicate()


def start_child(nursery: subprocess.Popen[str]) -> int:
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    nursery.stdin.write("\n")
    nursery.stdin.flush()
    return int(nursery.stdout.readline())


async def test_a_killed_replica_loses_half_a_second_of_answers_and_no_answer_is_twice(
    easy_stores: OpenStores, nursery: subprocess.Popen[str], tmp_path: Path
) -> None:
    rng, log = Random(26), ServedLogStore(ArtifactStore.open(tmp_path / "artifacts"))
    compactor = DailyLogCompactor(easy_stores.served, log, SystemClock(), SilentMeter())
    for _ in range(KILLS):
        child = start_child(nursery)
        try:
            await asyncio.sleep(rng.uniform(0.5, 0.9))
            await compactor.run_once([APP], at_once=True)
            await asyncio.sleep(rng.uniform(0.0, 0.5))
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
    await asyncio.sleep(0.2)
    streamed = await easy_stores.served.read_all(APP, "0")
    assert max(Counter(row.service_id for row in streamed).values(), default=1) == 1
    await compactor.run_once([APP], at_once=True)
    stored = Counter(log.read(APP, 0, columns=("service_id",))["service_id"].to_pylist())
    assert max(stored.values()) == 1
    answered: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for line in (tmp_path / "journal").read_text().splitlines():
        child_id, call_id, at_s = line.split()
        answered[child_id].append((call_id, float(at_s)))
    assert stored.keys() <= {call_id for calls in answered.values() for call_id, _ in calls}
    assert len(answered) == KILLS
    losses_s = [
        calls[-1][1] - min((at_s for call_id, at_s in calls if call_id not in stored), default=calls[-1][1])
        for calls in answered.values()
    ]
    total = sum(map(len, answered.values()))
    print(f"\n{KILLS} kills, {total:,} answers, {len(stored):,} stored, longest loss {max(losses_s):.3f} s")
    assert max(losses_s) <= WRITE_EVERY_S + WRITING_S
    assert max(losses_s) > WRITE_EVERY_S / 2, "no kill met a full half second: the test shows nothing"
