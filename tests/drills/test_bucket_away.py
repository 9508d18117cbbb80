"""A bucket that is away for a minute, slow by ten seconds, cut, wrong or failing: engines serve, and jobs wait.

`HOUSE_AWAY_S` shortens the outage. Runs without Ray: an engine, a training and a compaction in one process, with a real
Redis and a real S3 server behind a proxy.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from cluster.artifacts.storage.artifact_store import PATIENT, ArtifactStore, RetryPolicy
from cluster.artifacts.storage.node_cache import NodeCache
from cluster.store.connect import OpenStores
from cluster.store.writer_lock import lock_writer
from tests.fakes.fault_proxy import FaultProxy, Rule
from tests.suites.bucket_outage import Outage
from tests.suites.redis_process import RedisProcess
from tests.suites.s3_server import ENVIRONMENT, address, run_server

pytestmark = [pytest.mark.redis, pytest.mark.timeout(900)]

AWAY_S = float(os.environ.get("HOUSE_AWAY_S", "60"))


@pytest.fixture(params=["localbucket", "juicefs"])
def proxy(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FaultProxy]:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "server").mkdir()
    with run_server(request.param, tmp_path / "server") as port:
        proxy = FaultProxy(port)
        proxy.markers = request.param != "localbucket"
        yield proxy
        proxy.close()


def always(fault: str) -> Rule:
    return lambda method, path: fault


def sometimes(fault: str, share: float) -> Rule:
    rng = random.Random(18)
    return lambda method, path: fault if rng.random() < share else ""


@pytest.mark.parametrize(
    ("name", "rule", "fault_s"),
    [
        ("away", always("away"), AWAY_S),
        ("errors of the server", always("500"), AWAY_S / 2),
        ("slow by 10 s", sometimes("slow 10", 0.2), AWAY_S),
        ("cut in the middle", sometimes("cut", 0.4), AWAY_S / 4),
        ("wrong bytes", sometimes("wrong", 0.4), AWAY_S / 4),
        ("lost answers", sometimes("lost", 0.4), AWAY_S / 4),
    ],
)
async def test_an_engine_serves_while_the_bucket_fails(
    proxy: FaultProxy,
    private_server: RedisProcess,
    easy_stores: OpenStores,
    tmp_path: Path,
    name: str,
    rule: Rule,
    fault_s: float,
) -> None:
    def open_store(node: str) -> ArtifactStore:
        return ArtifactStore.open(
            address(proxy.port, "drill"),
            cache=NodeCache(tmp_path / node, 1 << 30),
            patience=PATIENT if node == "trainer" else RetryPolicy(),
            writer_lock=partial(lock_writer, private_server.url),
        )

    outage = Outage(easy_stores, open_store, tmp_path / "scratch")
    await outage.prepare(20_000, 1_000, 1_000)
    result = await outage.run(proxy.faulty(rule), fault_s)
    print(f"\n{name}, {fault_s:.0f} s: {result}")
    assert result.errors == 0
    assert result.versions == 2
    assert result.compacted_s < 60
