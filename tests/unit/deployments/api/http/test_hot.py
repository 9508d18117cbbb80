from __future__ import annotations

import asyncio
from typing import Any

import pytest
import structlog

from deployments.api.http.application import build_application
from deployments.api.http.hot import HotPathMiddleware
from tests.fakes.asgi import call
from tests.fakes.request_handler import BROWSER, Corner


class Inside:
    """What stands behind the layer: remembers requests and answers like Serve, with a second request id."""

    def __init__(self) -> None:
        self.scopes: list[Any] = []
        self.waiting = asyncio.Event()
        self.waiting.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        await self.waiting.wait()
        headers = [(b"X-Request-ID", b"serve"), (b"content-type", b"text/plain"), (b"x-request-id", b"app")]
        await send({"type": "http.response.start", "status": 218, "headers": headers})
        await send({"type": "http.response.body", "body": b"inside"})


async def test_hot_endpoints_are_answered_in_front_and_the_rest_inside(corner: Corner) -> None:
    inside = Inside()
    layer = HotPathMiddleware(inside, lambda: corner.handler)
    for method, path, status in (
        ("GET", "/v1/users/x", 404), ("POST", "/v1/interactions", 400),
        ("POST", "/v1/recommendation/user_to_products", 400), ("POST", "/v1/users", 218),
        ("GET", "/v1/users/_ids", 218), ("GET", "/docs", 218), ("GET", "/-/healthz", 218), ("PUT", "/v1/users/x", 218),
    ):  # fmt: skip
        assert (await call(layer, method, path, headers=corner.headers())).status == status, path
    assert len(inside.scopes) == 5


@pytest.mark.parametrize(
    ("message", "status"), [(b'"DRAINING"', 200), (b'"UNHEALTHY"', 503), (b'"success"', 200)]
)
async def test_a_replica_that_is_to_stop_stays_ready_while_it_takes_requests(
    corner: Corner, message: bytes, status: int
) -> None:
    """HAProxy drops it when it knows the new one, and not before."""

    async def inside(scope: Any, receive: Any, send: Any) -> None:
        healthy = message == b'"success"'
        await send({"type": "http.response.start", "status": 200 if healthy else 503, "headers": []})
        await send({"type": "http.response.body", "body": message})

    answer = await call(HotPathMiddleware(inside, lambda: corner.handler), "GET", "/-/healthz")
    assert (answer.status, answer.body) == (status, message)
    if message == b'"DRAINING"':  # a proxy of Serve is no replica, and says what it is
        assert (await call(HotPathMiddleware(inside, lambda: None), "GET", "/-/healthz")).status == 503


async def test_one_request_id_goes_in_and_one_comes_out(corner: Corner) -> None:
    inside = Inside()
    layer = HotPathMiddleware(inside, lambda: corner.handler)
    answer = await call(layer, "GET", "/docs", headers={"X-Request-Id": "mine"})
    assert [name.lower() for name in answer.names].count("x-request-id") == 1
    assert answer.headers["x-request-id"] == "mine"
    assert dict(inside.scopes[0]["headers"])[b"x-request-id"] == b"mine"
    forged = await call(layer, "GET", "/docs", headers={"X-Request-Id": "a b"})
    assert forged.headers["x-request-id"] != "a b"


async def test_without_a_door_everything_goes_inside_and_the_search_ends(corner: Corner) -> None:
    calls = []

    def find() -> None:
        calls.append(1)

    inside = Inside()
    layer = HotPathMiddleware(inside, find)
    for _ in range(150):
        await call(layer, "GET", "/v1/users/x")
    assert len(inside.scopes) == 150
    assert len(calls) == 100


async def test_other_scopes_pass_untouched(corner: Corner) -> None:
    seen = []

    async def inside(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    layer = HotPathMiddleware(inside, lambda: corner.handler)
    await layer({"type": "lifespan"}, None, None)  # type: ignore[arg-type]
    assert seen == ["lifespan"]


async def test_hot_requests_over_the_bound_are_refused(corner: Corner) -> None:
    corner.handler.reads.limit = 2
    gate = asyncio.Event()

    async def slow(*_: Any) -> None:
        await gate.wait()

    corner.stores.records.get = slow  # type: ignore[method-assign, assignment]
    layer = HotPathMiddleware(Inside(), lambda: corner.handler)
    waiting = [
        asyncio.ensure_future(call(layer, "GET", "/v1/products/x", headers=corner.headers()))
        for _ in range(2)
    ]
    await asyncio.sleep(0.01)
    refused = await call(layer, "GET", "/v1/products/x", headers=corner.headers())
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert refused.headers["access-control-allow-origin"] == "*"
    gate.set()
    assert [answer.status for answer in await asyncio.gather(*waiting)] == [404, 404]
    assert (await call(layer, "GET", "/v1/products/x", headers=corner.headers())).status == 404


async def test_requests_count_after_key_check_and_complete_body(corner: Corner) -> None:
    """Finding 2: callers without a key, or with half a body, take nobody's place."""
    layer = HotPathMiddleware(build_application(corner.handler, version="0"), lambda: corner.handler)
    for places in (corner.handler.reads, corner.handler.slow_reads, corner.handler.writes):
        places.limit = 1
    stalled = []
    for method, path, key in (
        ("POST", "/v1/users", corner.secret()), ("POST", "/v1/interactions", corner.publishable()),
        ("POST", "/v1/recommendation/user_to_products", corner.publishable()), ("POST", "/v1/bulk", corner.secret()),
    ):  # fmt: skip
        for _ in range(3):
            stalled.append(asyncio.ensure_future(layer(*_stalled(method, path, key))))
    await asyncio.sleep(0.02)
    assert not any(request.done() for request in stalled)
    assert corner.handler.in_flight == 0
    for path in ("/v1/users", "/v1/interactions", "/v1/search/mget", "/v1/bulk"):
        answer = await call(layer, "POST", path, headers=corner.headers(), json={})
        assert answer.status in (200, 404, 422), path
    assert (await call(layer, "GET", "/docs")).status == 200
    for request in stalled:
        request.cancel()
    await asyncio.gather(*stalled, return_exceptions=True)


async def test_a_long_body_that_was_not_read_ends_its_connection(corner: Corner) -> None:
    layer = HotPathMiddleware(build_application(corner.handler, version="0"), lambda: corner.handler)
    long = {"content-length": "200000"}
    for path in ("/v1/search/search", "/v1/users", "/oauth/none", "/docs"):
        refused = await call(layer, "POST", path, headers=long)
        assert refused.headers["connection"] == "close", path
    for headers in ({"content-length": "200"}, {}):
        kept = await call(layer, "POST", "/v1/search/search", headers=headers)
        assert "connection" not in kept.headers
    body = b'{"data": [' + b" " * 20_000 + b"]}"
    read = await call(layer, "POST", "/v1/users", headers=corner.headers(), body=body)
    assert (read.status, "connection" in read.headers) == (200, False)


async def test_half_sent_bodies_of_browsers_fill_neither_memory_nor_the_way_of_servers(
    corner: Corner,
) -> None:
    layer = HotPathMiddleware(
        build_application(corner.handler, version="0"),
        lambda: corner.handler,
        most_arriving=(50_000, 200_000),
    )
    stalled = [
        asyncio.ensure_future(layer(*_stalled("POST", "/v1/interactions", corner.publishable())))
        for _ in range(3)
    ]
    await asyncio.sleep(0.02)
    body = b'{"data": []' + b" " * 20_000 + b"}"
    browser = {"X-API-KEY": corner.publishable(), "User-Agent": BROWSER}
    refused = await call(layer, "POST", "/v1/interactions", headers=browser, body=body)
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert (await call(layer, "POST", "/v1/interactions", headers=corner.headers(), body=body)).status == 200
    short = await call(layer, "POST", "/v1/interactions", headers=browser, body=b'{"data": []}')
    assert short.status == 200
    for request in stalled:
        request.cancel()
    await asyncio.gather(*stalled, return_exceptions=True)
    assert (await call(layer, "POST", "/v1/interactions", headers=browser, body=body)).status == 200


async def test_websockets_are_refused_without_a_word(corner: Corner) -> None:
    """Finding 20: nothing inside is asked, nothing is written to the log."""
    inside, sent = Inside(), []

    async def send(message: Any) -> None:
        sent.append(message)

    for find in (lambda: corner.handler, lambda: None):
        layer = HotPathMiddleware(inside, find)
        with structlog.testing.capture_logs() as lines:
            await layer({"type": "websocket", "path": "/x", "headers": []}, None, send)  # type: ignore[arg-type]
        assert lines == []
    assert [message["type"] for message in sent] == ["websocket.close"] * 2
    assert inside.scopes == []


@pytest.mark.parametrize("path", ["/-/routes", "/%2d/routes", "/-%2froutes", "/%2D%2Froutes"])
async def test_the_paths_of_serve_answer_no_client(corner: Corner, path: str) -> None:
    inside = Inside()
    for find in (lambda: corner.handler, lambda: None):
        answer = await call(HotPathMiddleware(inside, find), "GET", path)
        assert (answer.status, answer.json()) == (404, {"message": "not found"})
    assert inside.scopes == []


def _stalled(method: str, path: str, key: str) -> tuple[dict[str, Any], Any, Any]:
    """Make a request whose body never becomes whole."""
    begun = False

    async def receive() -> Any:
        nonlocal begun
        if begun:
            await asyncio.Event().wait()
        begun = True
        return {"type": "http.request", "body": b"{" + b" " * 16_500, "more_body": True}

    async def send(message: Any) -> None:
        raise AssertionError(message)

    headers = [(b"x-api-key", key.encode()), (b"content-length", b"20000"), (b"user-agent", BROWSER.encode())]
    scope = {
        "type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b"",
        "headers": headers, "client": ("192.0.2.7", 1), "http_version": "1.1", "scheme": "http", "root_path": "",
    }  # fmt: skip
    return scope, receive, send


async def test_both_ways_in_answer_the_same_bytes(corner: Corner) -> None:
    ways = (
        corner.handler,
        build_application(corner.handler, version="0"),
        HotPathMiddleware(Inside(), lambda: corner.handler),
    )
    for method, path in (
        ("GET", "/v1/users/a%2Fb"), ("GET", "/v1/products/x"), ("GET", "/v1/users/%FF"), ("GET", "/v1/users/a%20b"),
    ):  # fmt: skip
        answers = [
            await call(way, method, path, headers={**corner.headers(), "X-Request-Id": "same"})
            for way in ways
        ]
        assert (
            len({(answer.status, answer.body, tuple(sorted(answer.headers.items()))) for answer in answers})
            == 1
        )
