"""Deploy the Serve applications of dedicated engines according to their records.

It is a named Ray actor that Ray restarts: `engines@<release>`.

Commands only change records, so they work from any process and need not wait. Only this actor calls Serve,
once a second while there are dedicated engines. It deploys missing applications and removes unused ones.
Killing it at any moment is harmless, because the next one observes and continues. It works while it holds a
lease. On a cluster of several nodes it also keeps a stand-by of itself and of the other actors with a lease
(`cluster.runtime.actors.standbys`). Nodes that join later get a proxy from it (`cluster.runtime.node_proxies`).
"""

from __future__ import annotations

import asyncio
import importlib
import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

import ray
import structlog
from ray import serve
from ray.serve.schema import ApplicationStatus, ReplicaState

from cluster.build_info import installed_version
from cluster.clock import SystemClock
from cluster.errors import KioskError, NewerRelease
from cluster.log import set_up_logging
from cluster.records.engine import Engine, application_name
from cluster.runtime.actors import standbys
from cluster.runtime.actors.actor_roles import ActorRole, engine_operator_role
from cluster.runtime.actors.fail_fast import run_or_exit
from cluster.runtime.actors.standbys import StandbyKeeper
from cluster.runtime.engine_gauges import EngineGauges
from cluster.runtime.engine_plan import (
    PREFIX,
    DeployEngine,
    EngineApplication,
    RemoveApplication,
    RerouteEngine,
    Step,
    engine_status,
    is_at_target,
    plan_steps,
)
from cluster.runtime.meter import RayMeter
from cluster.runtime.node_proxies import add_missing_proxies
from cluster.runtime.start_plan import ANCHORS
from cluster.store.connect import OpenStores

LEASE = "engines"
# Six rounds: a slow round does not lose the lease, and a stand-by still takes over within seconds.
LEASE_MS = 6_000
LOOK_S = 1.0
"Seconds between rounds while an engine is, or is to be, dedicated; records are read as often."
MOVING_S = 0.3
"Seconds between rounds while an engine is changing its placement."
RETRY_S = 10.0
"Seconds before a failed deployment is tried again."
STUCK_S = 180.0
"If no round ends for this many seconds, the process ends, and Ray starts another."

_log = structlog.get_logger()


class EngineOperator:
    """Observes applications, takes steps and stores statuses, in a loop until its process ends."""

    def __init__(
        self, connect: Callable[[], OpenStores], build: str, leased: Sequence[ActorRole] = ()
    ) -> None:
        set_up_logging(process="engine_operator")
        # the name, not the process, holds the lease, so a restarted actor continues at once
        self._name = ray.get_runtime_context().get_actor_name() or LEASE
        self._standbys = StandbyKeeper((*leased, engine_operator_role(build, leased)), installed_version())
        self._standbys_s = float("-inf")
        self._working = False
        self._connect = connect
        self._build = build
        self._clock = SystemClock()
        self._gauges = EngineGauges(RayMeter())
        self._looked_s = self._clock.monotonic_s()
        self._waiting: list[str] | None = None
        self._tried_s: dict[str, float] = {}
        self._trouble = ""
        self._noted: set[tuple[str, str]] | None = None
        self._applications = True
        "Whether applications may exist. False after none was found; then Serve is not called."
        # In a thread with its own loop, so that `health` answers on Ray's loop while this one hangs.
        work = ("engine_operator", self._work(), os._exit)
        self._thread = threading.Thread(target=run_or_exit, args=work, name="engines", daemon=True)
        self._thread.start()
        threading.Thread(target=self._guard, name="engines-guard", daemon=True).start()

    async def health(self) -> dict[str, Any]:
        """Return the status; `waiting` names engines off their target placement, None before the first round."""
        still_s = self._clock.monotonic_s() - self._looked_s
        return {
            "alive": self._thread.is_alive(),
            "pid": os.getpid(),
            "still_s": still_s,
            "waiting": self._waiting,
            "working": self._working,
        }

    async def _work(self) -> None:
        async with self._connect() as stores:
            _log.info("engine_operator_started", pid=os.getpid())
            while True:
                try:
                    await self._reconcile(stores)
                    self._trouble = ""
                except KioskError as error:
                    self._log_failure(error.message)
                except Exception as error:  # noqa: BLE001 - Serve is unavailable for a moment, or a builder is wrong
                    self._log_failure(f"{type(error).__name__}: {error}")
                self._looked_s = self._clock.monotonic_s()
                await asyncio.sleep(MOVING_S if self._waiting else LOOK_S)

    async def _reconcile(self, stores: OpenStores) -> None:
        # Held anew in each round: after a pause that outlasted the lease, another process may work.
        self._working = await stores.leases.hold(LEASE, self._name, LEASE_MS)
        if not self._working:
            # Of a stand-by, nothing is known or shown: the working one reports.
            self._waiting = []
            self._noted = None
            self._gauges.clear()
            return
        await self._keep_engines(stores)
        if self._clock.monotonic_s() - self._standbys_s >= standbys.LOOK_S:
            self._standbys_s = self._clock.monotonic_s()
            await self._standbys.keep()
            await asyncio.to_thread(add_missing_proxies, ANCHORS)

    async def _keep_engines(self, stores: OpenStores) -> None:
        book = await stores.access.read_all()
        engines = [engine for app_id in sorted(book.apps) for engine in await stores.engines.all(app_id)]
        # A call to Serve's controller each second, only while it can have a result.
        if self._applications or any(engine.target_placement == "own" for engine in engines):
            seen = await asyncio.to_thread(list_applications)
            self._applications = bool(seen)
        else:
            seen = {}
        last_dedicated_ms = await self._last_dedicated_use(stores, engines, seen)
        # Before the steps, so that a failing deployment still shows its state.
        await self._save_statuses(stores, engines, seen)
        for step in plan_steps(engines, seen, last_dedicated_ms, self._clock.now_ms()):
            await self._execute(step, stores)
        self._waiting = [engine.application for engine in engines if not is_at_target(engine, seen)]
        self._gauges.report_waiting(len(self._waiting))

    async def _last_dedicated_use(
        self, stores: OpenStores, engines: list[Engine], seen: dict[str, EngineApplication]
    ) -> dict[str, int]:
        leaving = {
            engine.app_id for engine in engines if engine.placement == "door" and engine.application in seen
        }
        last = {}
        for app_id in leaving:
            for (place, engine_id), engine_traffic in (
                await stores.engine_activity.read_traffic(app_id, self._clock.now_ms())
            ).items():
                if place == "own":
                    last[Engine(app_id=app_id, engine_id=engine_id).application] = engine_traffic.last_ms
        return last

    async def _save_statuses(
        self, stores: OpenStores, engines: list[Engine], seen: dict[str, EngineApplication]
    ) -> None:
        """Store the observed statuses, and delete those of engines without replicas."""
        # After a restart or a lost lease, what was stored before is read once.
        if self._noted is None:
            stored = [
                await stores.engine_activity.list_statuses(app_id)
                for app_id in {engine.app_id for engine in engines}
            ]
            self._noted = {
                (status.app_id, status.engine_id) for statuses in stored for status in statuses.values()
            }
        noted = {gone for gone in self._noted if application_name(*gone) in seen}
        for engine in engines:
            status = engine_status(engine, seen.get(engine.application), self._clock.now_ms())
            if status is not None:
                await stores.engine_activity.record(status)
                self._gauges.report_replicas(engine.application, status)
                noted.add((engine.app_id, engine.engine_id))
        for app_id, engine_id in self._noted - noted:
            await stores.engine_activity.delete(app_id, engine_id)
            self._gauges.remove(application_name(app_id, engine_id))
        self._noted = noted

    async def _execute(self, step: Step, stores: OpenStores) -> None:
        if isinstance(step, RerouteEngine):
            now_ms = self._clock.now_ms()
            placement = step.placement

            # Run inside a compare-and-set: an order given meanwhile wins, and the next round follows it.
            def moved(engine: Engine) -> Engine:
                if engine.moving_to != placement:
                    return engine
                change = {"placement": placement, "moving_to": None, "moved_at": now_ms}
                return engine.model_copy(update=change)

            await stores.engines.change(step.engine.app_id, step.engine.engine_id, moved)
            _log.info("engine_sent", engine=step.engine.application, placement=placement)
        elif isinstance(step, RemoveApplication):
            # Read again just before: the engine may have been ordered back since the list was read.
            if await _is_needed(stores, step.name):
                return
            await asyncio.to_thread(delete_serve_application, step.name)
            _log.info("engine_removed", engine=step.name)
        else:
            await self._deploy(step)

    async def _deploy(self, step: DeployEngine) -> None:
        name = step.engine.application
        now_s = self._clock.monotonic_s()
        if now_s - self._tried_s.get(name, float("-inf")) < RETRY_S:
            return
        # Noted before the call, so that a failing one is not repeated each second.
        self._tried_s[name] = now_s
        _log.info("engine_deployed", engine=name, **step.engine.scaling.model_dump())
        try:
            await asyncio.to_thread(deploy_application, self._build, name, step.engine.deployment_arguments())
        # Also of a cancelled call: the attempt stays noted, and the error goes on.
        except BaseException:
            _log.error("engine_not_deployed", engine=name)
            raise
        del self._tried_s[name]
        self._applications = True

    def _log_failure(self, reason: str) -> None:
        """Log a failed round, once for each reason."""
        if reason != self._trouble:
            _log.warning("engines_not_kept", reason=reason[:400])
        self._trouble = reason

    def _guard(self) -> None:
        """End the process when the loop hangs: a call to Serve that never returns counts as a crash."""
        pause = threading.Event()
        while not pause.wait(5.0):
            if self._clock.monotonic_s() - self._looked_s > STUCK_S:
                _log.error("engine_operator_stuck")
                # Not `sys.exit`: that ends a thread, while the hung one keeps the process alive.
                os._exit(1)


def deploy_application(build: str, name: str, arguments: dict[str, Any]) -> None:
    """Submit an engine's application to Serve; its replicas start afterwards."""
    module, _, function = build.partition(":")
    application = getattr(importlib.import_module(module), function)(arguments)
    # No route: replicas are called by handle, and nothing of them is reachable over HTTP.
    targets = [serve.RunTarget(target=application, name=name, route_prefix=None)]
    # Not awaited: an engine that starts slowly must not delay the others, nor the renewal of the lease.
    serve.run_many(targets, wait_for_applications_running=False)


def delete_serve_application(name: str) -> None:
    """Delete an application; its replicas finish their requests."""
    # Not awaited: running requests may take longer than the lease lasts.
    serve.delete(name, _blocking=False)


def list_applications() -> dict[str, EngineApplication]:
    """Return all applications of engines."""
    from ray.serve.context import _get_global_client

    applications = _get_global_client().get_serve_details()["applications"]
    return {
        name: _engine_application(name, details)
        for name, details in applications.items()
        if name.startswith(PREFIX)
    }


async def _is_needed(stores: OpenStores, application: str) -> bool:
    """Return whether the engine of an application is or will be dedicated, or only a newer release can read it."""
    app_id, _, engine_id = application.removeprefix(PREFIX).partition(".")
    try:
        engine = await stores.engines.get(app_id, engine_id)
    except NewerRelease:
        return True
    return engine is not None and engine.target_placement == "own"


def _engine_application(name: str, details: dict[str, Any]) -> EngineApplication:
    deployments = list(details["deployments"].values())
    first = deployments[0] if deployments else None
    replicas = [replica["state"] for replica in first["replicas"]] if first else []
    message = details["message"] or (first["message"] if first else "")
    return EngineApplication(
        name=name,
        # "declarative" is an application from a configuration file of Serve, which is not this operator's.
        ours=details["source"] != "declarative",
        # an application under change answers as before
        running=details["status"]
        in (ApplicationStatus.RUNNING, ApplicationStatus.DEPLOYING, ApplicationStatus.UNHEALTHY),
        failed=details["status"] in (ApplicationStatus.DEPLOY_FAILED, ApplicationStatus.UNHEALTHY),
        ending=details["status"] == ApplicationStatus.DELETING,
        replicas=sum(state == ReplicaState.RUNNING for state in replicas),
        target=first["target_num_replicas"] if first else 0,
        arguments=first["deployment_config"].get("user_config") if first else None,
        message=" ".join(message.split())[:300],
    )
