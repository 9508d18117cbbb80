"""An archive on a port of its own, behind a proxy that may spoil things."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette

from cluster.clock import SystemClock
from cluster.crypto import Vault
from cluster.process.free_ports import free_ports
from cluster.records.account import Account, hash_password
from cluster.records.archive.archive_terms import ArchiveTerms
from cluster.records.archive.named_archive import NamedArchive
from deployments.archive.archive_config import PLAYGROUND, ArchiveConfig
from deployments.archive.services import build_archive_routes, open_archive
from tests.contract.test_named_archives import Apps
from tests.fakes.archive import SmallArchive, sample_articles
from tests.fakes.request_handler import MASTER
from tests.fakes.stores.memory import memory_stores

PASSWORD = "correct-horse-battery"
ACCOUNTS = ["ada", *(f"reader-{number}" for number in range(20))]
"Several, because the attempts to sign in of each are limited."


class Proxy:
    """Stands in front of the archive and may spoil things."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.add: list[tuple[bytes, bytes]] = []
        self.drop = b""
        self.status: dict[tuple[str, int], int] = {}
        self.replace: tuple[bytes, bytes] = (b"", b"")
        self.drop_reply = b""
        self.error_page = b""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, spoiled or not."""
        kept = [pair for pair in scope["headers"] if pair[0] != self.drop]

        spoiled = False

        async def spoil(message: Any) -> None:
            nonlocal spoiled
            if message["type"] == "http.response.start":
                status = self.status.get((scope["path"], message["status"]), message["status"])
                headers = [*(pair for pair in message["headers"] if pair[0] != self.drop_reply), *self.add]
                spoiled = bool(self.error_page) and status in (400, 404) and scope["path"] == "/mcp"
                if self.replace[0] or spoiled:
                    headers = [pair for pair in headers if pair[0] != b"content-length"]
                message = {**message, "status": status, "headers": headers}
            elif spoiled:
                message = {**message, "body": self.error_page}
            elif self.replace[0]:
                message = {**message, "body": message.get("body", b"").replace(*self.replace)}
            await send(message)

        await self._app({**scope, "headers": kept}, receive, spoil)


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[str, Proxy]]:
    """An archive with one account, behind a proxy."""
    [port] = free_ports(1)
    clock = SystemClock()
    stores = memory_stores(clock)
    archive = SmallArchive(sample_articles())
    terms = {PLAYGROUND: {"": ArchiveTerms(permits=("search",))}}
    apps = Apps({"sports": NamedArchive(title="Sports", members_only=False)}, terms)
    services = open_archive(stores, Vault(MASTER), archive, clock, ArchiveConfig(port=port), apps)
    proxy = Proxy(Starlette(routes=build_archive_routes(services)))
    server = uvicorn.Server(uvicorn.Config(proxy, port=port, log_level="critical", lifespan="off"))

    async def run() -> None:
        password = hash_password(PASSWORD)
        for number, name in enumerate(ACCOUNTS):
            await stores.accounts.add(
                Account(username=name, user_id=f"u-{number}", password=password, created_at=0)
            )
        await services.start()
        await server.serve()
        await services.close()

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        yield f"http://127.0.0.1:{port}", proxy
    finally:
        server.should_exit = True
        thread.join(10)


@pytest.fixture(autouse=True)
def _honest(place: tuple[str, Proxy]) -> Iterator[None]:
    yield
    proxy = place[1]
    proxy.add, proxy.drop, proxy.status, proxy.replace = [], b"", {}, (b"", b"")
    proxy.drop_reply, proxy.error_page = b"", b""
