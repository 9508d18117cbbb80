"""Run an installation: start its parts in order, restart dead ones, and end all.

    Redis          started first, ended last; restarted at once when it dies
    Ray            gcs_server and raylet are watched; when one dies, all of Ray is ended and started again
    API replicas   checked over HTTP every second; silent for long while Ray lives: deployed again, then as above
    HAProxy        a stand-in serves until Serve has started the next one; one that did not start in time is tried
                   again, while the slow Python proxy serves on loopback: a stand-in answers 503 while Ray changes over.
                   On other addresses nothing serves instead: the slow proxy has none of HAProxy's bounds

Ray restarts replicas, the Serve controller and named actors. This process imports no Ray and holds no state: after
any process is killed, this one included, `kiosk up` restores the same system.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import psutil
import structlog

from cluster.admin.master_keys import save_manifest_key
from cluster.clock import SystemClock
from cluster.errors import Fault, KioskError
from cluster.local.api_watch import ApiWatch
from cluster.local.external_redis import wait_for_redis
from cluster.local.haproxy_process import HAProxyProcess
from cluster.local.process_restarts import EVERY_S, ProcessWatch, list_roles
from cluster.local.ray_head import RayHead
from cluster.local.redis_server import RedisServer
from cluster.log import redact
from cluster.paths import InstallationPaths, lock_directory, write_private
from cluster.process.free_ports import LOOPBACK, is_loopback
from cluster.process.installation_identity_check import prepare_external_key
from cluster.process.installation_processes import adopt_orphans, end_processes, list_processes, reap_orphans
from cluster.process.installation_state import InstallationLock, InstallationState, Phase, save_state
from cluster.runtime.handover import find_secrets, prepare_node
from cluster.runtime.ray_environment import RayPorts, ray_environment, ray_start_arguments, shared_environment
from cluster.runtime.start_plan import StartPlan
from cluster.settings import Settings

TICK_S = 0.1
REDIS_START_S = 120.0
DEPLOY_AGAIN_S = 20.0
"Seconds of silence after which the API replicas are deployed again,"
START_AGAIN_S = 60.0
"and after which Ray is started again."
LONGEST_REST_S = 30.0
MOST_STAGES = 200
MOST_FRONT_STARTS = 3
"Attempts to start HAProxy in time before a start on a public address fails."

_log = structlog.get_logger()
StateCallback = Callable[[InstallationState], None]


@dataclass(frozen=True)
class SupervisorConfig:
    """The options of a start."""

    settings: Settings
    version: str
    root: Path
    "The directory of Kiosk's packages."
    plan: Mapping[str, object] = field(default_factory=dict)
    "Fields of `StartPlan` that replace the usual ones."
    head_command: tuple[str, ...] = ()


class Supervisor:
    """Runs one installation until a signal stops it."""

    def __init__(self, config: SupervisorConfig, report_state: StateCallback = lambda state: None) -> None:
        self._config = config
        self._settings = config.settings
        self._report_state = report_state
        self._paths = InstallationPaths.from_data_dir(config.settings.data_dir)
        self._lock = InstallationLock(self._paths.lock)
        self._head = RayHead(self._paths, config.head_command)
        self._front = HAProxyProcess(self._paths, self._settings.host, self._settings.port)
        self._redis: RedisServer | None = None
        self._ports: RayPorts | None = None
        self._haproxy = True
        self._late_fronts = 0
        self._stop = threading.Event()
        self._stopped_by = 0
        self._rest_s = 1.0
        self._wait_until = 0.0
        self._again: bool | None = None
        "A bootstrap process is due: True with Ray, False only the API replicas."
        self._api = ApiWatch(self._settings.host, self._settings.port)
        self._connections = 0
        self._redis_rest_s = 0.0
        self._watch = ProcessWatch()
        self._watch_at_s = 0.0
        self._begun = time.monotonic()
        self.state = InstallationState(
            phase="starting",
            message="starting",
            pid=os.getpid(),
            version=config.version,
            host=self._settings.host,
            port=self._settings.port,
            data_dir=str(self._paths.data_dir),
            run_dir=str(self._paths.run_dir),
            logs_dir=str(self._paths.logs_dir),
            started_at=SystemClock().now_ms(),
            settings=self._settings.shareable(),
        )

    def request_stop(self, number: int = 0, frame: FrameType | None = None) -> None:
        """Request the end (a signal handler)."""
        self._stopped_by = number
        self._stop.set()

    def run(self) -> int:
        """Run the installation; return 0 after a requested end, 1 after a failed start, 2 if another one runs."""
        self._paths.make()
        if not self._lock.acquire():
            return 2
        # SIGHUP comes when a terminal closes; without a handler it would end this process without clean-up.
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self.request_stop)
        # Ray's processes start further ones. Those that lose their parent would otherwise belong to init.
        adopt_orphans()
        # Before any file or socket is made: what an installation writes is its owner's only.
        os.umask(0o077)
        # Cleaners of /tmp skip locked directories.
        directory_lock = lock_directory(self._paths.run_dir)
        try:
            self._start()
            while not self._stop.wait(TICK_S):
                self._tick()
                if self.state.phase == "failed":
                    return 1
            _log.info("stop_requested", signal=self._stopped_by)
            return 0
        except KioskError as error:
            self._save_phase("failed", error.message)
            return 1
        finally:
            self._end()
            os.close(directory_lock)
            # Last: the next start must not begin while parts of this one still end.
            self._lock.release()

    def _start(self) -> None:
        self._save_phase("starting", "clearing up after an earlier run")
        # After a killed supervisor, parts of the last run may still hold ports and the data of Redis.
        left = end_processes(list_processes(self._paths), 3.0)
        if left:
            raise Fault(f"processes of an earlier run can't be ended: {[process.pid for process in left]}")
        os.environ.update(shared_environment(self._paths, os.environ, self._config.root))
        if self._settings.redis_is_external:
            self._save_phase("starting", "asking the Redis of KIOSK_REDIS_URL", redis="external")
            wait_for_redis(self._settings)
        # The key before Redis starts and before any process reads it.
        prepare_external_key(self._settings)
        save_manifest_key(self._settings)
        # Whoever may call Ray can run code. The token excludes the other users of this machine.
        if not self._paths.ray_token.exists():
            write_private(self._paths.ray_token, secrets.token_hex(32))
        self._start_redis()
        self._prepare_front()
        self._again = True

    def _start_redis(self) -> None:
        if self._settings.redis_is_external:
            address = self._settings.redis_address
            assert address is not None
            # Commands of another shell read it there.
            write_private(self._paths.redis_url, address + "\n")
            return
        self._save_phase("starting", "starting Redis")
        self._redis = RedisServer(self._paths, memory_mb=self._settings.redis_memory_mb)
        self._redis.start_and_repair(REDIS_START_S)
        self._save_phase("starting", "Redis answers", redis=self._redis.binary.label)

    def _prepare_front(self) -> None:
        try:
            self._connections = self._front.prepare()
            self._save_phase("starting", "HAProxy is ready to be used", proxy="haproxy")
        except Fault as error:
            self._without_haproxy(error.message)

    def _without_haproxy(self, reason: str) -> None:
        """Serve through the slow proxy, and try HAProxy again after a pause.

        Errors:
            Fault: other machines would reach the slow proxy
        """
        if not is_loopback(self._settings.host):
            raise Fault(
                f"{reason}; the slow Python proxy has none of HAProxy's bounds and does not listen on "
                f"{self._settings.host}: repair HAProxy (`kiosk doctor`), or start with --host 127.0.0.1"
            )
        self._haproxy = False
        self._front.postpone()
        _log.warning("haproxy_missing", reason=reason)
        self._save_phase(self.state.phase, self.state.message, proxy=f"slow Python proxy, because {reason}")

    def _bring_up(self, with_ray: bool) -> None:
        """Start a bootstrap process."""
        if with_ray or self._ports is None:
            # The ports of the last Ray may be in use still, or taken by another program since.
            self._ports = RayPorts.choose()
            with_ray = True
        ports = self._ports
        address = f"127.0.0.1:{ports.gcs}"
        start = ray_start_arguments(
            self._paths,
            ports,
            cpus=max(2, os.cpu_count() or 2),
            object_store_mb=self._settings.object_store_mb,
            dashboard=self._settings.dashboard,
        )
        plan: dict[str, object] = {
            "host": self._settings.host,
            "port": self._settings.port,
            "haproxy": self._haproxy,
            "ray_arguments": start if with_ray else [],
            "ray_address": address,
            # HAProxy binds the public address itself (see `haproxy_config`); no client reaches a replica directly.
            "replicas_host": LOOPBACK if self._haproxy else "",
            **self._config.plan,
        }
        more = ray_environment(self._paths, ports, haproxy=self._haproxy, max_connections=self._connections)
        self._head.bring_up(StartPlan(**plan), {**os.environ, **more})  # type: ignore[arg-type]
        dashboard = f"http://127.0.0.1:{ports.dashboard}" if self._settings.dashboard else ""
        urls = {"dashboard_url": dashboard, "metrics_url": f"http://127.0.0.1:{ports.exports}/metrics"}
        self._save_phase(self.state.phase, self.state.message, ray_address=address, **urls)

    def _tick(self) -> None:
        """Check all parts once.

        Cost: about 0.1 ms when all is well.
        """
        # Redis first, as everything else needs it. A new Ray waits for the bootstrap process of the last one.
        self._ensure_redis()
        if self._again is not None and not self._head.is_busy and time.monotonic() >= self._wait_until:
            with_ray = self._again
            self._again = None
            self._bring_up(with_ray)
        self._read_head_messages()
        if not self._head.is_busy and self._again is None:
            self._ensure_ray()
        if not self._haproxy and self.state.phase == "ready":
            self._try_haproxy_again()
        if self._haproxy and self._front.start_if_down():
            self._save_phase(self.state.phase, self.state.message, restarts=self._count_restart("haproxy"))
        # Without its own children: `Popen` must collect these, or it would lose their exit codes.
        reap_orphans(self._children())
        self._count_restarts()

    def _count_restarts(self) -> None:
        """Count the processes that Ray started again, every two seconds.

        Cost: 10 to 20 ms for 300 processes on the machine.
        """
        now_s = time.monotonic()
        if self.state.phase != "ready":
            self._watch.reset()
        elif now_s >= self._watch_at_s:
            self._watch_at_s = now_s + EVERY_S
            children = psutil.Process().children(recursive=True)
            for role in self._watch.find_restarts(list_roles(children), now_s):
                _log.warning("process_replaced", role=role)
                self._save_phase(self.state.phase, self.state.message, restarts=self._count_restart(role))

    def _ensure_redis(self) -> None:
        redis = self._redis
        if redis is None or not redis.has_died() or time.monotonic() < self._redis_rest_s:
            return
        code = redis.process.returncode if redis.process else None
        _log.error("redis_died", code=code)
        # A server that dies at once is started again each second, not in each tick.
        self._redis_rest_s = time.monotonic() + 1.0
        try:
            redis.restart()
        # A full disk, for example: the next try may find room.
        except (KioskError, OSError) as error:
            self._save_phase(self.state.phase, f"Redis does not start again: {error}")
            return
        self._save_phase(self.state.phase, self.state.message, restarts=self._count_restart("redis"))

    def _read_head_messages(self) -> None:
        for line in self._head.read_messages():
            step = str(line["step"])
            message = str(line.get("message", ""))
            if step == "ready":
                self._head_ready()
            elif step == "failed":
                self._failed(message)
            elif step == "apps":
                self._save_phase(self.state.phase, message, first_start=bool(line.get("first_start")))
            else:
                self._save_phase(self.state.phase, message)

    def _head_ready(self) -> None:
        self._rest_s = 1.0
        self._api.reset()
        if not self._haproxy:
            self._front.end_stand_in()  # of a change over that failed; the slow proxy serves again
        # Of the first start only: a later repair must not replace it.
        took = self.state.ready_after_s or round(time.monotonic() - self._begun, 2)
        self._save_phase("ready", "ready", ready_after_s=took)
        _log.info("installation_ready", after_s=took, steps=self._head.steps)

    def _failed(self, message: str) -> None:
        """Handle a failed bootstrap: the first start reports it and ends; later ones retry with growing pauses."""
        # These steps need HAProxy: a failure there, before any HAProxy served, is blamed on it.
        if self._haproxy and not self._front.has_served and {"api", "answer"} & self._head.steps.keys():
            self._late_fronts += 1
            if is_loopback(self._settings.host) or self._late_fronts >= MOST_FRONT_STARTS:
                self._without_haproxy("HAProxy did not start in time; see supervisor.log")
        # A first start that fails is reported to a waiting operator; later failures are repaired.
        elif self.state.ready_after_s is None:
            self._save_phase("failed", redact(message))
            return
        _log.error("bringing_up_failed", reason=message, rest_s=self._rest_s)
        self._save_phase("recovering" if self.state.ready_after_s else "starting", message)
        self._end_ray()
        self._again = True
        self._wait_until = time.monotonic() + self._rest_s
        self._rest_s = min(2 * self._rest_s, LONGEST_REST_S)

    def _try_haproxy_again(self) -> None:
        """Switch to HAProxy when it is due: Ray is started again, because Serve chooses its proxy when it starts.

        A stand-in binds the port before Ray ends, so no connection is refused meanwhile.
        """
        if self._front.is_due():
            _log.warning("haproxy_tried_again")
            try:
                self._connections = self._front.begin_change_over()
            except (Fault, OSError) as error:
                _log.warning("haproxy_missing", reason=str(error))
                self._front.postpone()
        # Ray is ended only when the stand-in holds the port.
        if not self._front.has_bound():
            return
        self._haproxy = True
        self._save_phase(
            "recovering", "changing over to HAProxy", proxy="haproxy", restarts=self._count_restart("front")
        )
        self._end_ray()
        self._api.reset()
        self._again = True

    def _ensure_ray(self) -> None:
        if self._head.is_dead():
            _log.error("ray_died", vital=self._head.vital)
            self._save_phase(
                "recovering", "Ray died and is started again", restarts=self._count_restart("ray")
            )
            self._end_ray()
            self._again = True
            return
        self._api.refresh()
        silent_s = self._api.silent_s
        # The longer silence first: both conditions are true then.
        if silent_s > START_AGAIN_S:
            _log.error("api_silent", silent_s=round(silent_s))
            self._save_phase(
                "recovering",
                "the API stays silent; Ray is started again",
                restarts=self._count_restart("ray"),
            )
            self._end_ray()
            self._api.reset()
            self._again = True
        elif silent_s > DEPLOY_AGAIN_S and self.state.phase == "ready":
            _log.error("api_silent", silent_s=round(silent_s))
            self._save_phase(
                "recovering",
                "the API is silent and is deployed again",
                restarts=self._count_restart("api"),
            )
            self._again = False

    def _end(self) -> None:
        """End everything; only the data and, after a failure, the reason remain."""
        # The state file stays then: `kiosk up` shows its reason.
        failed = self.state.phase == "failed"
        if not failed:
            self._save_phase("stopping", "stopping")
        # New requests are refused first, then the parts end that answer them. Redis ends last.
        self._front.stop_listening()
        self._end_ray(keep_front=False)
        if self._redis is not None:
            self._redis.stop()
        # It contains a password, also that of an external Redis.
        self._paths.redis_url.unlink(missing_ok=True)
        # Once more: parts that were started while the others ended.
        left = end_processes(list_processes(self._paths), 2.0)
        shutil.rmtree(self._paths.run_dir, ignore_errors=True)
        self._paths.haproxy_wrapper.unlink(missing_ok=True)
        self._paths.haproxy_options.unlink(missing_ok=True)
        if not failed:
            self._paths.state.unlink(missing_ok=True)
        reap_orphans(set())
        _log.info("installation_ended", left=[process.pid for process in left])

    def _end_ray(self, *, keep_front: bool = True) -> None:
        """End Ray; HAProxy stays and answers that the service is busy, unless everything ends."""
        front = {pid for pid in (self._front.pid, *self._front.children) if pid} if keep_front else set()
        self._head.end(spare=self._processes_to_keep() | front)
        if keep_front:
            self._front.detach_from_ray()

    def _processes_to_keep(self) -> set[int]:
        return {self._redis.pid} if self._redis is not None else set()

    def _children(self) -> set[int]:
        return self._processes_to_keep() | self._head.children | self._front.children

    def _count_restart(self, part: str) -> dict[str, int]:
        return {**self.state.restarts, part: self.state.restarts.get(part, 0) + 1}

    def _save_phase(self, phase: Phase, message: str, **changes: object) -> None:
        pids = {"supervisor": os.getpid(), **self._head.vital}
        if self._redis is not None:
            pids["redis"] = self._redis.pid
        update = {"phase": phase, "message": message, "pids": pids, **changes}
        if phase == "starting" and message != self.state.message and len(self.state.stages) < MOST_STAGES:
            update["stages"] = (*self.state.stages, (round(time.monotonic() - self._begun, 1), message))
        self.state = self.state.model_copy(update=update)
        try:
            save_state(self._paths, self.state)
        except OSError as error:  # a full disk must not end the supervisor
            _log.error("state_not_saved", reason=error.strerror)
        self._report_state(self.state)


def main() -> int:
    """Run the supervisor of the installation named by the environment (started by `kiosk up`)."""
    from cluster.build_info import installed_version, package_root
    from cluster.log import set_up_logging

    set_up_logging(process="supervisor")
    if find_secrets(os.environ):  # `kiosk up` has moved them to files; this module was started by hand
        prepare_node()
    return Supervisor(SupervisorConfig(Settings(), installed_version(), package_root())).run()


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # All processes have ended; the interpreter's own exit would wait for threads with pending requests.
    os._exit(code)
