"""The fast layer stands outside Serve's accounting, so what that did is proved here: shedding, scaling, draining.

The installation of the folder, through HAProxy.
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
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import psutil
import pytest

from cluster.local.haproxy_handover import LAST, find_admin_socket
from cluster.paths import InstallationPaths
from cluster.process.installation_state import load_state
from cluster.runtime.ray_environment import HARD_STOP_S
from tests.benchmarks.load import drive, http_request
from tests.benchmarks.stack import ROOT, Stack
from tests.suites.busy_machine import busy_machine

pytestmark = [pytest.mark.alone, pytest.mark.ray, pytest.mark.redis, pytest.mark.timeout(300)]

BURNERS = 6
"Processes that compute beside the installation: a load of three on each of two cores."
REDEPLOY = """
import ray
from ray import serve
from deployments.front.app import build

ray.init(address="{address}", namespace="kiosk", log_to_driver=False, configure_logging=False)
serve.run(build({{"memory_budget_mb": 300}}), name="api", route_prefix="/")
"""


def replica_ports(stack: Stack) -> list[int]:
    """Ports of the replicas HAProxy sends requests to."""
    config = (InstallationPaths.from_data_dir(stack.data_dir).haproxy_dir / LAST).read_text()
    servers = re.findall(r"^\s+server \S+ 127\.0\.0\.1:(\d+) (.*)$", config, re.MULTILINE)
    # the backend for writes has the same replicas, which track those of the other one
    return [int(port) for port, rest in servers if "backup" not in rest and "track" not in rest]


def read(stack: Stack) -> bytes:
    return http_request("GET", "/v1/users/nobody", headers=stack.headers, port=stack.port)


def test_requests_that_are_not_whole_take_no_place_in_a_replica(installation: Stack) -> None:
    port = replica_ports(installation)[0]
    head = f"Host: x\r\nX-API-KEY: {installation.secret_key}\r\nContent-Length: 12\r\n\r\n"
    connections = []
    try:
        for path in ("/v1/interactions", "/v1/users"):  # in front of Serve, and behind it
            for _ in range(280):
                connection = socket.create_connection(("127.0.0.1", port), timeout=5)
                connection.sendall(f"POST {path} HTTP/1.1\r\n{head}".encode())
                connections.append(connection)
        time.sleep(0.5)  # a refusal would come now
        assert select.select(connections, [], [], 0)[0] == []
        assert drive(
            [read(installation)], port=installation.port, connections=4, seconds=0.5
        ).statuses.keys() == {"404"}
        for connection in connections:
            connection.sendall(b'{"data": []}')
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")
    finally:
        for connection in connections:
            connection.close()


def test_a_redeployment_of_the_only_replica_loses_no_request_on_a_busy_machine(installation: Stack) -> None:
    assert len(replica_ports(installation)) == 1
    with busy_machine(BURNERS):
        _redeploy_under_requests(installation, watched_s=5.0)


def test_load_on_hot_endpoints_brings_a_second_replica(installation: Stack) -> None:
    assert len(replica_ports(installation)) == 1
    begin = time.monotonic()
    while len(replica_ports(installation)) < 2:
        assert time.monotonic() - begin < 90, "the autoscaler never heard of the load"
        figures = drive([read(installation)], port=installation.port, connections=32, seconds=5.0)
        assert figures.statuses.keys() == {"404"}
    print(f"\nsecond replica after {time.monotonic() - begin:.0f} s of load")


def test_a_rolling_redeployment_loses_no_request(installation: Stack) -> None:
    """On a busy machine as well, and also those callers' whose connections are old and silent for long."""
    with busy_machine(BURNERS):
        _redeploy_under_requests(installation, watched_s=HARD_STOP_S + 10.0)


def _redeploy_under_requests(installation: Stack, *, watched_s: float) -> None:
    """Replace all replicas while requests come, and some time after HAProxy has forgotten the old ones."""
    before = replica_ports(installation)
    state = load_state(InstallationPaths.from_data_dir(installation.data_dir))
    assert state is not None
    redeploying = subprocess.Popen(
        [sys.executable, "-c", REDEPLOY.format(address=state.ray_address)],
        cwd=ROOT,
        env={**_environment_of_a_replica(installation), "PYTHONPATH": str(ROOT)},
    )
    seen, refused = Counter[str](), list[str]()
    begin = time.monotonic()

    def over() -> bool:
        assert time.monotonic() - begin < 240, (before, replica_ports(installation))
        return redeploying.poll() is not None and not set(replica_ports(installation)) & set(before)

    asyncio.run(_ask_until(over, installation, seen, refused, watched_s))
    assert redeploying.returncode == 0
    print(
        f"\n{sum(seen.values())} requests in {time.monotonic() - begin:.0f} s of redeployment: {dict(seen)}"
    )
    assert seen.keys() == {"404"}, "\n".join([*refused, *_lines_of_replicas(installation)])


def _lines_of_replicas(stack: Stack) -> list[str]:
    """Return what API replicas logged about the store and about slow requests."""
    logs = InstallationPaths.from_data_dir(stack.data_dir).ray_dir / "session_latest" / "logs"
    words = ("store_went_away", "store_returned", "not_followed", "request_slow")
    return [
        line[:400]
        for path in logs.glob("worker-*.err")
        for line in path.read_text("utf-8", "replace").splitlines()
        if any(word in line for word in words)
    ]


def _states_of_servers(folder: Path) -> str:
    """Return what the HAProxy of a folder believes of each replica: backend, server, state, running requests."""
    try:
        config = Path((folder / "pid").read_text().split()[1]).read_text()
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(1.0)
            line.connect(find_admin_socket(config))
            line.sendall(b"show stat\n")
            rows = b"".join(iter(lambda: line.recv(65_536), b"")).decode().splitlines()
    except (OSError, IndexError) as error:
        return repr(error)
    fields = [row.split(",") for row in rows if row.startswith("http-")]
    return "; ".join(f"{row[0]} {row[1]} {row[17]} {row[4]}" for row in fields)


async def _ask_until(
    over: Callable[[], bool], stack: Stack, seen: Counter[str], refused: list[str], watched_s: float
) -> None:
    """Ask over connections that are kept as long as the server keeps them: eight busy ones, and four silent ones.

    `refused` gets a line for each answer other than 404. HAProxy and a replica answer 503 with the same body, so the
    headers tell which of them it was.
    """
    done, folder = asyncio.Event(), InstallationPaths.from_data_dir(stack.data_dir).haproxy_dir
    began_s = time.monotonic()

    async def ask(client: httpx.AsyncClient, pause_s: float) -> None:
        while not done.is_set():
            sent_s = time.monotonic()
            try:
                reply = await client.get("/v1/users/nobody")
                outcome, facts = str(reply.status_code), f"{reply.text[:200]} {dict(reply.headers)}"
            except httpx.HTTPError as error:
                outcome, facts = type(error).__name__, repr(error)
            seen[outcome] += 1
            if outcome != "404":
                times = f"after {sent_s - began_s:.2f} s, took {(time.monotonic() - sent_s) * 1000:.0f} ms"
                refused.append(f"{outcome} {times}: {facts}; {_states_of_servers(folder)}")
            await asyncio.sleep(pause_s)

    async def watch() -> None:
        while not over():  # noqa: ASYNC110 - what it waits for is a file of another process
            await asyncio.sleep(0.5)
        await asyncio.sleep(watched_s)
        done.set()

    origin = f"http://127.0.0.1:{stack.port}"
    async with AsyncExitStack() as clients:
        busy, *silent = [
            await clients.enter_async_context(
                httpx.AsyncClient(base_url=origin, headers=stack.headers, timeout=30)
            )
            for _ in range(5)
        ]
        waiting = [
            ask(client, pause_s) for client, pause_s in zip(silent, (3.0, 4.5, 7.0, 11.0), strict=True)
        ]
        await asyncio.gather(watch(), *(ask(busy, 0.02) for _ in range(8)), *waiting)


def _environment_of_a_replica(stack: Stack) -> dict[str, str]:
    """What a process of this installation sees, so that one of ours may join its Ray."""
    for process in stack.processes():
        try:
            variables = process.environ()
        except psutil.Error:
            continue
        if "RAY_AUTH_TOKEN_PATH" in variables and Path(variables["RAY_AUTH_TOKEN_PATH"]).exists():
            kept = {
                name: value
                for name, value in variables.items()
                if name.startswith(("RAY_AUTH", "KIOSK_", "RAY_ENABLE", "RAY_SERVE"))
            }
            return {**{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}, **kept}
    raise AssertionError("no process of the installation knows the token")
