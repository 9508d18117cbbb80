"""What strangers can't do to others, through the real HAProxy: the proofs of findings 1, 2, 3, 20 and 25.

Behind it stands a replica's whole edge without Ray (`tests/fakes/edge.py`).
"""

from __future__ import annotations

import json
import shutil
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.local.haproxy_config import HAProxyOptions
from cluster.process.free_ports import free_ports
from tests.cluster.test_front import Proxy, Replica
from tests.fakes.edge import Edge
from tests.suites.hostile_requests import READ, ROWS, addresses, hostile_requests, open_connections

pytestmark = pytest.mark.ray


class Front(Proxy):
    """HAProxy with the bounds of an installation, unless a test says otherwise."""

    bounds: dict[str, object]

    @property
    def options(self) -> HAProxyOptions:
        given: dict[str, Any] = {"patience_s": 10, "max_connections": 4096, **self.bounds}
        return replace(super().options, **given)


@contextmanager
def front_of(*replicas: Edge | Replica, **bounds: object) -> Iterator[Front]:
    """Start HAProxy in front of servers."""
    folder = Path("/tmp") / f"kfs-{free_ports(1)[0]}"
    folder.mkdir(mode=0o700)
    front = Front(folder, free_ports(1)[0])
    front.bounds = bounds
    try:
        front.write(*replicas)  # type: ignore[arg-type]
        front.start()
        front.wait_up(len(replicas))
        yield front
    finally:
        for child in front.started:
            child.kill()
            child.wait()
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def edge() -> Iterator[Edge]:
    edge = Edge()
    yield edge
    edge.stop()


@pytest.fixture
def front(edge: Edge) -> Iterator[Front]:
    with front_of(edge) as front:
        yield front


def honest(front: Front, edge: Edge) -> dict[str, int]:
    """Ask as those do who have business here."""
    key = f"X-API-KEY: {edge.corner.secret()}\r\n"
    browser = f"X-API-KEY: {edge.corner.publishable()}\r\nUser-Agent: Mozilla/5.0 (X11) Firefox/128.0\r\n"
    token = f"Authorization: Bearer {edge.archive.token()}\r\n"
    ping = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
    requests = {
        "server reads": ("POST", READ, b"{}", key),
        "browser reads": ("POST", READ, b"{}", browser),
        "long read": ("POST", READ, b"{}" + b" " * 60_000, key),
        "upload": ("POST", "/v1/users", b'{"data": [{"user_id": "u"}]}', key),
        "archive": ("POST", "/mcp", ping, token),
        "sign-in": ("GET", "/oauth/authorize/archive?client_id=x", b"", ""),
        "metadata": ("GET", "/.well-known/oauth-authorization-server", b"", ""),
        "documentation": ("GET", "/docs", b"", ""),
    }
    return {name: front.ask(*parts)[0] for name, parts in requests.items()}


WELL = {
    "server reads": 200, "browser reads": 200, "long read": 200, "upload": 200, "archive": 200, "sign-in": 400,
    "metadata": 200, "documentation": 200,
}  # fmt: skip


@pytest.mark.parametrize("spread", [1, 50])
@pytest.mark.parametrize("row", ROWS)
def test_slow_requests_of_strangers_block_no_other_client(
    front: Front, edge: Edge, row: str, spread: int
) -> None:
    raw = hostile_requests(edge.corner.publishable())[row]
    assert honest(front, edge) == WELL
    with open_connections(front.port, raw, 300, addresses(spread)):
        for _ in range(2):
            assert honest(front, edge) == WELL
            time.sleep(0.2)
        assert edge.corner.handler.in_flight == 0


def test_one_address_keeps_so_many_connections_and_asks_so_much(edge: Edge) -> None:
    with front_of(edge, address_connections=20, address_requests=5, address_rate=4) as front:
        with open_connections(front.port, b"GET / HTTP/1.1\r\n", 40, ["127.0.0.2"]):
            with socket.socket() as line:
                line.bind(("127.0.0.2", 0))
                line.settimeout(2)
                # HAProxy may close it before this side sees it open.
                with suppress(ConnectionError):
                    line.connect(("127.0.0.1", front.port))
                    line.sendall(b"GET /docs HTTP/1.1\r\nHost: x\r\n\r\n")
                    assert line.recv(100) == b"", "closed without an answer"
            assert front.ask("GET", "/docs")[0] == 200
        raw = f"POST {READ}?api_key={edge.corner.publishable()} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
        with open_connections(front.port, raw.encode(), 5, ["127.0.0.1"]):
            time.sleep(0.5)  # until HAProxy has read them
            assert front.ask("GET", "/docs")[0] == 429
            forged = "X-API-KEY: ksk_dev_forged\r\n"
            assert [front.ask("POST", READ, b"{}", forged)[0] for _ in range(2)] == [401, 429]
        time.sleep(0.5)  # until HAProxy has seen them go
        assert front.ask("POST", READ, b"{}", _key(edge))[0] == 200
        with open_connections(front.port, raw.encode(), 5, ["127.0.0.1"]):
            # The secret key is proven now: neither the place nor the rate of its neighbours is its business.
            assert {front.ask("POST", READ, b"{}", _key(edge))[0] for _ in range(60)} == {200}
        statuses = [front.ask("GET", "/docs") for _ in range(60)]
        assert [status for status, _, _ in statuses].count(429) > 10
        status, headers, body = statuses[-1]
        assert (status, json.loads(body), headers["retry-after"]) == (
            429,
            {"message": "Too many requests."},
            "1",
        )
        assert {front.ask("POST", READ, b"{}", _key(edge))[0] for _ in range(10)} == {200}


def test_wrong_keys_bound_their_address_and_a_forged_one_is_never_proven(edge: Edge) -> None:
    with front_of(edge, address_rate=30) as front:
        good, browser = _key(edge), f"X-API-KEY: {edge.corner.publishable()}\r\nUser-Agent: Mozilla/5.0\r\n"
        assert front.ask("POST", READ, b"{}", good)[0] == front.ask("POST", READ, b"{}", browser)[0] == 200
        for target in (READ, "/v1/users", "/v1/nowhere"):
            front.ask("OPTIONS", target, b"", "X-API-KEY: ksk_dev_forged\r\n")
        statuses = [front.ask("POST", READ, b"{}", "X-API-KEY: ksk_dev_forged\r\n")[0] for _ in range(60)]
        assert statuses[:10] == [401] * 10
        assert statuses[-10:] == [429] * 10
        assert front.ask("POST", READ, b"{}", "X-API-KEY: ksk_dev_another\r\n")[0] == 429
        assert front.ask("POST", READ, b"{}", good)[0] == 200
        assert front.ask("POST", READ, b"{}", browser)[0] == 200


def test_a_key_is_proven_by_answers_that_know_it_whatever_they_say(edge: Edge) -> None:
    forged = "X-API-KEY: ksk_dev_forged\r\n"
    for method, path, status in (
        ("GET", "/v1/users/nobody", 404),
        ("POST", "/v1/users", 422),
        ("GET", "/v1/x", 404),
    ):
        with front_of(edge, address_rate=1) as front:
            statuses = [front.ask(method, path, b"{}", _key(edge))[0] for _ in range(30)]
            assert statuses == [status] * 30, path
            refused = [front.ask(method, path, b"{}", forged)[0] for _ in range(30)]
            assert set(refused) == {401, 429}, path
            endless = "X-API-KEY: " + "k" * 300 + "\r\n"
            assert front.ask(method, path, b"{}", endless)[0] == 429, path


def _key(edge: Edge) -> str:
    return f"X-API-KEY: {edge.corner.secret()}\r\n"


# --- addresses ----------------------------------------------------------------------------------------------


FORGED = "X-Forwarded-For: 198.51.100.7\r\nX-Forwarded-For: 198.51.100.8, 198.51.100.9\r\n"


def test_replicas_see_the_address_of_the_peer_whatever_it_writes() -> None:
    replica = Replica()
    try:
        with front_of(replica) as front:
            for head in ("", FORGED, "X-Forwarded-For: 127.0.0.1\r\n", "x-forwarded-for:\r\n"):
                assert front.ask("GET", "/v1/users/x", head=head)[0] == 200
                assert replica.headers["x-forwarded-for"] == "127.0.0.1"
        with front_of(replica, trusted_proxies="127.0.0.1/32,10.0.0.0/8") as front:
            for noted, seen in (
                ("198.51.100.1", "198.51.100.1"), ("198.51.100.1, 203.0.113.9", "203.0.113.9"),
                ("198.51.100.1, 203.0.113.9, 10.0.0.7", "203.0.113.9"), ("2001:db8::1", "2001:db8::1"),
                ("203.0.113.9, 10.0.0.7, 10.0.0.8", "203.0.113.9"), ("junk", "127.0.0.1"),
            ):  # fmt: skip
                front.ask("GET", "/v1/users/x", head=f"X-Forwarded-For: {noted}\r\n")
                assert replica.headers["x-forwarded-for"] == seen, noted
            front.ask(
                "GET", "/v1/users/x", head="X-Forwarded-For: 198.51.100.1\r\nX-Forwarded-For: 203.0.113.9\r\n"
            )
            assert replica.headers["x-forwarded-for"] == "203.0.113.9"
    finally:
        replica.stop()


def test_registrations_are_bounded_for_any_forwarded_header(front: Front) -> None:
    """Finding 3: 60 of 60 registrations with invented addresses were accepted."""
    body = json.dumps({"redirect_uris": ["https://a.example/cb"]}).encode()
    statuses = []
    for number in range(80):
        head = f"X-Forwarded-For: 198.51.100.{number}\r\nContent-Type: application/json\r\n"
        statuses.append(front.ask("POST", "/oauth/register", body, head)[0])
    assert statuses.count(201) <= 60
    assert statuses[-1] == 429


# --- what is answered by HAProxy itself ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "status", "message"),
    [
        (b"GET /%2d/routes HTTP/1.1\r\nHost: x\r\n", 404, "not found"),
        (b"GET /-%2froutes HTTP/1.1\r\nHost: x\r\n", 404, "not found"),
        (b"GET /%2D%2Froutes HTTP/1.1\r\nHost: x\r\n", 404, "not found"),
        (b"GET /-/routes HTTP/1.1\r\nHost: x\r\n", 404, "not found"),
        (
            b"GET /x HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
            403,
            "This service speaks no websockets.",
        ),
        (
            b"GET /v1/users/x HTTP/1.1\r\nHost: x\r\nX-API-KEY: nonsense\r\nX-API-KEY: GOOD\r\n",
            400,
            "X-API-KEY was sent more than once.",
        ),
        (b"POST /v1/search/search HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n", 401, "invalid api key."),
    ],
)
def test_haproxy_refuses_in_the_words_of_the_interface(
    front: Front, edge: Edge, raw: bytes, status: int, message: str
) -> None:
    reply = front.say(raw.replace(b"GOOD", edge.corner.secret().encode()) + b"Connection: close\r\n\r\n{}")
    head, _, body = reply.partition(b"\r\n\r\n")
    headers = head.decode().lower()
    assert int(reply.split()[1]) == status
    assert json.loads(body) == {"message": message}
    for line in ("content-type: application/json", "access-control-allow-origin: *", "x-request-id: "):
        assert line in headers


def test_other_upgrades_are_ignored(front: Front, edge: Edge) -> None:
    head = (
        _key(edge)
        + "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
    )
    raw = f"POST {READ} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n{head}\r\n{{}}"
    assert front.say(raw.encode(), within_s=1.0).startswith(b"HTTP/1.1 200")


def test_no_answer_names_the_server_behind(front: Front, edge: Edge) -> None:
    for method, path in (("GET", "/docs"), ("GET", "/v1/users/x")):
        _, headers, _ = front.ask(method, path, head=_key(edge))
        assert "server" not in headers


def test_haproxys_page_of_statistics_is_gone(front: Front) -> None:
    assert "stats uri" not in front.config.read_text()


def test_expect_is_answered_and_long_uploads_pass(front: Front, edge: Edge) -> None:
    body = json.dumps(
        {"data": [{"user_id": f"u{number}", "name": "n" * 500} for number in range(200)]}
    ).encode()
    with socket.create_connection(("127.0.0.1", front.port), timeout=5) as line:
        head = f"Host: x\r\n{_key(edge)}Expect: 100-continue\r\nContent-Length: {len(body)}"
        line.sendall(f"POST /v1/users HTTP/1.1\r\n{head}\r\n\r\n".encode())
        assert line.recv(100).startswith(b"HTTP/1.1 100")
        line.sendall(body)
        assert line.recv(1000).startswith(b"HTTP/1.1 200")


def _read_to_end(port: int, raw: bytes) -> bytes:
    """Send a request and read until the server ends the connection."""
    read = b""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as line, suppress(ConnectionError):
        line.sendall(raw)
        while chunk := line.recv(4000):
            read += chunk
    return read


def test_who_is_refused_before_the_body_came_reads_why_and_takes_no_place(front: Front, edge: Edge) -> None:
    for raw in (
        b"POST /v1/users HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n" + b" " * 40_000,
        b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n" + b" " * 40_000,
        b"POST /v1/search/search?api_key=x HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n"
        + b" " * 40_000,
    ):
        with socket.create_connection(("127.0.0.1", front.port), timeout=5) as line:
            line.sendall(raw)
            assert line.recv(4000).startswith(b"HTTP/1.1 401")
            assert edge.corner.handler.in_flight == 0
        # The replica itself ends the connection: nobody can keep one that holds half a request. A reset may take
        # the answer along, so it is asked until one arrives; a connection that stays open times out.
        assert b"connection: close" in next(filter(None, (_read_to_end(edge.port, raw) for _ in range(20))))
    small = f"DELETE /v1/users/x HTTP/1.1\r\nHost: x\r\n{_key(edge)}Content-Length: 2\r\n\r\n{{}}".encode()
    with socket.create_connection(("127.0.0.1", front.port), timeout=5) as line:
        for _ in range(3):
            line.sendall(small)
            reply = b""
            while not reply.endswith(b"}}"):
                reply += line.recv(4000)
            assert reply.startswith(b"HTTP/1.1 200"), "bodies that nobody reads keep the connection"


def test_a_reload_refuses_no_server_whose_key_is_to_be_proven_again(edge: Edge) -> None:
    with front_of(edge, address_requests=3) as front:
        assert front.ask("POST", READ, b"{}", _key(edge))[0] == 200
        old = front.started[-1]
        front.write(edge)  # type: ignore[arg-type]
        front.start("-sf", str(old.pid))
        front.wait_up(1)
        assert old.wait(10) == 0
        raw = f"POST {READ}?api_key={edge.corner.publishable()} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
        with open_connections(front.port, raw.encode(), 3, ["127.0.0.1"]):
            time.sleep(0.5)  # until HAProxy has read them
            assert front.ask("POST", READ, b"{}", _key(edge))[0] == 200
            assert front.ask("GET", "/docs")[0] == 429


@pytest.mark.parametrize("path", [READ, "/v1/nowhere"])
@pytest.mark.parametrize(
    "target",
    [
        "{path}?api_key=%6bpk_{rest}",
        "{path}?x=1;api_key=ksk_dev_forged&api_key={public}",
        "{path}?x=1?api_key=ksk_dev_forged&api_key={public}",
        "{path}?%61pi_key={public}&api_key=ksk_dev_forged",
        "{path}?api_key=ksk_dev_forged&%61pi_key={public}",
        "{path}?api_key={public}#forged",
        "http://x?api_key={public}&{path}?api_key=ksk_dev_forged",
    ],
)
def test_a_publishable_key_proves_no_other_text(front: Front, edge: Edge, path: str, target: str) -> None:
    public = edge.corner.publishable()
    uri = target.format(path=path, public=public, rest=public.removeprefix("kpk_"))
    host = uri[7:].partition(path)[0] if uri.startswith("http") else "x"
    head = f"Host: {host}\r\nUser-Agent: Mozilla/5.0\r\nConnection: close\r\nContent-Length: 2\r\n"
    reply = front.say(f"POST {uri} HTTP/1.1\r\n{head}\r\n{{}}".encode())
    assert reply.split()[1] in (b"400", b"401")
    assert _proven(front) == []


def test_a_token_is_proven_once_however_its_header_is_written(front: Front, edge: Edge) -> None:
    token, ping = edge.archive.token(), b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
    for value, status in ((f"Bearer {token}", 200), (f"bEARER   {token}", 200), (f"Bearer \t{token}", 401)):
        assert front.ask("POST", "/mcp", ping, f"Authorization: {value}\r\n")[0] == status
    both = f"X-API-KEY: ksk_dev_forged\r\nAuthorization: Bearer {token}\r\n"
    assert front.ask("POST", "/mcp", ping, both)[0] == 200
    assert [row.split()[-1] for row in _proven(front)] == ["gpt0=1"]


def _proven(front: Front) -> list[str]:
    """Return the rows of HAProxy's table of proven keys."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(front.config.parent / "a.sock"))
        line.sendall(b"show table kiosk_keys\n")
        read = b""
        while chunk := line.recv(65_536):
            read += chunk
    return [row for row in read.decode().splitlines() if "key=" in row]
