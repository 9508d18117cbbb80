"""A Serve application that echoes, for tests of starting, killing and stopping that need no product."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from fastapi import FastAPI, Request
from ray import serve


class Echo:
    """One replica; built inside the replica like the real gateway."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options

    async def __serve_build_asgi_app__(self) -> FastAPI:
        """Build the application."""
        app = FastAPI()

        @app.get("/echo/{text}")
        async def echo(text: str) -> dict[str, Any]:
            return {"text": text, "pid": os.getpid()}

        @app.get("/threads")
        async def threads() -> dict[str, str]:
            return {name: value for name, value in os.environ.items() if name.endswith("_THREADS")}

        @app.post("/echo/slow")
        async def slow(request: Request) -> dict[str, Any]:
            body = await request.body()
            await asyncio.sleep(float(request.query_params.get("seconds", 0)))
            return {"bytes": len(body), "headers": dict(request.headers)}

        return app


def build(args: dict[str, Any]) -> Any:
    """Build the application; `replicas` may be given."""
    deployment = serve.deployment(
        serve.ingress()(Echo),
        name="api",
        num_replicas=int(args.get("replicas", 1)),
        max_ongoing_requests=256,
        health_check_period_s=float(args.get("health_check_period_s", 5.0)),
        ray_actor_options={"num_cpus": 0.1},
    )
    return deployment.bind({})
