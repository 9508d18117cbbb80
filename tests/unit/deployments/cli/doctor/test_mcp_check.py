"""`kiosk doctor mcp` against an archive on a port of its own, and against ones that were put behind bad proxies."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette

from cluster.clock import SystemClock
from cluster.records.account import Account, hash_password
from cluster.secrecy import Vault
from deployments.archive.services import ArchiveConfig, build_archive_routes, open_archive
from deployments.cli.doctor.mcp_check import McpCheck
from deployments.operations.insight.installation_checks import Finding
from tests.fakes.archive import SmallArchive, sample_articles
from tests.fakes.request_handler import MASTER
from tests.fakes.stores.memory import memory_stores

pytestmark = pytest.mark.usefixtures("allow_world")
PASSWORD = "correct-horse-battery"


class Proxy:
    """Stands in front of the archive and may spoil things."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.add: list[tuple[bytes, bytes]] = []
        self.drop = b""
        self.status: dict[tuple[str, int], int] = {}
        self.replace: tuple[bytes, bytes] = (b"", b"")

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a request on, spoiled or not."""
        kept = [pair for pair in scope["headers"] if pair[0] != self.drop]

        async def spoil(message: Any) -> None:
            if message["type"] == "http.response.start":
                status = self.status.get((scope["path"], message["status"]), message["status"])
                headers = [*message["headers"], *self.add]
                if self.replace[0]:
                    headers = [pair for pair in headers if pair[0] != b"content-length"]
                message = {**message, "status": status, "headers": headers}
            elif self.replace[0]:
                message = {**message, "body": message.get("body", b"").replace(*self.replace)}
            await send(message)

        await self._app({**scope, "headers": kept}, receive, spoil)


@pytest.fixture(scope="module")
def place() -> Iterator[tuple[str, Proxy]]:
    """An archive with one account, behind a proxy."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    clock = SystemClock()
    stores = memory_stores(clock)
    archive = SmallArchive(sample_articles())
    means = open_archive(stores, Vault(MASTER), archive, clock, ArchiveConfig(port=port))
    proxy = Proxy(Starlette(routes=build_archive_routes(means)))
    server = uvicorn.Server(uvicorn.Config(proxy, port=port, log_level="critical", lifespan="off"))

    async def run() -> None:
        account = Account(username="ada", user_id="u-1", password=hash_password(PASSWORD), created_at=0)
        await stores.accounts.add(account)
        await means.start()
        await server.serve()
        await means.close()

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


def walk(base: str, password: str = PASSWORD, question: str = "river comet") -> list[Finding]:
    """Go the whole way."""
    return list(McpCheck(base, "ada", password, question).run())


def test_a_good_archive_is_walked_to_the_end(place: tuple[str, Proxy]) -> None:
    findings = walk(place[0])
    assert [finding.level for finding in findings] == ["warning", *["ok"] * 9], findings
    assert "cited as [" in findings[7].words


def test_an_empty_archive_is_a_warning(place: tuple[str, Proxy]) -> None:
    call = walk(place[0], question="zzz")[7]
    assert (call.check, call.level) == ("call", "warning")
    assert "found nothing" in call.words


def test_a_wrong_password_ends_the_walk_at_the_page(place: tuple[str, Proxy]) -> None:
    last = walk(place[0], password="wrong-horse-battery")[-1]
    assert (last.check, last.level) == ("sign-in", "bad")


@pytest.mark.parametrize(
    ("spoil", "check", "words"),
    [
        ({"add": [(b"www-authenticate", b"Basic")]}, "endpoint", "asks for sign-in"),
        ({"drop": b"origin"}, "endpoint", "stranger's page"),
        ({"status": {("/mcp", 405): 404}}, "endpoint", "GET answered 404"),
        ({"replace": (b'/mcp"', b'/mcp/"')}, "discovery", "resource is"),
        ({"replace": (b"S256", b"plain")}, "discovery", "S256"),
        ({"replace": (b'/archive"', b'/archive/"')}, "discovery", "authorization server"),
        ({"status": {("/.well-known/openid-configuration/archive", 404): 200}}, "discovery", "openid"),
        ({"add": [(b"content-security-policy", b"form-action 'self'")]}, "sign-in", "form-action"),
        ({"replace": (b'"expires_in": 3600', b'"expires_in": 3600.0')}, "PKCE and token", "expires_in"),
        ({"replace": (b'"ask_archive"', b'"ask_the_archive"')}, "initialize and list", "the tools are"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_a_proxy_spoils_is_named(place: tuple[str, Proxy], spoil: Any, check: str, words: str) -> None:
    for name, value in spoil.items():
        setattr(place[1], name, value)
    last = walk(place[0])[-1]
    assert (last.check, last.level) == (check, "bad"), last
    assert words in last.words


def test_an_unreachable_server_gives_one_sentence() -> None:
    last = walk("http://127.0.0.1:9")[-1]
    assert last.level == "bad"
    assert "does not answer" in last.words


def test_plain_http_beyond_loopback_is_reported_first() -> None:
    (only,) = walk("http://news.example.com")
    assert "plain http" in only.words
