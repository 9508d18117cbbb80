"""`kiosk cluster status` and `kiosk doctor` of an installation on other machines, through a real Redis and HTTP."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from cluster.admin.schema import ensure_schema, record_running
from cluster.build_info import installed_version
from cluster.process.identity_registration import mark_identity
from cluster.process.installation_identity_check import prepare_external_key
from cluster.records.engine import Engine, EngineStatus
from cluster.records.question import LATE_RECHECK, RECHECK
from cluster.runtime.cluster_report import LEASES, read_cluster
from cluster.settings import Settings
from cluster.store import keys
from cluster.store.connect import OpenStores
from cluster.store.data.change_log import Follower, log_lag_ms
from cluster.store.installation.replica_memory import ReplicaMemory, ReplicaMemoryStore
from deployments.cli.command_line import command_line
from deployments.cli.doctor.cluster_checks import inspect_cluster
from deployments.cli.framework.installation import read_clock_ms
from deployments.cli.installation.cluster_status import build_table
from tests.suites.doing import APP
from tests.suites.test_identity import write_identity
from tests.suites.test_small_stores import an_app

pytestmark = [pytest.mark.redis, pytest.mark.usefixtures("allow_world")]


class Api(BaseHTTPRequestHandler):
    """Answers liveness, and readiness as told."""

    ready = 200

    def do_GET(self) -> None:
        self.send_response(self.ready if self.path == "/-/ready" else 200)
        self.end_headers()
        self.wfile.write(b'{"engine":"fails"}')

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent."""


@pytest.fixture
def api() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
async def installation(
    redis_stores: OpenStores, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> OpenStores:
    """An installation that runs well, and this machine within it."""
    monkeypatch.setenv("KIOSK_REDIS_URL", redis_url)
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path))
    now, settings = read_clock_ms(), Settings()
    await asyncio.to_thread(prepare_external_key, settings)
    await mark_identity(settings)
    await ensure_schema(redis_stores, now)
    await record_running(redis_stores, now)
    for name in LEASES:
        await redis_stores.leases.hold(name, f"{name} of n2", 60_000)
    await redis_stores.access.put_app(an_app())
    await redis_stores.engines.put(Engine(app_id=APP, engine_id="default"))
    await redis_stores.engines.put(Engine(app_id=APP, engine_id="own", placement="own"))
    running = EngineStatus(app_id=APP, engine_id="own", state="running", replicas=2, target=2, at=now)
    await redis_stores.engine_activity.record(running)
    return redis_stores


async def run(*words: str) -> tuple[int, dict[str, Any]]:
    done = await asyncio.to_thread(CliRunner().invoke, command_line(), [*words, "--json"])
    return done.exit_code, json.loads(done.stdout)


def bad(status: dict[str, Any]) -> dict[str, str]:
    return {part["check"]: part["words"] for part in status["findings"] if part["level"] == "bad"}


async def test_a_well_installation_seen_from_another_machine(
    installation: OpenStores, api: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, status = await run("cluster", "status", "--url", api)
    assert (code, bad(status), status["well"]) == (0, {}, True)
    assert {lease["owner"] for lease in status["leases"]} == {f"{name} of n2" for name in LEASES}
    assert [
        (engine["engine_id"], engine["placement"], engine["replicas"]) for engine in status["engines"]
    ] == [
        ("default", "shared", 0),
        ("own", "dedicated", 2),
    ]
    assert status["releases"][0]["release"] == installed_version()
    monkeypatch.setenv("KIOSK_DATA_DIR", str(tmp_path / "laptop"))
    code, status = await run("cluster", "status")
    levels = {part["check"]: part["level"] for part in status["findings"]}
    assert (code, levels["its master key"], levels["artifact store"]) == (0, "warning", "warning")


async def test_each_part_that_is_not_well_is_named(
    installation: OpenStores, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Api, "ready", 503)
    await installation.leases.release("trainer", "trainer of n2")
    failed = EngineStatus(app_id=APP, engine_id="own", state="failed", target=2, message="no memory")
    await installation.engine_activity.record(failed)
    await installation.server.execute_slow("DEL", keys.releases())
    code, status = await run("cluster", "status", "--url", api)
    assert code == 1
    assert bad(status) == {
        "lease trainer": "nobody holds it",
        f"engine {APP}/own": "dedicated, failed, 0 of 2 replicas: no memory",
        "release": "data has schema 1, this release 1; runs: nothing",
        f"ready {api}": '/-/ready answers 503: {"engine":"fails"}',
    }


async def test_the_lag_of_the_slowest_live_follower(installation: OpenStores) -> None:
    now = read_clock_ms()
    log = keys.change_log(APP, "product")
    for at in (now - 90_000, now):
        await installation.server.execute_slow("XADD", log, f"{at}-0", "op", "put", "payload", "x")
    for name, behind, at in (("a", now, now), ("b", now - 90_000, now), ("gone", 1, now - 120_000)):
        await installation.changes.record_follower(APP, Follower(name, at, {"product": f"{behind}-0"}))
    report = await read_cluster(installation, now)
    [product] = [log for log in report.logs if log.noun == "product"]
    assert (product.followers, product.follower_lag_ms) == (2, 90_000)
    assert (log_lag_ms("0", "0"), log_lag_ms("5-1", "9-0")) == (0, 0)
    _, status = await run("cluster", "status")
    levels = {part["check"]: part["level"] for part in status["findings"]}
    assert levels[f"log {APP}"] == "warning"


async def test_a_follower_that_has_read_nothing_yet_is_no_older_than_its_record(
    installation: OpenStores,
) -> None:
    now = read_clock_ms()
    log = keys.change_log(APP, "product")
    await installation.server.execute_slow("XADD", log, f"{now - 1_000}-0", "op", "put", "payload", "x")
    for name, at, lag in (("recheck", now - 3_000, 2_000), ("stuck", now + 59_000, 60_000)):
        await installation.changes.record_follower(APP, Follower(name, at, {"product": "0"}))
        report = await read_cluster(installation, now)
        [product] = [log for log in report.logs if log.noun == "product"]
        assert product.follower_lag_ms == lag
        if name == "recheck":
            _, status = await run("cluster", "status")
            levels = {part["check"]: part["level"] for part in status["findings"]}
            assert levels[f"log {APP}"] == "ok"


async def test_the_check_of_answers_that_is_late_on_purpose_is_no_lag(installation: OpenStores) -> None:
    now = read_clock_ms()
    log = keys.change_log(APP, "product")
    await installation.server.execute_slow("XADD", log, f"{now}-0", "op", "put", "payload", "x")
    for name, offset in ((LATE_RECHECK, now - 110_000), (f"{RECHECK}-now", now - 5_000)):
        await installation.changes.record_follower(APP, Follower(name, now, {"product": f"{offset}-0"}))
    report = await read_cluster(installation, now)
    [product] = [log for log in report.logs if log.noun == "product"]
    assert (product.followers, product.follower_lag_ms) == (2, 5_000)


async def test_replicas_that_differ_at_one_offset_are_named(installation: OpenStores) -> None:
    now = read_clock_ms()
    for name, records in (("left", "1"), ("right", "2")):
        digest = {"records": records, "lists": "", "version": ""}
        await installation.changes.record_follower(APP, Follower(name, now, {"product": "1-0"}, digest))
    code, report = await run("cluster", "status")
    assert code == 1
    words = "2 replicas at the same offset of the log hold different states: left, right"
    assert bad(report)[f"replicas {APP}"] == words
    assert report["differing"] == {APP: ["left", "right"]}


async def test_apps_that_do_not_fit_the_memory_budget_are_named(installation: OpenStores) -> None:
    now, memory = read_clock_ms(), ReplicaMemoryStore(installation.server)
    fits = ReplicaMemory("api-1", now, 512 << 20, 300 << 20, 2, {}, {"shop": 2})
    # While releases change, replicas of a newer one report more.
    newer = {**fits.to_dict(), "gpu_bytes": 1}
    for name, row in (("api-1", newer), ("api-0", {"replica": "api-0", "gpu_bytes": 1})):
        await installation.server.execute_slow("HSET", keys.replica_memory(), name, json.dumps(row))
    code, report = await run("cluster", "status")
    [line] = [part for part in report["findings"] if part["check"] == "app memory"]
    assert (code, line["level"]) == (0, "ok")
    assert line["words"] == "300 of 512 MiB for 2 apps in the fullest API replica, 2 reloads in ten minutes"
    assert report["memory"][0]["counted_bytes"] == 300 << 20
    await memory.record(ReplicaMemory("api-2", now, 512 << 20, 500 << 20, 3, {}, {"shop": 2, "toys": 9}))
    await memory.record(ReplicaMemory("gone", now - 60_000, 1, 1, 1, {"old": 2}, {}))
    for command in (("cluster", "status"), ("cluster", "doctor")):
        _, report = await run(*command)
        [line] = [part for part in report["findings"] if part["check"] == "app memory"]
        assert line["level"] == "warning"
        assert line["words"] == (
            "500 of 512 MiB for 3 apps in the fullest API replica, 13 reloads in ten minutes: not all used apps fit "
            "(toys 9x, shop 4x)"
        )
        assert "KIOSK_MEMORY_MB" in line["advice"]
        assert "kiosk up --memory" in line["advice"]
    await memory.delete("api-2")
    await memory.record(ReplicaMemory("api-1", now, 512 << 20, 700 << 20, 1, {"shop": 700 << 20}, {}))
    code, report = await run("cluster", "status")
    [line] = [part for part in report["findings"] if part["check"] == "app memory"]
    assert (code, line["level"]) == (0, "warning")
    assert line["words"].endswith("larger than the budget alone: shop (700 MiB)")
    await memory.record(ReplicaMemory("api-1", now, 512 << 20, 800 << 20, 1, {"shop": 800 << 20}, {}))
    code, report = await run("cluster", "status")
    assert code == 1
    assert bad(report)["app memory"].endswith("alone: shop (800 MiB), which is more than Ray reserves")


async def test_another_key_and_another_store_are_named(
    installation: OpenStores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setenv("KIOSK_DATA_DIR", str(other))
    write_identity(Settings(), "b7")
    (other / "master.key").write_text("A" * 43 + "=\n")
    (other / "master.key").chmod(0o600)
    code, report = await run("cluster", "status")
    assert code == 1
    assert set(bad(report)) == {"its master key", "artifact store"}


async def test_without_redis_it_ends_with_3(
    installation: OpenStores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KIOSK_REDIS_URL", f"unix://{tmp_path}/none.sock")
    code, report = await run("cluster", "status")
    assert code == 3
    assert [part["check"] for part in report["findings"]] == ["redis"]


async def test_doctor_looks_at_the_redis_it_is_given(installation: OpenStores, api: str) -> None:
    for words in (("doctor",), ("cluster", "doctor")):
        _, report = await run(*words, "--url", api)
        checks = {part["check"]: part for part in report["findings"]}
        assert checks["lease intake"]["words"].startswith("held by intake of n2")
        assert checks[f"alive {api}"]["level"] == "ok"
        assert not [part for part in report["findings"] if "will be used" in part["words"]]
        assert not [part for part in report["findings"] if "installation is stopped" in part["words"]]


@pytest.mark.usefixtures("installation")
async def test_status_points_to_the_cluster() -> None:
    done = await asyncio.to_thread(CliRunner().invoke, command_line(), ["status"])
    assert done.exit_code == 3
    assert "kiosk cluster status" in done.stderr
    done = await asyncio.to_thread(CliRunner().invoke, command_line(), ["cluster", "status"])
    assert done.exit_code == 0, done.output
    assert "held by intake of n2" in done.stdout


@pytest.mark.usefixtures("installation")
def test_the_table_fits_80_columns() -> None:
    report = inspect_cluster(Settings(), [], read_clock_ms())
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None, soft_wrap=True)
    # a path is never broken, so that it can be copied
    console.print(build_table([finding for finding in report.findings if "/" not in finding.words]))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) > 10
    assert max(map(len, lines)) <= 80
