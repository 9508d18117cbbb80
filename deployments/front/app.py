"""The Serve application of the doors: `deployments.front.app:build`."""

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
"How long a replica may go on after it was told to stop: as long as HAProxy may know it, and its longest request."


def build(args: dict[str, Any]) -> Application:
    """Build the application. `args` may hold `replicas_min`, `replicas_max` and `memory_budget_mb`; no secrets."""
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
        # Requests count where they are answered, once they are whole. Serve would count them from their first
        # byte, so that callers who send nothing more could stop all others.
        max_ongoing_requests=10_000,
        health_check_period_s=5.0,
        health_check_timeout_s=10.0,
        # One replica more than usual while a new version comes in: an old one stops when a new one is warm.
        max_surge_percent=1,
        graceful_shutdown_timeout_s=DRAINING_S,
        # Our own lines are a sample without ids; Serve's would be one a request, with the path.
        logging_config=LoggingConfig(enable_access_log=False),
        ray_actor_options={"num_cpus": float(args.get("num_cpus", 0.1))},
    )
    return deployment.bind({"memory_budget_mb": int(args.get("memory_budget_mb", 512))})
