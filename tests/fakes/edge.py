"""A whole replica's edge behind a port: REST, archive, sign-in and pages over memory stores, no Ray."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import uvicorn

from cluster.clock import SystemClock
from cluster.process.free_ports import free_ports
from deployments.api.http.application import build_application
from deployments.api.http.hot import HotPathMiddleware
from deployments.archive.services import build_archive_routes
from deployments.edge.http.client_address import ClientAddresses
from tests.fakes.archive import ArchiveCorner, open_archive_corner
from tests.fakes.asgi import call
from tests.fakes.request_handler import Corner, open_corner
from tests.suites.waiting import wait_until


class Edge:
    """Serves like a replica, with the HTTP server that replicas use."""

    corner: Corner
    archive: ArchiveCorner

    def __init__(self, *, behind_haproxy: bool = True) -> None:
        self.port = free_ports(1)[0]
        self._behind_haproxy = behind_haproxy
        self._server: uvicorn.Server | None = None
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        wait_until(lambda: self._server is not None and self._server.started)

    async def _run(self) -> None:
        addresses = ClientAddresses(behind_haproxy=self._behind_haproxy)
        self.corner = await open_corner(clock=SystemClock())
        self.archive = await open_archive_corner(client_addresses=addresses)
        self.corner.handler._addresses = addresses
        product = {"data": [{"product_id": "hoe-11"}]}
        await call(self.corner.handler, "POST", "/v1/products", headers=self.corner.headers(), json=product)
        await self.corner.apply()
        ordinary = build_application(
            self.corner.handler, version="0", more=build_archive_routes(self.archive.services)
        )
        layer = HotPathMiddleware(ordinary, lambda: self.corner.handler)

        async def app(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http" and scope["path"] == "/-/healthz":
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await send({"type": "http.response.body", "body": b"success"})
                return
            await layer(scope, receive, send)

        config = uvicorn.Config(
            app, port=self.port, log_level="critical", lifespan="off", access_log=False, proxy_headers=False,
            timeout_keep_alive=600,
        )  # fmt: skip
        server = uvicorn.Server(config)
        self._server = server
        await server.serve()

    def stop(self) -> None:
        """End it and every connection."""
        assert self._server is not None
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(10)
