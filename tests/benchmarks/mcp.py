"""`ask_archive` over a large archive, over HTTP, beside an equal tool on other MCP servers, in one run.

    python -m tests.benchmarks.mcp [--articles 100000] [--peers PYTHON] [--folder DIR]

Each server is one process with one uvicorn worker. Ours checks an access token, the client's rule and rate, makes
keyed offsets and keeps the book of calls; the others do none of that. `--peers` names a Python that has `mcp` and
`fastmcp` beside our dependencies; `--folder` keeps the generated archive for the next run.

Everybody searches with the same code, so most of an answer's time is the same too. What the servers themselves cost is
told apart: `ready` are calls of a tool that gives the ten results it found once, without searching again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import uvicorn
from starlette.applications import Starlette

from actors.archive.host import ArchiveHost
from actors.archive.messages import ArchiveArticle, ArchiveQuery, ArchiveResult
from actors.archive.snapshot_store import PassageSnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.crypto import Vault
from cluster.meter import SilentMeter
from cluster.process.free_ports import free_ports
from cluster.records.account import Grant
from cluster.records.archive.archive_client import ClientRule
from deployments.archive.archive_config import ArchiveConfig
from deployments.archive.services import build_archive_routes, open_archive
from tests.benchmarks.load import ROOT, Figures, drive, http_request
from tests.benchmarks.mcp_articles import APP, questions, write_archive
from tests.fakes.stores.memory import memory_stores

MASTER = bytes(range(32))
READY_S = 120.0
WARM_UP_S = 0.5
"What the load driver does before it counts."


class Ready:
    """An archive that returns its first result for any query."""

    def __init__(self, archive: ArchiveHost) -> None:
        self._archive = archive
        self._answer: ArchiveResult | None = None

    async def ask(self, query: ArchiveQuery) -> ArchiveResult:
        """Search once."""
        if self._answer is None:
            self._answer = await self._archive.ask(query)
        return self._answer

    async def article(
        self, app_id: str, product_id: str, position: int, tiers: frozenset[str] = frozenset()
    ) -> ArchiveArticle | None:
        """Give an article."""
        return await self._archive.article(app_id, product_id, position)


async def serve(port: int, folder: Path, ready: bool) -> None:
    """Serve our own archive from a snapshot."""
    clock = SystemClock()
    stores = memory_stores(clock)
    await stores.client_rules.put(APP, ClientRule(client="*", calls_per_minute=6e6))
    host = ArchiveHost(stores, None, PassageSnapshotStore(ArtifactStore.open(folder)), clock, SilentMeter())
    config = ArchiveConfig(app_id=APP, port=port)
    archive = Ready(host) if ready else host
    services = open_archive(stores, Vault(MASTER), archive, clock, config)
    await services.start()
    app = Starlette(routes=build_archive_routes(services))
    settings = uvicorn.Config(app, port=port, log_level="warning", access_log=False, lifespan="off")
    await uvicorn.Server(settings).serve()
    await services.close()
    await host.close()


def token_for(port: int) -> str:
    """Make an access token as a finished sign-in at that server would."""
    clock = SystemClock()
    config = ArchiveConfig(app_id=APP, port=port)
    stores = memory_stores(clock)
    archive = ArchiveHost(stores, None, None, clock, SilentMeter())
    services = open_archive(stores, Vault(MASTER), archive, clock, config)
    grant = Grant(
        grant_id="g", user_id="u-1", username="ida", client_id="c", client_name="bench",
        resource=f"http://127.0.0.1:{port}/mcp", created_at=clock.now_ms(),
    )  # fmt: skip
    return services.oauth.access_tokens.issue(grant, 3600)


def requests(port: int, token: str, count: int) -> list[bytes]:
    """Write calls of `ask_archive`."""
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-06-18" if not token else "2024-11-05",
        **({"Authorization": f"Bearer {token}"} if token else {}),
    }
    requests_built = []
    for number, question in enumerate(questions(count)):
        params: dict[str, Any] = {"name": "ask_archive", "arguments": {"question": question}}
        message: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        requests_built.append(
            http_request("POST", "/mcp", body=json.dumps(message).encode(), headers=headers, port=port)
        )
    return requests_built


def main() -> None:
    """Run everything and print one JSON object."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--articles", type=int, default=100_000)
    parser.add_argument("--peers", default="")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--ready", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--serve", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve(given.serve, given.folder, given.ready))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        if not (folder / APP).exists():
            write_archive(folder, given.articles)
        ours = [sys.executable, "-m", "tests.benchmarks.mcp", "--folder", str(folder)]
        report = {
            "kiosk": _measure(lambda port, more: [*ours, "--serve", str(port), *more], given.seconds, True)
        }
        for which in ("sdk", "fastmcp") if given.peers else ():
            peer = [given.peers, "-m", "tests.benchmarks.peers.mcp_servers", which]
            report[which] = _measure(
                lambda port, more, peer=peer: [*peer, str(port), str(folder), *more], given.seconds, False
            )
    print(json.dumps(report, indent=2))


def _measure(command: Callable[[int, list[str]], list[str]], seconds: float, ours: bool) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    failures = 0
    words: list[str]
    for kind, words in (("ask", []), ("ready", ["--ready"])):
        [port] = free_ports(1)
        calls = requests(port, token_for(port) if ours else "", 2_000)
        with _running(command(port, words)) as process:
            _wait(port, calls[0])
            rest = drive(calls, port=port, connections=1, seconds=seconds)
            before = sum(process.cpu_times()[:2])
            load = drive(calls, port=port, connections=16, seconds=seconds)
            spent = sum(process.cpu_times()[:2]) - before
        figures |= {
            f"{kind}_at_rest_p50_ms": round(rest.p50_ms, 2),
            f"{kind}_at_rest_p99_ms": round(rest.p99_ms, 2),
            f"{kind}_per_s": round(load.per_second, 1),
            # The driver's warm-up is answered, too; its share of the time is known.
            f"{kind}_cpu_ms": round(1000 * spent / (load.per_second * (seconds + WARM_UP_S)), 3),
        }
        failures += _failures(rest, load)
    return {**figures, "failures": failures}


def _failures(*runs: Figures) -> int:
    return sum(run.failures for run in runs)


@contextmanager
def _running(command: list[str]) -> Iterator[psutil.Process]:
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, cwd=ROOT, env=env)
    try:
        yield psutil.Process(process.pid)
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
        sent = urllib.request.Request(f"http://127.0.0.1:{port}/mcp", body, headers)
        try:
            with urllib.request.urlopen(sent, timeout=30) as reply:
                if b"product_id" in reply.read():
                    return
        except OSError:
            pass
        time.sleep(0.2)
    raise SystemExit("the server gives no results")


if __name__ == "__main__":
    main()
