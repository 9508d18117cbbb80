"""Bring an installation up once and end: keys, Ray, intake, API replicas, sample data, first good answer.

The supervisor starts it as a separate process with the environment of `ray_environment`. Ray belongs to the
process that imports it, and the supervisor must outlive Ray and stay small. Bootstrap reports every step as a
line of JSON on standard output. A second run on a partly started system starts only what is missing.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TextIO

import structlog

from cluster.admin.app_key_admin import AppKeyAdmin
from cluster.admin.master_keys import open_vault
from cluster.admin.schema import ensure_schema
from cluster.clock import SystemClock
from cluster.errors import Fault, KioskError, Unavailable
from cluster.log import redact, set_up_logging
from cluster.paths import InstallationPaths
from cluster.process import probe
from cluster.process.identity_registration import mark_identity
from cluster.process.installation_processes import list_processes
from cluster.process.installation_state import find_lock_holder, load_state
from cluster.process.signing_upgrade import sign_unsigned
from cluster.process.start_progress import STALLED_S, StallTimer, count_work_steps, report_changes
from cluster.process.store_connections import ADMIN_S, connect
from cluster.process.tracing import check_tracing
from cluster.runtime.actors.actor_roles import (
    ActorRole,
    assigner_role,
    engine_operator_role,
    intake_role,
    tracker_role,
    trainer_role,
)
from cluster.runtime.actors.named_actors import ensure_actor
from cluster.runtime.handover import find_secrets, prepare_node
from cluster.runtime.ray_environment import driver_environment
from cluster.runtime.replica_resources import replica_arguments
from cluster.runtime.start_plan import API_APPLICATION, StartPlan
from cluster.settings import Settings

PLAYGROUND = "jobs.playground"
NAMESPACE = "kiosk"
ENGINES_S = 60.0
"How long a start waits for dedicated engines, in seconds."
KEEP_ALIVE_S = 600
"Seconds a replica keeps an idle connection of HAProxy; longer than HAProxy does, so it never reuses a closed one."


class ProgressReporter:
    """Report steps to the process that started this one."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._begin = time.monotonic()
        self._lock = threading.Lock()

    def report(self, step: str, message: str, **facts: Any) -> None:
        """Write one line."""
        after_s = round(time.monotonic() - self._begin, 2)
        line = {"step": step, "message": redact(message), "after_s": after_s, **facts}
        with self._lock:
            self._out.write(json.dumps(line) + "\n")
            self._out.flush()
        structlog.get_logger().info("step_reached", step=step, after_s=after_s)


def without_client_server(parameters: Any, head: bool) -> None:
    """Switch off the server for remote Ray clients (a `RAY_START_HOOK`), which Kiosk does not use."""
    parameters.ray_client_server_port = None


def main(arguments: list[str]) -> int:
    """Start the parts of the plan; return 0 after a good answer."""
    plan = StartPlan.parse(arguments[0])
    with _redirect_output() as out:
        set_up_logging()
        reporter = ProgressReporter(out)
        try:
            if find_secrets(os.environ):  # on an existing cluster; `kiosk up` has moved them to files
                prepare_node()
            bring_up(plan, Settings(), reporter)
        # A KioskError has a message for operators; others also leave their traceback in the log.
        except KioskError as error:
            reporter.report("failed", error.message)
            return 1
        except Exception as error:  # noqa: BLE001 - the top of a process: reported, logged, and ended
            structlog.get_logger().exception("bringing_up_failed")
            reporter.report("failed", _last_line(error))
            return 1
    return 0


def _last_line(error: Exception) -> str:
    """Return an error in one line; the last line of a Ray traceback has the reason."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # Pydantic ends each of its errors with this line.
    lines = [line for line in lines if not line.startswith("For further information visit")]
    text = lines[-1] if lines else "no reason given"
    return (text if len(lines) > 1 else f"{type(error).__name__}: {text}")[:400]


def bring_up(plan: StartPlan, settings: Settings, reporter: ProgressReporter) -> None:
    """Run all steps."""
    # Before anything is written: a missing package is a wrong setting.
    check_tracing(settings.trace_url)
    # The schema first: data of a newer release may not be touched.
    # Then the identity, before anything is signed.
    asyncio.run(start_schema(settings))
    asyncio.run(mark_identity(settings))
    asyncio.run(sign_unsigned(settings))
    fresh = asyncio.run(ensure_apps(settings))
    reporter.report("apps", "apps and keys are there", first_start=fresh)
    filling = _start_sample_load() if plan.playground else None
    if plan.ray_arguments:
        reporter.report("ray", "starting Ray")
        with report_changes(partial(_ray_processes, settings), partial(reporter.report, "ray")):
            _start_ray(plan.ray_arguments)
    connect_ray(plan.ray_address)
    leased = leased_roles(plan, settings)
    reporter.report("intake", "starting the intake")
    # The intake before the replicas, which accept uploads as soon as they are ready.
    parts = {actor.role: ensure_actor(actor) for actor in leased if actor.role == "intake"}
    operator = ensure_actor(engine_operator_role(plan.engines, leased)) if plan.engines else None
    reporter.report("api", "starting the API replicas")
    with report_changes(_replicas, partial(reporter.report, "api")):
        _deploy(plan)
    # The rest starts while replicas already answer.
    others = [assigner_role(plan.assigner)] if plan.assigner else []
    parts |= {actor.role: ensure_actor(actor) for actor in (*others, *leased)}
    if filling is not None:
        reporter.report("playground", "loading the playground")
        _finish_sample_load(filling)
    if operator is not None:
        _await_engines(operator, reporter)
    reporter.report("answer", "waiting for the first good answer")
    asyncio.run(_first_answer(plan, settings, reporter))
    _await_parts(parts, reporter)
    reporter.report("ready", "ready", **({"addresses": _proxy_addresses(plan)} if plan.spread else {}))


def _ray_processes(settings: Settings) -> str:
    """Report which processes of Ray run."""
    names = {process.name() for process in list_processes(InstallationPaths.from_data_dir(settings.data_dir))}
    running = [name for name in ("gcs_server", "raylet") if name in names]
    return f"starting Ray ({' and '.join(running)} run)" if running else ""


def _replicas() -> str:
    """Report how many API replicas are ready, according to Serve."""
    from ray import serve

    application = serve.status().applications.get(API_APPLICATION)
    states = (
        [deployment.replica_states for deployment in application.deployments.values()] if application else []
    )
    ready = sum(state.get("RUNNING", 0) for state in states)
    total = sum(sum(state.values()) for state in states)
    return f"starting the API replicas ({ready} of {total} ready)" if total else ""


def _await_parts(parts: dict[str, Any], reporter: ProgressReporter) -> None:
    """Wait until all actors answer; a missing one is logged, and `kiosk status` shows it."""
    import ray

    pending = {name: handle.health.remote() for name, handle in parts.items()}
    patience = StallTimer()
    while pending and not patience.is_over:
        done, _ = ray.wait(list(pending.values()), num_returns=len(pending), timeout=1.0)
        for name in [name for name, asking in pending.items() if asking in done]:
            try:
                # A restarted actor lost the call: ask the next process.
                ray.get(pending.pop(name))
            except ray.exceptions.RayError:
                pending[name] = parts[name].health.remote()
        if pending and patience.record(frozenset(pending)):
            reporter.report("parts", f"starting {', '.join(sorted(pending))}")
    if pending:
        structlog.get_logger().error("parts_late", parts=sorted(pending))


async def ensure_apps(settings: Settings) -> bool:
    """Create the first apps and keys; return False when they exist."""
    async with connect(settings, slow_s=ADMIN_S) as stores:
        return await AppKeyAdmin(stores.access, open_vault(settings)).ensure_first_apps(
            SystemClock().now_ms()
        )


async def start_schema(settings: Settings) -> None:
    """Refuse stored data that this release can't read; bring older data up to its schema.

    Errors:
        NewerRelease: a newer release changed the data in a way that this one can't read
        Conflict: a migration has to wait until older releases have ended
    """
    async with connect(settings, slow_s=ADMIN_S) as stores:
        await ensure_schema(stores, SystemClock().now_ms())


def _start_sample_load() -> subprocess.Popen[bytes]:
    # A separate process uses the second core while Ray starts.
    return subprocess.Popen(
        [sys.executable, "-m", PLAYGROUND], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )


def _finish_sample_load(filling: subprocess.Popen[bytes]) -> None:
    patience = StallTimer()
    while (code := filling.poll()) is None:
        # Its processor time is the only sign of progress that a silent process gives.
        patience.record(count_work_steps(filling.pid))
        if patience.is_over:
            filling.kill()
            filling.wait()
            raise Fault("loading the playground has stalled; see supervisor.log")
        time.sleep(0.1)
    if code:
        raise Fault("the playground could not be loaded; see supervisor.log")


def _start_ray(arguments: list[str]) -> None:
    from ray.scripts.scripts import start

    # In standalone mode click ends the process after the command.
    start.main(arguments, prog_name="ray start", standalone_mode=False)


def connect_ray(address: str) -> None:
    """Connect this process to a running Ray as a driver."""
    import ray

    ray.init(
        address=address,
        namespace=NAMESPACE,
        log_to_driver=False,
        configure_logging=False,
        ignore_reinit_error=True,
    )


def connect_installation(settings: Settings) -> None:
    """Connect this process as a driver to the Ray of a data directory's installation, or of `RAY_ADDRESS`.

    Errors:
        Unavailable: neither exists; the message names the setting
    """
    address = os.environ.get("RAY_ADDRESS", "")
    if address.startswith(("http://", "https://")):
        raise Unavailable(
            "RAY_ADDRESS is the dashboard's address, which is for `ray job submit`; unset it, so that the "
            "installation is found by KIOSK_DATA_DIR"
        )
    if not address:
        paths = InstallationPaths.from_data_dir(settings.data_dir)
        state = load_state(paths) if find_lock_holder(paths) else None
        if state is None or not state.ray_address:
            raise Unavailable(
                f"no installation runs in {settings.data_dir}: start it with `kiosk up`, set KIOSK_DATA_DIR to the "
                "data directory of one that runs here, or name its Ray by RAY_ADDRESS=host:port, "
                "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH"
            )
        address = state.ray_address
        os.environ |= driver_environment(paths)
        _read_environment_again()
    connect_ray(address)


def _read_environment_again() -> None:
    """Make Ray read the variables of `driver_environment`: a program may have imported Ray before."""
    # Ray read these variables when it was imported, and has no public way to read them again.
    from ray._private import ray_constants

    ray_constants.ENABLE_RAY_CLUSTER = False
    compiled: Any = importlib.import_module("ray._raylet")
    compiled.Config.initialize("")
    compiled.AuthenticationTokenLoader.instance().reset_cache()


def leased_roles(plan: StartPlan, settings: Settings) -> list[ActorRole]:
    """Return the roles of a plan that hold a lease while they work, so that a stand-by can take over."""
    roles = []
    if plan.intake:
        roles.append(intake_role(plan.intake))
    if plan.tracker:
        roles.append(tracker_role(plan.tracker, plan.tracker_services))
    if plan.trainer:
        roles.append(trainer_role(plan.trainer, settings))
    return roles


def _await_engines(operator: Any, reporter: ProgressReporter) -> None:
    """Wait until all engines serve with their target placement.

    The engine operator continues with a late engine; the others serve meanwhile.
    """
    import ray

    until = time.monotonic() + ENGINES_S
    is_reported = False
    while time.monotonic() < until:
        waiting = ray.get(operator.health.remote())["waiting"]
        if waiting == []:
            return
        if waiting and not is_reported:
            reporter.report("engines", f"starting engines with a place of their own ({len(waiting)})")
            is_reported = True
        time.sleep(0.1)
    structlog.get_logger().warning("engines_late", waited_s=ENGINES_S)


def _deploy(plan: StartPlan) -> None:
    import ray
    from ray import serve
    from ray.serve.config import HTTPOptions

    from cluster.runtime.node_proxies import deploy_node_proxies

    serve.start(
        proxy_location=plan.proxy_location,
        http_options=HTTPOptions(
            host=plan.replicas_host or plan.host,
            port=plan.port,
            keep_alive_timeout_s=KEEP_ALIVE_S,
        ),
    )
    arguments = plan.api_arguments
    if plan.spread:
        # Ray lists dead nodes too.
        nodes = [node["Resources"].get("CPU", 0.0) for node in ray.nodes() if node["Alive"]]
        arguments = replica_arguments(nodes, arguments)
        if plan.proxy_location == "EveryNode":
            deploy_node_proxies(plan.anchors, len(nodes))
    serve.run(_load(plan.api)(arguments), name=API_APPLICATION, route_prefix="/")


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


async def _first_answer(plan: StartPlan, settings: Settings, reporter: ProgressReporter) -> None:
    """Request recommendations until a good answer comes."""

    def report(words: str) -> None:
        reporter.report("answer", f"waiting for the first good answer ({words})")

    async with connect(settings, slow_s=ADMIN_S) as stores:
        # The sample app's own key: the check goes the way of a client, through the proxy.
        entries = await AppKeyAdmin(stores.access, open_vault(settings)).keys(
            app_id="playground", reveal=True
        )
        user_ids = await stores.records.ids("playground", "user")
    key = next((entry.text for entry in entries if entry.key.kind == "secret"), "")
    # On several nodes every proxy must answer, not only the one of this node.
    if plan.spread:
        await probe.wait_until(lambda: _are_healthy(plan), STALLED_S, report)
        return
    if not key or not user_ids:
        # Without a playground key or sample data, only a health check is possible.
        await probe.wait_until(lambda: probe.is_healthy(plan.host, plan.port), STALLED_S, report)
        return
    await probe.wait_until(
        lambda: probe.probe_recommendations(plan.host, plan.port, key, user_ids[:20]), STALLED_S, report
    )


def _proxy_addresses(plan: StartPlan) -> list[str]:
    """Return the address of every live node that should have a proxy."""
    import ray

    nodes = [node for node in ray.nodes() if node["Alive"]]
    if plan.proxy_location != "EveryNode":
        nodes = [node for node in nodes if "node:__internal_head__" in node["Resources"]]
    return sorted(node["NodeManagerAddress"] for node in nodes)


def _are_healthy(plan: StartPlan) -> probe.ProbeResult:
    """Check the proxies of all nodes."""
    # Read at each probe, because nodes may join or leave meanwhile.
    addresses = _proxy_addresses(plan)
    for address in addresses:
        result = probe.is_healthy(address, plan.port)
        if not result.is_good:
            return probe.ProbeResult(False, f"{address}: {result.message}")
    return probe.ProbeResult(True, f"{len(addresses)} proxies answer")


@contextmanager
def _redirect_output() -> Iterator[TextIO]:
    """Reserve standard output for progress lines; output of Ray goes to the log with standard error."""
    kept = os.dup(1)
    # The descriptor and not `sys.stdout`, because compiled parts of Ray and child processes use number 1.
    os.dup2(2, 1)
    with os.fdopen(kept, "w", encoding="utf-8") as out:
        yield out


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
