"""Behind a caching proxy: HAProxy with its cache, in front of a real server. What may be kept, and what never is."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from cluster.local.haproxy_process import find_haproxy
from cluster.process.free_ports import free_ports
from cluster.records.apps import AppSettings
from deployments.api.http.application import build_application
from deployments.demo.browser_script import build_script_routes
from deployments.edge.http.client_address import ClientAddresses
from tests.contract.oauth.test_browser import serving
from tests.fakes.request_handler import BROWSER, PLENTY, Corner, open_corner
from tests.suites.waiting import until

CONFIG = """
global
    maxconn 100
defaults
    mode http
    timeout connect 2s
    timeout client 10s
    timeout server 10s
cache pages
    total-max-size 16
    max-age 3600
    process-vary on
frontend edge
    bind 127.0.0.1:{port}
    option forwardfor
    http-request cache-use pages
    http-response cache-store pages
    default_backend kiosk
backend kiosk
    server replica {replica}
"""


class _Counted:
    """Counts the requests that reach the server, by path."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.paths: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.paths.append(scope.get("path", ""))
        await self.app(scope, receive, send)


def _is_listening(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


@asynccontextmanager
async def _edge(folder: Path, replica: str) -> AsyncIterator[str]:
    [port] = free_ports(1)
    written = folder / "edge.cfg"
    written.write_text(CONFIG.format(port=port, replica=replica.removeprefix("http://")))
    quiet = asyncio.subprocess.DEVNULL
    proxy = await asyncio.create_subprocess_exec(find_haproxy(), "-db", "-f", str(written), stderr=quiet)
    try:
        await until(lambda: _is_listening(port))
        yield f"http://127.0.0.1:{port}"
    finally:
        proxy.terminate()
        await proxy.wait()


@asynccontextmanager
async def _opened(
    folder: Path, settings: AppSettings
) -> AsyncIterator[tuple[Corner, _Counted, httpx.AsyncClient]]:
    corner = await open_corner(addresses=ClientAddresses(["127.0.0.1"]))
    await corner.open_app("shop", settings=settings)
    app = _Counted(build_application(corner.handler, version="0", more=build_script_routes()))
    async with (
        serving(app) as replica,  # type: ignore[arg-type]
        _edge(folder, replica) as edge,
        httpx.AsyncClient(base_url=edge, headers={"User-Agent": BROWSER}, timeout=10) as client,
    ):
        yield corner, app, client
    await corner.close()


async def _upload(corner: Corner, client: httpx.AsyncClient, *products: dict[str, Any]) -> None:
    reply = await client.post("/v1/products", headers=corner.headers(), json={"data": products})
    assert reply.status_code == 200, reply.text
    await corner.apply()


async def test_scripts_come_from_the_cache(tmp_path: Path) -> None:
    async with _opened(tmp_path, AppSettings(limits=PLENTY)) as (_, app, client):
        for path in ("/kiosk-1.js", "/kiosk-1.0.0.js"):
            first, second = await client.get(path), await client.get(path)
            assert (first.status_code, second.content) == (200, first.content)
            assert app.paths.count(path) == 1, "the second one did not reach the server"


async def test_nothing_that_needs_a_key_comes_from_the_cache(tmp_path: Path) -> None:
    async with _opened(tmp_path, AppSettings(limits=PLENTY)) as (corner, app, client):
        await _upload(corner, client, {"product_id": "hoe-11", "title": "Draw hoe"})
        users = {"data": [{"user_id": "gina", "name": "Gina"}]}
        await client.post("/v1/users", headers=corner.headers(), json=users)
        await corner.apply()
        for path in ("/v1/products/hoe-11", "/v1/users/gina", "/v1/users/_ids"):
            good = await client.get(path, headers=corner.headers())
            addressed = await client.get(path, params={"api_key": corner.secret()})
            other = await client.get(path, headers=corner.headers("other"))
            none = await client.get(path)
            statuses = [reply.status_code for reply in (good, addressed, other, none)]
            assert statuses == [200, 200, 404, 401], path
            again = await client.get(path, params={"api_key": corner.secret()})
            assert app.paths.count(path) == 5, path
            assert all("age" not in reply.headers for reply in (good, addressed, other, none, again))
        await _upload(corner, client, {"product_id": "hoe-11", "title": "Dutch hoe"})
        changed = await client.get("/v1/products/hoe-11", headers=corner.headers())
        assert changed.json()["title"] == "Dutch hoe"


async def test_the_list_of_one_visitor_is_never_that_of_another(tmp_path: Path) -> None:
    async with _opened(tmp_path, AppSettings(limits=PLENTY)) as (corner, app, client):
        await _upload(corner, client, {"product_id": "hoe-11"})
        path = f"/v1/recommendation/user_to_products?api_key={corner.publishable()}"
        for visitor in ("a-1", "a-2", "a-1"):
            corner.recommender.products = [{"product_id": f"for-{visitor}"}]
            reply = await client.post(path, json={"anonymous_id": visitor})
            assert reply.json()["data"]["products"] == [{"product_id": f"for-{visitor}"}]
        preflight = await client.request("OPTIONS", path, headers={"Origin": "https://shop.example"})
        assert preflight.status_code == 204
        assert app.paths.count("/v1/recommendation/user_to_products") == 4


async def test_a_limit_counts_the_visitor_and_not_the_proxy(tmp_path: Path) -> None:
    limits = PLENTY.model_copy(update={"queries_per_s": 1.0, "query_burst": 40})
    async with _opened(tmp_path, AppSettings(limits=limits, address_share=0.1)) as (corner, _, client):
        await _upload(corner, client, {"product_id": "hoe-11"})
        path = f"/v1/recommendation/user_to_products?api_key={corner.publishable()}"

        async def ask(address: str) -> int:
            # The proxy appends its peer, 127.0.0.1, which is trusted, so the entry before it counts.
            headers = {"X-Forwarded-For": address}
            return (await client.post(path, json={}, headers=headers)).status_code

        greedy = [await ask("198.51.100.7") for _ in range(10)]
        assert greedy[0] == 200
        assert greedy[-1] == 429
        assert await ask("198.51.100.8") == 200, "another visitor behind the same proxy"
