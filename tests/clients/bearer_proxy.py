"""A proxy that adds an access token, for programs that test servers but can't sign in.

    python -m tests.clients.bearer_proxy PORT ARCHIVE_PORT

Prints one line when it answers. Everything else passes through as it is, `Host` and `SnapshotOrigin` included.
"""

from __future__ import annotations

import asyncio
import sys

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cluster.clock import SystemClock
from cluster.crypto import Vault
from cluster.records.account import Grant
from deployments.archive.archive_config import ArchiveConfig
from deployments.archive.services import open_archive
from tests.fakes.archive import SmallArchive
from tests.fakes.request_handler import MASTER
from tests.fakes.stores.memory import memory_stores

METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]
_PASSED = (
    "content-type",
    "www-authenticate",
    "allow",
    "vary",
    "access-control-allow-origin",
    "mcp-session-id",
)


async def main(port: int, archive_port: int) -> None:
    """Pass everything on until told to stop."""
    clock = SystemClock()
    services = open_archive(
        memory_stores(clock), Vault(MASTER), SmallArchive(), clock, ArchiveConfig(port=port)
    )

    def token_for(host: str) -> str:
        """Make a token for the address that was called: what it is good for is part of it."""
        grant = Grant(
            grant_id="g", user_id="u-1", username="ida", client_id="c", client_name="tester",
            resource=f"http://{host}/mcp", created_at=clock.now_ms(),
        )  # fmt: skip
        return services.oauth.access_tokens.issue(grant, 3600)

    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{archive_port}", timeout=30) as client:

        async def passed(request: Request) -> Response:
            given = {name: value.strip() for name, value in request.headers.items()}
            headers = {"authorization": f"Bearer {token_for(given.get('host', ''))}", **given}
            body = await request.body()
            reply = await client.request(request.method, request.url.path, content=body, headers=headers)
            kept = {name: reply.headers[name] for name in _PASSED if name in reply.headers}
            return Response(reply.content, reply.status_code, kept)

        app = Starlette(routes=[Route("/{path:path}", passed, methods=METHODS)])
        server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", lifespan="off"))
        telling = asyncio.create_task(_report_ready(server))
        try:
            await server.serve()
        finally:
            telling.cancel()


async def _report_ready(server: uvicorn.Server) -> None:
    while not server.started:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    print("ready", flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
