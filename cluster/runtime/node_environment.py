"""The environment of a node of an existing Ray cluster.

It is what `kiosk up` sets on one machine, and what only a cluster needs. Ray and Serve read these variables when they
are imported, so they must stand in the environment of `ray start`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cluster.errors import Invalid
from cluster.paths import InstallationPaths
from cluster.process.installation_processes import MARK
from cluster.process.priority import BACKGROUND_NICENESS, VARIABLE, can_raise_priority
from cluster.runtime.handover import hand_over
from cluster.runtime.ray_environment import serving_environment, shared_environment
from cluster.settings import SECRET_VARIABLES, Settings

RECONNECT_S = 600
"Seconds a worker waits for a head that lost its power, before it ends itself."
RAY_STORAGE = "kiosk"
"Namespace of Ray's own state in its Redis."
SPREAD = "cluster.runtime.replica_scheduler:install"
"Function by which Serve's controller spreads replicas over the nodes."


def wrapper_path(paths: InstallationPaths) -> Path:
    """Return where a node has its HAProxy wrapper; the data directory may be shared, and nodes may differ."""
    return paths.run_dir / "haproxy"


def node_environment(
    paths: InstallationPaths,
    inherited: Mapping[str, str],
    root: Path,
    *,
    head: bool,
    ray_redis: str = "",
    may_raise: bool | None = None,
) -> dict[str, str]:
    """Return the variables of a node that differ from the inherited ones; no secrets.

    `ray_redis` is the address (`host:port`) of the Redis in which Ray's head keeps its state, so that the cluster
    outlives the head.

    Errors:
        Invalid: `ray_redis` is no address
    """
    # From the right, because an IPv6 address has colons too.
    if ray_redis and not ray_redis.rpartition(":")[2].isdigit():
        raise Invalid(f"the Redis of Ray is named as host:port, not {ray_redis!r}")
    may_raise = can_raise_priority() if may_raise is None else may_raise
    kept = dict(inherited)
    kept |= _secret_files(kept, paths)
    environment = shared_environment(paths, kept, root)
    # Several nodes on one machine are no installation of `kiosk up`, which would end marked processes.
    environment.pop(MARK)
    variables: dict[str, object] = {
        **serving_environment(paths, wrapper_path(paths)),
        # A replica that is ready takes its niceness back, where it may.
        VARIABLE: BACKGROUND_NICENESS if may_raise else 0,
        "KIOSK_RESERVE_MEMORY": 1,
        "RAY_SERVE_CONTROLLER_CALLBACK_IMPORT_PATH": SPREAD,
        "RAY_gcs_rpc_server_reconnect_timeout_s": RECONNECT_S,
    }
    if head and ray_redis:
        variables |= {"RAY_REDIS_ADDRESS": ray_redis, "RAY_external_storage_namespace": RAY_STORAGE}
    # The cluster has a token already, and two would contradict each other.
    if {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & inherited.keys():
        del variables["RAY_AUTH_TOKEN_PATH"]
    environment |= {name: str(value) for name, value in variables.items()}
    # Only differences, since the result is printed for the shell that starts the node; never secrets.
    return {
        name: text
        for name, text in sorted(environment.items())
        if inherited.get(name) != text and name not in SECRET_VARIABLES
    }


def _secret_files(environment: dict[str, str], paths: InstallationPaths) -> dict[str, str]:
    """Move secrets to files of this node; return the variables that name them."""
    if any(environment.get(name) for name in SECRET_VARIABLES):
        hand_over(environment, paths.secrets_dir)
    names = [f"{name}_FILE" for name in SECRET_VARIABLES]
    return {name: environment[name] for name in names if environment.get(name)}


def check_node(settings: Settings) -> None:
    """Refuse settings with which a node could not take part.

    Errors:
        Invalid: no Redis, or no data directory is named
    """
    if not settings.redis_is_external:
        raise Invalid(
            "the nodes of a cluster share a Redis of yours: write its address to a file of mode 600 and set "
            "KIOSK_REDIS_URL_FILE to the path of that file"
        )
    if "data_dir" not in settings.model_fields_set:
        folder = "of this node" if settings.artifacts_url else "that all nodes of the cluster see"
        raise Invalid(f"set KIOSK_DATA_DIR to a folder {folder}; it holds the token of Ray, ray.token")
