"""Every endpoint of the table, called as it must not be called: without a key, with wrong ones, methods and bodies."""

from __future__ import annotations

from collections.abc import Sequence

from deployments.api.http.endpoint import Endpoint
from tests.golden.caller import Caller

_NOBODY = "00000000-0000-4000-8000-000000000000"


async def refuse_everywhere(caller: Caller, table: Sequence[Endpoint]) -> None:
    """Send what every endpoint refuses, and once an empty object as a server may."""
    for endpoint in table:
        target = endpoint.path.replace("{", "").replace("}", "").replace("_id", "-id")
        for name in ("task_id", "thread_id", "question_id", "erasure_id"):
            target = target.replace(name.replace("_id", "-id"), _NOBODY)
        what = f"{endpoint.method} {endpoint.path}"
        method = endpoint.method
        await caller.send(method, target, json={}, what=f"{what} without a key")
        await caller.send(
            method, target, json={}, headers={"x-api-key": "nonsense"}, what=f"{what} nonsense key"
        )
        unknown = "ksk_dev_" + "A" * 43
        await caller.send(method, target, json={}, headers={"x-api-key": unknown}, what=f"{what} unknown key")
        await caller.send(method, target, json={}, key=("shop", "publishable"), what=f"{what} publishable")
        await caller.send(method, target, json={}, key=("playground", "secret"), what=f"{what} read-only app")
        await caller.send(method, target, json={}, key=("other", "secret"), what=f"{what} empty object")
        await caller.send(method, target, body=b"{", key=("other", "secret"), what=f"{what} broken JSON")
        await caller.send("BREW", target, key=("other", "secret"), what=f"BREW {endpoint.path}")
        preflight = {"origin": "https://shop.example", "access-control-request-method": method}
        await caller.send("OPTIONS", target, headers=preflight, what=f"{what} preflight")
        token = {"authorization": "Bearer a.b.c"}
        await caller.send(
            method, target, json={}, key=("other", "secret"), headers=token, what=f"{what} bad token"
        )


async def visit_pages(caller: Caller) -> None:
    """Open every page, as a browser and as a program."""
    pages = [
        "/",
        "/docs",
        "/openapi.json",
        "/redoc",
        "/robots.txt",
        "/favicon.ico",
        "/v1",
        "/v1/",
        "/nothing",
        "/llms.txt",
        "/.well-known/mcp-server-card",
        "/mcp/server-card",
        "/-/routes",
        "/v1/products/",
        "/v1//products",
        "/docs/try",
        "/.well-known/oauth-authorization-server",
        "/.well-known/oauth-protected-resource",
        "/v1/try",
        "/try",
    ]
    for page in pages:
        for accept in ("text/html", "application/json"):
            for method in ("GET", "HEAD", "POST"):
                headers = {"accept": accept, "host": "news.example.com"}
                await caller.send(method, page, headers=headers, what=f"{method} {page} {accept}")
