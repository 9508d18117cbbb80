"""What passes HAProxy and what it says itself: hints beside a refused key, tags, compressed answers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.test_front_strangers import Front, front_of
from tests.fakes.edge import Edge
from tests.suites.hostile_requests import READ

pytestmark = pytest.mark.ray

GZIP = "Accept-Encoding: gzip, deflate, br\r\n"


@pytest.fixture(scope="module")
def edge() -> Iterator[Edge]:
    edge = Edge()
    yield edge
    edge.stop()


@pytest.fixture(scope="module")
def front(edge: Edge) -> Iterator[Front]:
    with front_of(edge) as front:
        yield front


def ask_without_header(front: Front, method: str, path: str) -> tuple[int, str, dict[str, Any]]:
    """Send a request whose head has no key; status, head, parsed body."""
    raw = f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{{}}"
    head, _, body = front.say(raw.encode()).partition(b"\r\n\r\n")
    return int(head.split()[1]), head.decode(), json.loads(body)


def test_a_request_without_a_key_hears_where_the_key_goes(front: Front) -> None:
    for method, path in (("POST", READ), ("POST", "/v1/search/search"), ("GET", "/v1/users/_ids")):
        status, head, body = ask_without_header(front, method, path)
        assert (status, body) == (401, {"message": "invalid api key."})
        (line,) = [line for line in head.split("\r\n") if line.lower().startswith("www-authenticate: ")]
        assert (
            'ApiKey realm="kiosk", error_description="no key was sent; send it in the header X-API-KEY'
            in line
        )


def test_two_keys_in_one_address_leave_both_keys_proven(front: Front, edge: Edge) -> None:
    first_key, second_key = edge.corner.secret(), edge.corner.secret("other")
    assert ask_without_header(front, "POST", f"{READ}?api_key={first_key}")[0] == 200
    status, _, body = ask_without_header(front, "POST", f"{READ}?api_key={first_key}&api_key={second_key}")
    assert (status, body["message"]) == (400, "api_key was sent more than once; send one key")
    assert ask_without_header(front, "POST", f"{READ}?api_key={first_key}")[0] == 200


def test_long_answers_come_compressed_and_short_ones_and_the_archives_do_not(
    front: Front, edge: Edge
) -> None:
    for path in ("/docs", "/openapi.json"):
        _, plain, body = front.ask("GET", path)
        _, headers, short = front.ask("GET", path, head=GZIP)
        assert "content-encoding" not in plain
        assert (headers["content-encoding"], headers["vary"]) == ("gzip", "Accept-Encoding")
        assert gzip.decompress(short) == body
        assert front.ask("GET", path, head=f"If-None-Match: {headers['etag']}\r\n")[0] == 304
    key = f"X-API-KEY: {edge.corner.secret()}\r\n"
    token = f"Authorization: Bearer {edge.archive.token()}\r\nAccept: application/json, text/event-stream\r\n"
    tools = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
    for answer in (
        front.ask("POST", READ, b"{}", key + GZIP),
        front.ask("GET", "/v1/products/hoe-11", b"", key + GZIP),
        front.ask("POST", "/mcp", tools, token + GZIP),
    ):
        assert answer[0] == 200
        assert "content-encoding" not in answer[1]
