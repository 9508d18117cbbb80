"""A load driver in one file of standard library: raw sockets, one process, honest percentiles.

Two modes. *Closed loop*: every connection sends the next request when the answer to the last one is in; gives
throughput, and with one connection the latency at rest. *Constant rate*: requests leave on a fixed schedule and
a request's latency counts from the moment it was due, so a stall of the server is charged to every request that
waited for it (no coordinated omission).

    python -m tests.benchmarks.load --port 8000 --connections 32 --seconds 5 < request.http
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Figures:
    """What one run of the driver measured. Latencies in milliseconds."""

    requests: int
    seconds: float
    per_second: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float
    statuses: dict[str, int] = field(default_factory=dict)
    errors: int = 0
    "Connections refused, reset or closed in the middle of an answer."

    @property
    def failures(self) -> int:
        """Answers that are no success and no deliberate 429, plus broken connections."""
        bad = sum(n for status, n in self.statuses.items() if not status.startswith("2") and status != "429")
        return bad + self.errors


def http_request(
    method: str, path: str, *, body: bytes = b"", headers: dict[str, str] | None = None, port: int = 8000
) -> bytes:
    """Build the bytes of one HTTP/1.1 request."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "User-Agent: kiosk-bench"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if body or method in {"POST", "PUT"}:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + body


class _Connection:
    """One keep-alive connection that has at most one request on the way."""

    __slots__ = ("buffer", "due", "idle", "last", "need", "pending", "sock", "status")

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=5)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock.setblocking(False)
        self.buffer = b""
        self.need = -1
        self.status = ""
        self.due = 0.0
        self.idle = True
        self.last = False
        "The server said it closes the connection after this answer."
        self.pending = b""

    def send(self, request: bytes, due: float) -> None:
        self.due, self.idle, self.need, self.buffer = due, False, -1, b""
        try:
            sent = self.sock.send(request)
        except BlockingIOError:
            sent = 0
        self.pending = request[sent:]

    def flush(self) -> None:
        try:
            sent = self.sock.send(self.pending)
        except BlockingIOError:
            return
        self.pending = self.pending[sent:]

    def receive(self) -> bool:
        """Read what is there; True when the answer is complete."""
        chunk = self.sock.recv(262_144)
        if not chunk:
            raise ConnectionResetError
        self.buffer = self.buffer + chunk if self.buffer else chunk
        if self.need < 0:
            head = self.buffer.find(b"\r\n\r\n")
            if head < 0:
                return False
            self.status = self.buffer[9:12].decode("ascii", "replace")
            self.need = _body_end(self.buffer, head)
            self.last = b"\nconnection: close" in self.buffer[:head].lower()
        if self.need >= 0:
            return len(self.buffer) >= self.need
        return self.buffer.endswith(b"0\r\n\r\n")


def _body_end(buffer: bytes, head: int) -> int:
    lower = buffer[:head].lower()
    at = lower.find(b"content-length:")
    if at < 0:
        return -1 if b"chunked" in lower else head + 4
    end = lower.find(b"\r", at)
    return head + 4 + int(lower[at + 15 : end if end > 0 else head])


def run(
    requests: Sequence[bytes],
    *,
    port: int,
    connections: int,
    seconds: float,
    rate: float = 0.0,
    warmup_s: float = 0.5,
) -> Figures:
    """Drive a server on this machine for some seconds.

    Units:
        rate: requests per second on a fixed schedule; 0 means closed loop
        warmup_s: seconds at the start whose answers are not counted
    """
    selector = selectors.DefaultSelector()
    latencies: list[float] = []
    statuses: dict[str, int] = {}
    errors = 0
    turn = 0
    idle: deque[_Connection] = deque()

    def open_connection() -> None:
        made = _Connection(port)
        selector.register(made.sock, selectors.EVENT_READ, made)
        idle.append(made)

    for _ in range(connections):
        open_connection()
    clock = time.perf_counter
    begin = clock()
    count_from, end = begin + warmup_s, begin + warmup_s + seconds
    next_due = begin
    interval = 1.0 / rate if rate else 0.0
    busy = 0
    while True:
        now = clock()
        if now >= end + (5.0 if busy else 0.0) or (now >= end and not busy):
            break
        while idle and now < end and (not rate or next_due <= now):
            connection = idle.popleft()
            due = next_due if rate else clock()
            next_due += interval
            try:
                connection.send(requests[turn % len(requests)], due)
            except OSError:
                errors += 1
                selector.unregister(connection.sock)
                connection.sock.close()
                open_connection()
                continue
            turn += 1
            busy += 1
            if connection.pending:
                selector.modify(connection.sock, selectors.EVENT_READ | selectors.EVENT_WRITE, connection)
        wait = max(0.0, min(next_due, end) - clock()) if rate and idle else 0.05
        for key, mask in selector.select(wait):
            connection = key.data
            try:
                if mask & selectors.EVENT_WRITE and connection.pending:
                    connection.flush()
                    if not connection.pending:
                        selector.modify(connection.sock, selectors.EVENT_READ, connection)
                if not mask & selectors.EVENT_READ or not connection.receive():
                    continue
            except OSError:
                errors += 1
                busy -= 0 if connection.idle else 1
                if connection in idle:
                    idle.remove(connection)
                selector.unregister(connection.sock)
                connection.sock.close()
                open_connection()
                continue
            connection.idle = True
            busy -= 1
            done = clock()
            if connection.due >= count_from and done <= end + 5:
                latencies.append(done - connection.due)
                statuses[connection.status] = statuses.get(connection.status, 0) + 1
            if connection.last:
                selector.unregister(connection.sock)
                connection.sock.close()
                open_connection()
            else:
                idle.append(connection)
    errors += busy
    for key in list(selector.get_map().values()):
        key.data.sock.close()
    selector.close()
    return _figures(latencies, seconds, statuses, errors)


def _figures(latencies: list[float], seconds: float, statuses: dict[str, int], errors: int) -> Figures:
    if not latencies:
        return Figures(0, seconds, 0.0, 0.0, 0.0, 0.0, 0.0, statuses, errors)
    ms = np.asarray(latencies) * 1000
    p50, p90, p99 = np.percentile(ms, [50, 90, 99])
    return Figures(
        len(ms),
        seconds,
        len(ms) / seconds,
        float(p50),
        float(p90),
        float(p99),
        float(ms.max()),
        statuses,
        errors,
    )


def drive(
    requests: Sequence[bytes], *, port: int, connections: int = 32, seconds: float = 4.0, rate: float = 0.0
) -> Figures:
    """Run the driver in a separate process, so that it does not share an interpreter with the caller."""
    plan = {
        "requests": [request.decode("latin-1") for request in requests],
        "port": port,
        "connections": connections,
        "seconds": seconds,
        "rate": rate,
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.load", "--plan"],
        input=json.dumps(plan).encode(),
        stdout=subprocess.PIPE,
        check=True,
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        timeout=seconds + 60,
    )
    return Figures(**json.loads(done.stdout))


def main() -> None:
    """Read a plan (`--plan`) or one raw request from standard input and print the figures as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--plan", action="store_true", help="a JSON plan comes on standard input")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rate", type=float, default=0.0, help="requests per second; 0 is closed loop")
    given = parser.parse_args()
    text = sys.stdin.buffer.read()
    if given.plan:
        plan = json.loads(text)
        plan["requests"] = [request.encode("latin-1") for request in plan["requests"]]
        figures = run(**plan)
    else:
        figures = run(
            [text], port=given.port, connections=given.connections, seconds=given.seconds, rate=given.rate
        )
    print(json.dumps(asdict(figures)))


if __name__ == "__main__":
    main()
