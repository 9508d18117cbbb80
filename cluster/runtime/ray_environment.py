"""The environment variables that must be set before Ray starts: every process of Ray inherits them.

Ray and Serve read these when they are imported, so they must be set before the first import, not in code that
runs after it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cluster.paths import InstallationPaths
from cluster.process.free_ports import free_ports, port_range
from cluster.process.installation_processes import MARK
from cluster.process.priority import BACKGROUND_NICENESS, VARIABLE

HOT_LAYER = "deployments.api.http.hot:middlewares"
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "POLARS_MAX_THREADS",
    "RAYON_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
"Each library would use all cores in each replica; a value set by the operator stays."
LOG_VARIABLES = {
    "RAY_ROTATION_MAX_BYTES": 10 << 20,
    "RAY_ROTATION_BACKUP_COUNT": 2,
    "RAY_SERVE_LOG_ROTATION_MAX_BYTES": 10 << 20,
    # Otherwise Serve holds 1,000 lines of a replica back, and loses them when the replica is killed.
    "RAY_SERVE_REQUEST_PATH_LOG_BUFFER_SIZE": 1,
}
"Rotation of the logs of all processes, and lines that are written at once."
HARD_STOP_S = 30
"Seconds a replaced HAProxy may keep its connections."
HAPROXY_VARIABLE = "RAY_SERVE_ENABLE_HA_PROXY"
NEVER_INHERITED = ("RAY_ADDRESS", "RAY_JOB_ID", "RAY_AUTH_TOKEN", "RAY_REDIS_ADDRESS", "RAY_NAMESPACE")
"Variables of another cluster, which would redirect these processes to it."


@dataclass(frozen=True, slots=True)
class RayPorts:
    """Loopback ports of one start; free ones, so installations never conflict."""

    gcs: int
    dashboard: int
    agent: int
    fallback_proxy: int
    statistics: int
    metrics: int
    exports: int = 0
    "Port where Prometheus reads the metrics of all processes; 0: Ray chooses."

    @classmethod
    def choose(cls) -> RayPorts:
        """Return free ports."""
        return cls(*free_ports(7))


def shared_environment(paths: InstallationPaths, inherited: Mapping[str, str], root: Path) -> dict[str, str]:
    """Return the variables that all processes of an installation share, the supervisor included.

    `root` is the directory of Kiosk's packages; in a checkout Python does not search it by default.
    """
    environment = {name: value for name, value in inherited.items() if name not in NEVER_INHERITED}
    environment.setdefault("KIOSK_DATA_DIR", str(paths.data_dir))
    environment[MARK] = paths.mark
    environment |= python_path(inherited, root)
    # So that `python` in a job's entrypoint is the one with Kiosk's packages, activated or not.
    bin_dir = os.path.dirname(sys.executable)
    path = inherited.get("PATH", os.defpath)
    environment["PATH"] = path if path.split(os.pathsep)[0] == bin_dir else os.pathsep.join([bin_dir, path])
    for name in THREAD_VARIABLES:
        environment.setdefault(name, "1")
    # glibc makes up to eight arenas for each core, and each of them keeps freed memory.
    environment.setdefault("MALLOC_ARENA_MAX", "2")
    # Ray's processes give themselves titles; without this they overwrite their environment, and the mark, with it.
    environment["SPT_NOENV"] = "1"
    return environment


def python_path(inherited: Mapping[str, str], root: Path) -> dict[str, str]:
    """Return the directory of Kiosk's packages if Python would not find them by default."""
    if root.name in ("site-packages", "dist-packages"):
        return {}
    path = [part for part in inherited.get("PYTHONPATH", "").split(":") if part and part != str(root)]
    return {"PYTHONPATH": ":".join([str(root), *path])}


def ray_environment(
    paths: InstallationPaths, ports: RayPorts, *, haproxy: bool, max_connections: int = 4096
) -> dict[str, str]:
    """Return the variables that configure Ray, Serve and HAProxy on the one machine of `kiosk up`."""
    lowest, highest = port_range(paths.mark)
    variables = {
        **serving_environment(paths, paths.haproxy_wrapper),
        # Ray on Linux replaces 127.0.0.1 by the machine's outer address, unless it believes that this
        # platform can't have clusters.
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": 0,
        VARIABLE: BACKGROUND_NICENESS,
        HAPROXY_VARIABLE: int(haproxy),
        "RAY_SERVE_FALLBACK_PROXY_HTTP_PORT": ports.fallback_proxy,
        "RAY_SERVE_DIRECT_INGRESS_MIN_HTTP_PORT": lowest,
        "RAY_SERVE_DIRECT_INGRESS_MAX_HTTP_PORT": highest,
        "RAY_SERVE_HAPROXY_METRICS_PORT": ports.metrics,
        "RAY_SERVE_HAPROXY_STATS_PORT": ports.statistics,
        "RAY_SERVE_HAPROXY_MAXCONN": max_connections,
    }
    if not haproxy:
        variables = {name: value for name, value in variables.items() if "HAPROXY" not in name}
    return {name: str(value) for name, value in variables.items()}


def serving_environment(paths: InstallationPaths, wrapper: Path) -> dict[str, object]:
    """Return the variables of Ray and Serve that are the same on one machine and on a node of a cluster."""
    folder = paths.haproxy_dir
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": paths.ray_token,
        "RAY_START_HOOK": "cluster.runtime.bootstrap.without_client_server",
        "RAY_USAGE_STATS_ENABLED": 0,
        "RAY_DISABLE_IMPORT_WARNING": 1,
        # At 95 % of the machine's memory Ray ends workers until enough is free, whoever uses it: for another program's
        # 13 GB it ended every replica and actor at once. Without it the kernel ends the largest worker.
        "RAY_memory_monitor_refresh_ms": 0,
        **LOG_VARIABLES,
        HAPROXY_VARIABLE: 1,
        # The HTTP server in each replica would trust every peer on loopback; see `client_address`.
        "FORWARDED_ALLOW_IPS": "none",
        "RAY_SERVE_THROUGHPUT_OPTIMIZED": 1,
        "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": HOT_LAYER,
        # A replaced replica stays reachable until every HAProxy dropped it: a replaced HAProxy
        # keeps its list of replicas, and its clients' connections, until it ends.
        "RAY_SERVE_DIRECT_INGRESS_MIN_DRAINING_PERIOD_S": HARD_STOP_S + 5,
        # Serve notices a killed proxy actor after three periods.
        "RAY_SERVE_PROXY_HEALTH_CHECK_PERIOD_S": 1,
        "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": 5,
        # On a busy machine, ending a proxy actor before it is ready only restarts it; Ray notices a dead
        # one at once.
        "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": 30,
        "RAY_SERVE_HAPROXY_BINARY_PATH": wrapper,
        "RAY_SERVE_HAPROXY_CONFIG_FILE_LOC": folder / "haproxy.cfg",
        "RAY_SERVE_HAPROXY_SOCKET_PATH": folder / "a.sock",
        "RAY_SERVE_HAPROXY_SERVER_STATE_BASE": folder,
        "RAY_SERVE_HAPROXY_SERVER_STATE_FILE": folder / "servers",
        "RAY_SERVE_HAPROXY_METRICS_SOCKET_PATH": folder / "m.sock",
        # Would send one datagram for each request to a Python process.
        "RAY_SERVE_HAPROXY_METRICS_ENABLED": 0,
        "RAY_SERVE_HAPROXY_NBTHREAD": 1,
        "RAY_SERVE_HAPROXY_HARD_STOP_AFTER_S": HARD_STOP_S,
        # For a busy machine; a replica that can't start reports it at once.
        "RAY_SERVE_HAPROXY_STARTUP_TIMEOUT_S": 120,
        # The first refused connection removes a dead replica; a request that only reads is sent again to another one,
        # also if Redis did not answer in time (501, see `haproxy_config`).
        "RAY_SERVE_HAPROXY_OBSERVE_ERROR_LIMIT": 1,
        "RAY_SERVE_HAPROXY_RETRY_ON": "conn-failure empty-response 501",
        "RAY_SERVE_HAPROXY_RETRIES": 2,
        "RAY_SERVE_HAPROXY_HEALTH_CHECK_INTER": "1s",
        "RAY_SERVE_HAPROXY_HEALTH_CHECK_FASTINTER": "200ms",
        "RAY_SERVE_HAPROXY_HEALTH_CHECK_DOWNINTER": "200ms",
        "RAY_SERVE_HAPROXY_HEALTH_CHECK_FALL": 3,
        "RAY_SERVE_HAPROXY_HEALTH_CHECK_RISE": 1,
    }


def driver_environment(paths: InstallationPaths) -> dict[str, str]:
    """Return the variables that make a program a driver of this installation's Ray."""
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(paths.ray_token),
        # see `ray_environment`
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DISABLE_IMPORT_WARNING": "1",
    }


def is_behind_haproxy(environment: Mapping[str, str]) -> bool:
    """Return whether requests reach this process's installation through HAProxy."""
    return environment.get(HAPROXY_VARIABLE) == "1"


def ray_start_arguments(
    paths: InstallationPaths, ports: RayPorts, *, cpus: int, object_store_mb: int, dashboard: bool
) -> list[str]:
    """Return the arguments of `ray start`: on loopback, with free ports, without parts that Kiosk does not use."""
    return [
        "--head",
        "--node-ip-address=127.0.0.1",
        f"--port={ports.gcs}",
        # 0: the system chooses. The default range would collide with another installation's.
        "--min-worker-port=0",
        "--max-worker-port=0",
        f"--include-dashboard={'true' if dashboard else 'false'}",
        "--dashboard-host=127.0.0.1",
        f"--dashboard-port={ports.dashboard}",
        f"--dashboard-agent-listen-port={ports.agent}",
        *([f"--metrics-export-port={ports.exports}"] if ports.exports else []),
        f"--temp-dir={paths.ray_dir}",
        f"--num-cpus={cpus}",
        f"--object-store-memory={object_store_mb << 20}",
        # The autoscaler's process: one machine has no nodes to add.
        "--no-monitor",
        # It sends the output of workers to drivers, which do not want it (`log_to_driver`).
        "--include-log-monitor=false",
        "--disable-usage-stats",
    ]
