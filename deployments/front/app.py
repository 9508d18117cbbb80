"""The Serve applications of the API replicas and of the proxies: `deployments.front.app:build`, `:build_anchors`."""

from __future__ import annotations

from typing import Any

from ray import serve
from ray.serve import Application
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy
from ray.serve.schema import LoggingConfig

from cluster.runtime.replica_resources import reserved_bytes
from cluster.settings import Settings
from deployments.edge.scaling import POLICY
from deployments.front.gateway import Gateway
from deployments.front.node_anchor import NodeAnchor

NAME = "api"
DRAINING_S = 65.0
"Seconds a stopping replica may take: as long as HAProxy may still route to it, plus the longest request."


def build(args: dict[str, Any]) -> Application:
    """Build the application.

    `args` may hold `replicas_min`, `replicas_max`, `max_replicas_per_node`, `num_cpus` and `memory_budget_mb`. It
    holds no secrets.
    """
    settings = Settings()
    budget_mb = int(args.get("memory_budget_mb") or settings.memory_mb)
    per_node = args.get("max_replicas_per_node")
    reserved = {"memory": reserved_bytes(budget_mb)} if settings.reserve_memory else {}
    autoscaling = AutoscalingConfig(
        min_replicas=int(args.get("replicas_min", settings.replicas_min)),
        max_replicas=int(args.get("replicas_max", settings.replicas_max)),
        look_back_period_s=15.0,
        upscale_delay_s=10.0,
        downscale_delay_s=120.0,
        policy=AutoscalingPolicy(policy_function=POLICY),
    )
    deployment = serve.deployment(
        serve.ingress()(Gateway),
        name=NAME,
        autoscaling_config=autoscaling,
        # The request handler counts requests once they are complete. Serve would count them from their first
        # byte, so clients that send nothing more could block all others.
        max_ongoing_requests=10_000,
        health_check_period_s=5.0,
        health_check_timeout_s=10.0,
        # During an update there is one replica more: an old replica stops after a new one is warm.
        max_surge_percent=1,
        graceful_shutdown_timeout_s=DRAINING_S,
        # The access log samples requests and omits ids. Serve's would have one line per request, with the path.
        logging_config=LoggingConfig(enable_access_log=False),
        max_replicas_per_node=int(per_node) if per_node else None,
        ray_actor_options={
            # For placement only: Ray does not limit what a process uses.
            "num_cpus": float(args.get("num_cpus", 0.1)),
            **reserved,
            **settings.node_options("api"),
        },
    )
    return deployment.bind({"memory_budget_mb": budget_mb})


def build_anchors(args: dict[str, Any]) -> Application:
    """Build the application that keeps an HTTP proxy on every node; `args` holds `nodes`, the number of nodes.

    Serve's `EveryNode` means every node with a replica. After a node was away, its replicas run elsewhere and nothing
    moves back, so it would have no proxy. This application has one replica on each node, which does nothing and
    reserves nothing: the replica of a node that is away waits for it. It has no route, so no request reaches it.
    """
    deployment = serve.deployment(
        NodeAnchor,
        name="node",
        num_replicas=int(args["nodes"]),
        max_replicas_per_node=1,
        ray_actor_options={
            "num_cpus": 0,
            # The replica answers no requests, so its process does not import Kiosk.
            "runtime_env": {"env_vars": {"RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": ""}},
        },
        logging_config=LoggingConfig(enable_access_log=False),
    )
    # With a new version for each deployment, Serve would replace all replicas and stop proxies meanwhile.
    return deployment.options(version="1", _internal=True).bind()
