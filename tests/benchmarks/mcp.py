"""`ask_archive` over a large archive, over HTTP, beside an equal tool on other MCP servers, in one run.

    python -m tests.benchmarks.mcp [--articles 100000] [--peers PYTHON] [--folder DIR]

Each server is one process with one uvicorn worker. Ours checks an access token, the client's rule and rate, makes
keyed offsets and keeps the book of calls; the others do none of that. `--peers` names a Python that has `mcp` and
`fastmcp` beside our dependencies; `--folder` keeps the generated archive for the next run. Questions never repeat
within a second, so no cache helps anybody.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette

from actors.answers.client import LocalArchiveClient
from actors.answers.host import AnswersHost
from actors.answers.shelf import PassageShelf
from cluster.clock import SystemClock
from cluster.meter import SilentMeter
from cluster.records.account import Grant
from cluster.records.client_rule import ClientRule
from cluster.secrecy import Vault
from cluster.store.memory import memory_stores
from deployments.archive.door import ArchiveConfig, archive_routes, open_archive
from tests.benchmarks.load import ROOT, Figures, drive, http_request
from tests.benchmarks.mcp_articles import APP, questions, write_archive

MASTER = bytes(range(32))
READY_S = 120.0


async def serve(port: int, folder: Path) -> None:
    """Serve our own archive from a snapshot."""
    clock = SystemClock()
    stores = memory_stores(clock)
    await stores.client_rules.put(APP, ClientRule(client="*", calls_per_minute=6e6))
    host = AnswersHost(stores, None, PassageShelf(folder), clock, SilentMeter())
    config = ArchiveConfig(app_id=APP, port=port)
    means = open_archive(stores, Vault(MASTER), LocalArchiveClient(host), clock, config)
    await means.start()
    app = Starlette(routes=archive_routes(means))
    settings = uvicorn.Config(app, port=port, log_level="warning", access_log=False, lifespan="off")
    await uvicorn.Server(settings).serve()
    await means.close()
    await host.close()


def token_for(port: int) -> str:
    """Make an access token as a finished sign-in at that server would."""
    clock = SystemClock()
    config = ArchiveConfig(app_id=APP, port=port)
    means = open_archive(memory_stores(clock), Vault(MASTER), LocalArchiveClient(None), clock, config)
    grant = Grant(
        grant_id="g", user_id="u-1", username="ida", client_id="c", client_name="bench",
        resource=f"http://127.0.0.1:{port}/mcp", created_at=clock.now_ms(),
    )  # fmt: skip
    return means.oauth.bearer.mint(grant, 3600)


def requests(port: int, token: str, count: int, method: str = "tools/call") -> list[bytes]:
    """Write calls of `ask_archive`, or of another method."""
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-06-18" if not token else "2024-11-05",
        **({"Authorization": f"Bearer {token}"} if token else {}),
    }
    found = []
    for number, question in enumerate(questions(count)):
        params: dict[str, Any] = {"name": "ask_archive", "arguments": {"question": question}}
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": method}
        if method == "tools/call":
            message["params"] = params
        found.append(
            http_request("POST", "/mcp", body=json.dumps(message).encode(), headers=headers, port=port)
        )
    return found


def main() -> None:
    """Run everything and print one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--articles", type=int, default=100_000)
    parser.add_argument("--peers", default="")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--serve", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve(given.serve, given.folder))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        if not (folder / APP).exists():
            write_archive(folder, given.articles)
        told = {
            "kiosk": _measure(
                [sys.executable, "-m", "tests.benchmarks.mcp", "--folder", str(folder)], given, True
            )
        }
        for which in ("sdk", "fastmcp") if given.peers else ():
            command = [given.peers, "-m", "tests.benchmarks.peers.mcp_servers", which]
            told[which] = _measure(command, given, False, folder)
    print(json.dumps(told, indent=2))


def _measure(
    command: list[str], given: argparse.Namespace, ours: bool, folder: Path | None = None
) -> dict[str, Any]:
    port = _free_port()
    line = [*command, "--serve", str(port)] if ours else [*command, str(port), str(folder)]
    token = token_for(port) if ours else ""
    calls = requests(port, token, 2_000)
    with _running(line):
        _wait(port, calls[0])
        rest = drive(calls, port=port, connections=1, seconds=given.seconds)
        load = drive(calls, port=port, connections=16, seconds=given.seconds)
        ping = drive(
            requests(port, token, 1, "tools/list"), port=port, connections=16, seconds=given.seconds / 2
        )
    return {
        "ask_at_rest_p50_ms": round(rest.p50_ms, 2),
        "ask_at_rest_p99_ms": round(rest.p99_ms, 2),
        "asks_per_s": round(load.per_second, 1),
        "lists_per_s": round(ping.per_second, 1),
        "failures": _failures(rest, load, ping),
    }


def _failures(*runs: Figures) -> int:
    return sum(run.failures for run in runs)


@contextmanager
def _running(command: list[str]) -> Iterator[None]:
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, cwd=ROOT, env=env)
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)


def _wait(port: int, request: bytes) -> None:
    """Ask until a real answer comes: snapshot loaded, results found."""
    head, _, body = request.partition(b"\r\n\r\n")
    lines = [line.split(": ", 1) for line in head.decode().split("\r\n")[1:]]
    headers = {name: value for name, value in lines if name not in ("Host", "Content-Length")}
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        asked = urllib.request.Request(f"http://127.0.0.1:{port}/mcp", body, headers)
        try:
            with urllib.request.urlopen(asked, timeout=30) as reply:
                if b"product_id" in reply.read():
                    return
        except OSError:
            pass
        time.sleep(0.2)
    raise SystemExit("the server gives no results")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    main()
