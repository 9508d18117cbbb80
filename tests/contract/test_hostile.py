"""Hostile bytes in bodies, headers and paths, through every way in."""

from __future__ import annotations

import json
import time
import tracemalloc
from typing import Any
from urllib.parse import quote

import pytest

from cluster.records.intake import Noun
from deployments.api.http.application import build_application
from deployments.api.http.hot import HotPathMiddleware
from tests.contract.ways import Way
from tests.fakes.asgi import HungUp, call
from tests.fakes.request_handler import BROWSER, Corner, open_corner

LIMIT_MS = 50
BODIES = {
    "depth 100,000": b'{"data": ' + b"[" * 100_000,
    "closed depth 100,000": b"[" * 100_000 + b"]" * 100_000,
    "depth 65": b'{"data": ' + b"[" * 65 + b"]" * 65 + b"}",
    "depth in an object": b'{"data": [{"user_id": "x", "custom_attributes": '
    + b'{"a":' * 70
    + b"1"
    + b"}" * 72
    + b"]}",
    "6,000 digits": b'{"data": [{"user_id": "x", "age": ' + b"9" * 6000 + b"}]}",
    "20 digits where text belongs": b'{"data": [{"user_id": ' + b"9" * 20 + b"}]}",
    "NaN": b'{"data": [{"user_id": "x", "age": NaN}]}',
    "Infinity": b'{"data": [{"user_id": "x", "age": -Infinity}]}',
    "1e999": b'{"data": [{"user_id": "x", "custom_attributes": {"a": 1e999}}]}',
    "lone surrogate": b'{"data": [{"user_id": "\\ud800"}]}',
    "lone surrogate in a name": b'{"data": [{"user_id": "x", "\\udfff": 1}]}',
    "duplicate keys": b'{"data": [{"user_id": "x", "user_id": "y"}]}',
    "duplicate keys apart": b'{"data": [], "x": {"a": 1}, "data": []}',
    "byte order mark": b'\xef\xbb\xbf{"data": [{"user_id": "x"}]}',
    "bad UTF-8": b'{"data": [{"user_id": "\xff\xfe"}]}',
    "UTF-16": '{"data": []}'.encode("utf-16"),
    "a million objects": b'{"data": [' + b"{}," * 1_000_000 + b"{}]}",
    "100,000 names": b'{"data": [{' + b",".join(b'"%d":1' % at for at in range(100_000)) + b"}]}",
    "NUL in an id": b'{"data": [{"user_id": "a\\u0000b"}]}',
    "line feed in an id": b'{"data": [{"user_id": "a\\r\\nset-cookie: x"}]}',
    "513 characters": b'{"data": [{"user_id": "' + b"a" * 513 + b'"}]}',
    "empty id": b'{"data": [{"user_id": ""}]}',
    "id of the fixed paths": b'{"data": [{"user_id": "_ids"}]}',
    "text": b'"data"',
    "nothing": b"",
    "blanks": b"   \n",
    "two documents": b'{"data": []}{"data": []}',
    "comment": b'{"data": [] /* x */}',
    "form": b"data=%5B%5D",
}


@pytest.mark.parametrize(
    "path", ["/v1/users", "/v1/interactions", "/v1/recommendation/user_to_products", "/v1/search/search"]
)
@pytest.mark.parametrize("name", BODIES)
async def test_a_hostile_body_gets_a_4xx_quickly(way: Way, name: str, path: str) -> None:
    headers = {"X-API-KEY": way.key("shop", "secret"), "User-Agent": BROWSER}
    took_ms = []
    for _ in range(4):
        # Processor time: what the neighbours of this test do to the clock is not the body's fault.
        begin = time.process_time()
        answer = await way.send("POST", path, headers, BODIES[name])
        took_ms.append((time.process_time() - begin) * 1000)
        if took_ms[-1] <= LIMIT_MS:
            break
    assert 400 <= answer.status < 500, answer.body[:300]
    reply = answer.json()
    assert isinstance(reply.get("message") or reply.get("detail"), str | list)
    assert b"Traceback" not in answer.body
    assert min(took_ms) <= LIMIT_MS


ODD_IDS = {
    "right to left": "\u202eabc\u202c",
    "zero width": "a\u200bb\u200dc",
    "confusable": "pаypal",  # the second letter is Cyrillic
    "four bytes": "🛒-7",
    "combining": "e\u0301",
    "dots and slashes": "../..//x",
    "percent": "100%25",
    "question and hash": "a?b#c",
    "plus and blank": "a+b c",
    "512 characters": "ž" * 512,
    "quotes": "\"'<script>",
    "semicolons": "a;b=c",
}


@pytest.mark.parametrize("name", ODD_IDS)
async def test_an_odd_id_makes_the_round_trip(way: Way, name: str) -> None:
    user_id = ODD_IDS[name]
    headers = {"X-API-KEY": way.key("shop", "secret"), "User-Agent": BROWSER}
    body = json.dumps({"data": [{"user_id": user_id}]}).encode()
    answer = await way.send("POST", "/v1/users", headers, body)
    assert answer.status == 200, answer.body
    await way.settle("shop", answer.json()["data"]["task_id"])
    fetched = await way.send("GET", "/v1/users/" + quote(user_id, safe=""), headers, None)
    assert (fetched.status, fetched.json()["data"]) == (200, {"user_id": user_id})


@pytest.mark.parametrize(
    "target",
    [
        "/v1/users/%00", "/v1/users/a%0d%0aset-cookie:%20x=1", "/v1/users/%FF%FE", "/v1/users/%C0%AF",
        "/v1/users/%ED%A0%80",
        "/v1/users/" + "a" * 513, "/v1/users/" + "%20" * 5000, "/v1/users/..%2F..%2F..%2Fetc%2Fpasswd", "/v1/users/%",
        "/v1/users/%zz", "/v1/users/%5f%5f", "/v1/products/_status/%FF", "/v1/users/x?api_key=%FF%00",
        "/v1/users/x?" + "a=1&" * 3000,
    ],
)  # fmt: skip
async def test_an_odd_path_is_a_4xx_and_writes_no_header(way: Way, target: str) -> None:
    headers = {"X-API-KEY": way.key("shop", "secret"), "User-Agent": BROWSER}
    answer = await way.send("GET", target, headers, None)
    assert answer.status in (404, 422), answer.body
    assert "set-cookie" not in {name.lower() for name in answer.names}
    answer.json()


@pytest.fixture
async def corner() -> Corner:
    return await open_corner(most_bytes=1 << 20)


async def test_a_streamed_body_over_the_limit_is_refused_without_being_kept(corner: Corner) -> None:
    chunk, sent = b" " * 65536, [0]

    async def receive() -> Any:
        sent[0] += 1
        assert sent[0] < 100, "read on after the limit"
        return {"type": "http.request", "body": chunk, "more_body": True}

    replies: list[Any] = []

    async def send(message: Any) -> None:
        replies.append(message)

    scope = {
        "type": "http", "method": "POST", "path": "/v1/users", "raw_path": b"/v1/users", "query_string": b"",
        "headers": [(b"x-api-key", corner.secret().encode())],
    }  # fmt: skip
    tracemalloc.start()
    await corner.handler(scope, receive, send)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert replies[0]["status"] == 413
    assert peak < 2 * (1 << 20) + 200_000


async def test_nothing_of_a_hostile_body_is_written(corner: Corner) -> None:
    front = HotPathMiddleware(build_application(corner.handler, version="0"), lambda: corner.handler)
    nouns: tuple[tuple[str, Noun], ...] = (
        ("users", "user"),
        ("products", "product"),
        ("interactions", "interaction"),
    )
    for name, body in BODIES.items():
        for path, _ in nouns:
            answer = await call(front, "POST", f"/v1/{path}", headers=corner.headers(), body=body)
            assert answer.status >= 400, (name, path)
    assert await corner.apply() == 0
    for _, noun in nouns:
        assert await corner.stores.changes.last("shop", noun) == "0"


async def test_a_caller_who_leaves_half_way_leaves_nothing(corner: Corner) -> None:
    for path in ("/v1/users", "/v1/interactions", "/v1/recommendation/user_to_products"):
        with pytest.raises(HungUp):
            await call(
                corner.handler, "POST", path, headers=corner.headers(), chunks=[b'{"data": ['], hang_up=True
            )
    assert await corner.apply() == 0


async def test_headers_of_callers_reach_no_reply(corner: Corner) -> None:
    forged = {
        "X-Request-Id": "a\r\nset-cookie: x=1",
        "Origin": "https://evil.example",
        "Host": "evil.example",
    }
    answer = await call(corner.handler, "GET", "/v1/users/x", headers={**corner.headers(), **forged})
    assert "evil" not in str(answer.headers)
    assert "set-cookie" not in str(answer.headers)
