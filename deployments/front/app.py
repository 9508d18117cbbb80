"""The Serve application of the API replicas: `deployments.front.app:build`."""

from __future__ import annotations

from typing import Any

from ray import serve
from ray.serve import Application
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy
from ray.serve.schema import LoggingConfig

from cluster.settings import Settings
from deployments.edge.scaling import POLICY
from deployments.front.gateway import Gateway

NAME = "api"
DRAINING_S = 65.0
"Seconds a stopping replica may take: as long as HAProxy may still route to it, plus the longest request."


def build(args: dict[str, Any]) -> Application:
    """Build the application.

    `args` may hold `replicas_min`, `replicas_max` and `memory_budget_mb`. It holds no secrets.
    """
    settings = Settings()
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
        ray_actor_options={"num_cpus": float(args.get("num_cpus", 0.1)), **settings.node_options("api")},
    )
    return deployment.bind({"memory_budget_mb": int(args.get("memory_budget_mb", 512))})
