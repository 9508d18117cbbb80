"""Hostile bytes and leaked secrets against a whole installation, through the proxy that people reach."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.benchmarks.stack import KIOSK, ROOT, Stack
from tests.drills.bounds import Bounds
from tests.drills.journal import call

HOSTILE_JSON = {
    "depth 100,000": b'{"data": ' + b"[" * 100_000,
    "closed depth 100,000": b"[" * 100_000 + b"]" * 100_000,
    "6,000 digits": b'{"data": [{"user_id": "x", "age": ' + b"9" * 6000 + b"}]}",
    "NaN": b'{"data": [{"user_id": "x", "age": NaN}]}',
    "1e999": b'{"data": [{"user_id": "x", "custom_attributes": {"a": 1e999}}]}',
    "lone surrogate": b'{"data": [{"user_id": "\\ud800"}]}',
    "duplicate keys": b'{"data": [{"user_id": "x", "user_id": "y"}]}',
    "byte order mark": b'\xef\xbb\xbf{"data": [{"user_id": "x"}]}',
    "bad UTF-8": b'{"data": [{"user_id": "\xff\xfe"}]}',
    "a million objects": b'{"data": [' + b"{}," * 1_000_000 + b"{}]}",
    "NUL": b'{"data": [{"user_id": "a\\u0000b"}]}',
    "513 characters": b'{"data": [{"user_id": "' + b"a" * 513 + b'"}]}',
    "not an object": b'"data"',
    "nothing": b"",
}


@pytest.mark.parametrize("name", HOSTILE_JSON)
def test_hostile_json_gets_a_4xx_quickly(installation: Stack, bounds: Bounds, name: str) -> None:
    """The text's bound is fifty milliseconds, the way through the proxy and back included."""
    head = (
        f"POST /v1/users HTTP/1.1\r\nHost: x\r\nX-API-KEY: {installation.secret_key}\r\nConnection: close\r\n"
    )
    body = HOSTILE_JSON[name]
    begin = time.monotonic()
    answer = _raw(installation.port, head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    took_ms = (time.monotonic() - begin) * 1000
    status = int(answer.split(b" ", 2)[1])
    print(f"\nR30 {name}: {status}; {bounds.at_most(f'R30 {name}, ms', took_ms, 50)}")
    assert 400 <= status < 500
    assert b"Traceback" not in answer
    json.loads(answer.partition(b"\r\n\r\n")[2])


SMUGGLING = {
    "CL.TE": b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG",
    "TE.CL": b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n5c\r\nGPOST / HTTP/1.1\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 5\r\nContent-Length: 40\r\n\r\nhello",
    "obscured TE": b"Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n\r\nhello",
    "TE twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "length with sign": b"Content-Length: +5\r\n\r\nhello",
    "space before colon": b"Content-Length : 5\r\n\r\nhello",
}


@pytest.mark.parametrize("name", SMUGGLING)
def test_smuggled_requests_never_reach_anybody_else(installation: Stack, name: str) -> None:
    key = f"X-API-KEY: {installation.secret_key}\r\n".encode()
    poison = b"POST /v1/users HTTP/1.1\r\nHost: x\r\n" + key + SMUGGLING[name]
    follow = b"GET /v1/users/nobody HTTP/1.1\r\nHost: x\r\n" + key + b"Connection: close\r\n\r\n"
    answer = _raw(installation.port, poison + follow)
    answers = answer.count(b"HTTP/1.1 ")
    assert answers <= 2, answer
    assert b"GPOST" not in answer
    # The next caller on another connection gets its own answer and nothing left over from ours.
    assert call(installation, "GET", "/v1/users/nobody").status == 404


def test_bodies_over_the_limit_are_refused_while_reading(installation: Stack) -> None:
    head = f"POST /v1/users HTTP/1.1\r\nHost: x\r\nX-API-KEY: {installation.secret_key}\r\n".encode()
    declared = _raw(installation.port, head + b"Content-Length: 104857600\r\n\r\n" + b" " * 65_536)
    assert declared.split(b" ", 2)[1] == b"413"
    before = installation.pss_mb()
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    streamed = _raw(installation.port, head + b"Transfer-Encoding: chunked\r\n\r\n", [chunk] * 100)
    grown = installation.pss_mb() - before
    print(f"\nR31: 100 MB without a length: {streamed[:20]!r}, memory grew by {grown:.0f} MB")
    assert streamed.split(b" ", 2)[1] == b"413"
    assert grown < 64


def test_secrets_reach_no_log_and_no_process_list(installation: Stack) -> None:
    canaries = ["CANARYQUERY7f31", "CANARYBODY7f31", "CANARYBEARER7f31", "CANARYHEADER7f31"]
    query, body, bearer, header = canaries
    key = installation.secret_key
    for method, path, headers in (
        ("GET", f"/v1/users/x?api_key={query}", ""),
        ("GET", f"/v1/users/x?api_key={key}&note={query}", ""),
        ("POST", "/v1/ask/questions", f"Authorization: Bearer {bearer}\r\nX-API-KEY: {header}\r\n"),
        (
            "POST",
            "/v1/recommendation/user_to_products",
            f"X-API-KEY: {key}\r\nAuthorization: Bearer {bearer}\r\n",
        ),
    ):
        text = json.dumps({"user_id": "x", "jwt_token": body, "user_hash": body}).encode()
        lines = f"{method} {path} HTTP/1.1\r\nHost: x\r\n{headers}Connection: close\r\n"
        _raw(installation.port, lines.encode() + b"Content-Length: %d\r\n\r\n" % len(text) + text)
    time.sleep(3)
    words = [*canaries, key]
    leaks = [path for path in _logs(installation) if any(word.encode() in _read(path) for word in words)]
    for process in psutil.process_iter():
        try:
            line = " ".join(process.cmdline())
        except psutil.Error:
            continue
        leaks += [Path(f"/proc/{process.pid}/cmdline")] if any(word in line for word in words) else []
    print(f"\nR39: {len(_logs(installation))} log files read, {len(leaks)} leaks")
    assert leaks == []


def test_a_revoked_key_is_refused_within_a_second(installation: Stack) -> None:
    def kiosk(*words: str) -> dict[str, str]:
        done = subprocess.run(
            [*KIOSK, *words, "--json"],
            check=True,
            capture_output=True,
            cwd=ROOT,
            env=_environment(installation),
            timeout=60,
        )
        reply: dict[str, str] = json.loads(done.stdout)
        return reply

    kiosk("apps", "create", "shortlived", "--environment", "development")
    listed = kiosk("keys", "list", "--reveal")
    key = next(
        entry["key"]
        for entry in listed["keys"]  # type: ignore[attr-defined]
        if entry["app_id"] == "shortlived" and entry["kind"] == "secret"
    )
    other = Stack(installation.port, installation.data_dir, key, 0)
    until = time.monotonic() + 5
    while call(other, "GET", "/v1/users/x").status == 401:
        assert time.monotonic() < until
    kiosk("keys", "revoke", key)
    revoked = time.monotonic()
    while call(other, "GET", "/v1/users/x").status != 401:
        assert time.monotonic() - revoked < 5
        time.sleep(0.02)
    took = time.monotonic() - revoked
    print(f"\nR44: refused {took:.2f} s after the revocation")
    assert took <= 1.0


def _raw(port: int, head: bytes, more: list[bytes] | None = None) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=15) as connection:
        try:
            connection.sendall(head)
            for chunk in more or ():
                connection.sendall(chunk)
        except OSError:
            pass  # the server may answer and close before it has read everything
        got = b""
        connection.settimeout(15)
        try:
            while chunk := connection.recv(65_536):
                got += chunk
                if b"Content-Length" not in head and b"\r\n\r\n" in got and more:
                    break
        except OSError:
            pass
        return got


def _environment(stack: Stack) -> dict[str, str]:
    import os

    return {**os.environ, "KIOSK_DATA_DIR": str(stack.data_dir)}


def _logs(stack: Stack) -> list[Path]:
    state = json.loads(_read(next(stack.data_dir.glob("*state*.json"))) or b"{}")
    folders = [
        stack.data_dir,
        *(Path(value) for value in state.values() if isinstance(value, str) and "/" in value),
    ]
    paths = set()
    for folder in folders:
        if folder.is_dir():
            names = (path for path in folder.rglob("*") if path.is_file())
            paths |= {path for path in names if path.suffix in {".log", ".out", ".err", ".txt", ".cfg"}}
    return sorted(paths)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
