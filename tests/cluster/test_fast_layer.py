"""The fast layer stands outside Serve's accounting, so what that did is proved here: shedding, scaling, draining.

One whole installation through HAProxy; takes about two minutes.
"""

from __future__ import annotations

import asyncio
import os
import re
import select
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from cluster.runtime.front import LAST
from cluster.runtime.places import Places
from cluster.runtime.sockets import free_ports
from cluster.runtime.state import load_state
from tests.benchmarks.load import drive, http_request
from tests.benchmarks.stack import ROOT, Stack, kiosk
from tests.suites.waiting import wait_until

pytestmark = [pytest.mark.ray, pytest.mark.redis, pytest.mark.timeout(300)]

REDEPLOY = """
import ray
from ray import serve
from deployments.front.app import build

ray.init(address="{address}", namespace="kiosk", log_to_driver=False, configure_logging=False)
serve.run(build({{"memory_budget_mb": 300}}), name="api", route_prefix="/")
"""


@pytest.fixture(scope="module")
def installation() -> Iterator[Stack]:
    with kiosk(free_ports(1)[0]) as running:
        yield running


def replica_ports(stack: Stack) -> list[int]:
    """Ports of the replicas HAProxy sends requests to."""
    config = (Places.of(stack.data_dir).front_dir / LAST).read_text()
    servers = re.findall(r"^\s+server \S+ 127\.0\.0\.1:(\d+) (.*)$", config, re.MULTILINE)
    return [int(port) for port, rest in servers if "backup" not in rest]


def read(stack: Stack) -> bytes:
    return http_request("GET", "/v1/users/nobody", headers=stack.headers, port=stack.port)


def test_a_replica_sheds_what_is_over_its_bound_and_serves_the_rest(installation: Stack) -> None:
    port = replica_ports(installation)[0]
    head = f"POST /v1/interactions HTTP/1.1\r\nHost: x\r\nX-API-KEY: {installation.secret_key}\r\n"
    waiting = (head + "Content-Length: 12\r\n\r\n").encode()
    held = []
    try:
        for _ in range(280):
            connection = socket.create_connection(("127.0.0.1", port), timeout=5)
            connection.sendall(waiting)
            held.append(connection)
        wait_until(lambda: len(select.select(held, [], [], 0)[0]) >= 280 - 256)
        time.sleep(0.5)  # one too many would come now
        told = select.select(held, [], [], 0)[0]
        answers = [connection.recv(4096) if connection in told else b"" for connection in held]
        refused = [answer for answer in answers if answer]
        assert len(refused) == 280 - 256
        assert all(answer.startswith(b"HTTP/1.1 503") and b"retry-after: 1" in answer for answer in refused)
        for connection, answer in zip(held, answers, strict=True):
            if not answer:
                connection.sendall(b'{"data": []}')
                assert connection.recv(4096).startswith(b"HTTP/1.1 200")
    finally:
        for connection in held:
            connection.close()
    assert drive(
        [read(installation)], port=installation.port, connections=4, seconds=0.5
    ).statuses.keys() == {"404"}


def test_load_on_hot_endpoints_brings_a_second_replica(installation: Stack) -> None:
    assert len(replica_ports(installation)) == 1
    begin = time.monotonic()
    while len(replica_ports(installation)) < 2:
        assert time.monotonic() - begin < 90, "the autoscaler never heard of the load"
        figures = drive([read(installation)], port=installation.port, connections=32, seconds=5.0)
        assert figures.statuses.keys() == {"404"}
    print(f"\nsecond replica after {time.monotonic() - begin:.0f} s of load")


def test_a_rolling_redeployment_loses_no_request(installation: Stack) -> None:
    before = replica_ports(installation)
    state = load_state(Places.of(installation.data_dir))
    assert state is not None
    redeploying = subprocess.Popen(
        [sys.executable, "-c", REDEPLOY.format(address=state.ray_address)],
        cwd=ROOT,
        env={**_environment_of_a_replica(installation), "PYTHONPATH": str(ROOT)},
    )
    seen: Counter[str] = Counter()
    begin = time.monotonic()

    def over() -> bool:
        assert time.monotonic() - begin < 120, (before, replica_ports(installation))
        return redeploying.poll() is not None and not set(replica_ports(installation)) & set(before)

    asyncio.run(_ask_until(over, installation, seen))
    assert redeploying.returncode == 0
    print(
        f"\n{sum(seen.values())} requests in {time.monotonic() - begin:.0f} s of redeployment: {dict(seen)}"
    )
    assert seen.keys() == {"404"}


async def _ask_until(over: Callable[[], bool], stack: Stack, seen: Counter[str]) -> None:
    """Ask over eight connections that are kept as long as the server keeps them."""
    done = asyncio.Event()

    async def ask(client: httpx.AsyncClient) -> None:
        while not done.is_set():
            try:
                seen[str((await client.get("/v1/users/nobody")).status_code)] += 1
            except httpx.HTTPError as error:
                seen[type(error).__name__] += 1
            await asyncio.sleep(0.02)

    async def watch() -> None:
        while not over():  # noqa: ASYNC110 - what it waits for is a file of another process
            await asyncio.sleep(0.5)
        await asyncio.sleep(5)
        done.set()

    base = f"http://127.0.0.1:{stack.port}"
    async with httpx.AsyncClient(base_url=base, headers=stack.headers, timeout=30) as client:
        await asyncio.gather(watch(), *(ask(client) for _ in range(8)))


def _environment_of_a_replica(stack: Stack) -> dict[str, str]:
    """What a process of this installation sees, so that one of ours may join its Ray."""
    for process in stack.processes():
        try:
            found = process.environ()
        except psutil.Error:
            continue
        if "RAY_AUTH_TOKEN_PATH" in found and Path(found["RAY_AUTH_TOKEN_PATH"]).exists():
            wanted = {
                name: value
                for name, value in found.items()
                if name.startswith(("RAY_AUTH", "KIOSK_", "RAY_ENABLE", "RAY_SERVE"))
            }
            return {**{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}, **wanted}
    raise AssertionError("no process of the installation knows the token")
