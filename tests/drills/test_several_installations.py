"""Several installations on one machine, started at once; the end of one is not felt by the others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from cluster.paths import InstallationPaths
from cluster.process.free_ports import free_ports
from cluster.process.installation_processes import list_processes
from tests.benchmarks.stack import Stack
from tests.drills.journal import Load, call, percentile

pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.timeout(1_200)]
ROOT = Path(__file__).resolve().parents[2]
COUNT = 3
RATE = 8.0
"Requests a second to each that stays."
STATE_S = 15.0


@dataclass
class Site:
    """One installation with a data directory of its own."""

    data_dir: Path
    port: int

    def kiosk(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Type a command."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("KIOSK_", "RAY_"))}
        return subprocess.run(
            [sys.executable, "-m", "deployments.cli", *words],
            env={**clean, "KIOSK_DATA_DIR": str(self.data_dir), "PYTHONPATH": str(ROOT)},
            cwd="/", capture_output=True, text=True, timeout=900, check=False,
        )  # fmt: skip

    def up(self) -> Stack:
        """Start it, and return it with a key."""
        began_s = time.monotonic()
        started = self.kiosk("up", "--json", "--port", str(self.port))
        assert started.returncode == 0, started.stderr
        summary = json.loads(started.stdout)
        assert summary["ready"] is True
        app = next(app for app in summary["apps"] if app["environment"] == "development")
        return Stack(self.port, self.data_dir, app["secret_key"], time.monotonic() - began_s, app["app_id"])

    @property
    def pids(self) -> set[int]:
        """Return the processes of this installation."""
        return {process.pid for process in list_processes(InstallationPaths.from_data_dir(self.data_dir))}


@pytest.fixture
def sites(tmp_path: Path) -> Iterator[list[Site]]:
    sites = [Site(tmp_path / f"site{at}", port) for at, port in enumerate(free_ports(COUNT))]
    yield sites
    for site in sites:
        site.kiosk("down")


def test_installations_started_at_once_keep_apart_and_the_end_of_one_leaves_the_others(
    sites: list[Site],
) -> None:
    with ThreadPoolExecutor(COUNT) as pool:
        stacks = list(pool.map(Site.up, sites))
    print(f"\n{COUNT} installations ready after {[round(stack.start_s) for stack in stacks]} s")
    for at, stack in enumerate(stacks):
        assert call(stack, "POST", "/v1/users", {"data": [{"user_id": f"only-{at}"}]}).status == 200
    for at, stack in enumerate(stacks):
        deadline_s = time.monotonic() + 30
        while call(stack, "GET", f"/v1/users/only-{at}").status != 200:
            assert time.monotonic() < deadline_s
            time.sleep(0.2)
        assert call(stack, "GET", f"/v1/users/only-{(at + 1) % COUNT}").status == 404
        other = stacks[(at + 1) % COUNT]
        assert call(replace(other, secret_key=stack.secret_key), "GET", "/v1/users/x").status == 401
    staying = sites[1:]
    before = [site.pids for site in staying]
    loads = [Load(stack, "GET", "/v1/users/only-1", [None] * 10_000, RATE) for stack in stacks[1:]]
    writes = [
        Load(stack, "POST", "/v1/users", [{"data": [{"user_id": f"u{at}"}]} for at in range(10_000)], 2.0)
        for stack in stacks[1:]
    ]
    for load in (*loads, *writes):
        load.start()
    time.sleep(STATE_S)
    assert sites[0].kiosk("down").returncode == 0
    assert sites[0].pids == set()
    time.sleep(STATE_S)
    for load in (*loads, *writes):
        load.finish()
    for stack, load, write in zip(stacks[1:], loads, writes, strict=True):
        seen = {answer.status for answer in load.answers}
        print(
            f"port {stack.port}: {len(load.answers)} reads {seen}, p99 {percentile(load.answers, 0.99):.0f} ms; "
            f"{len(write.acknowledged)} of {len(write.answers)} writes acknowledged"
        )
        assert seen <= {200, 404}
        assert len(write.acknowledged) == len(write.answers) > 10
    for site, pids in zip(staying, before, strict=True):
        assert pids <= site.pids, "none of its processes ended"
