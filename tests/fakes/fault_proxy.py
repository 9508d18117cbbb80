"""An HTTP proxy in front of a real server, with the faults of a real network: slow, cut, wrong bytes, 500s, away."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

Rule = Callable[[str, str], str]
"Method and path of a request -> its fault: '', or one of those in `FAULTS`."

FAULTS = ("away", "500", "lost", "cut", "wrong")
"`lost`: the server acts and its answer is lost. `slow 10` waits so many seconds first."

_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


class FaultProxy:
    """A proxy on a port of loopback."""

    def __init__(self, upstream: int) -> None:
        self.upstream = upstream
        self.rule: Rule = lambda method, path: ""
        self.markers = True
        "Whether the server stores empty objects that stand for folders; else they are accepted here."
        self.requests: list[tuple[str, str]] = []
        handler = type("Handler", (_Handler,), {"proxy": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @contextmanager
    def faulty(self, rule: Rule) -> Iterator[None]:
        before, self.rule = self.rule, rule
        try:
            yield
        finally:
            self.rule = before

    def away(self) -> Any:
        """Answer no request at all."""
        return self.faulty(lambda method, path: "away")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: ClassVar[FaultProxy]

    def _relay(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.proxy.requests.append((self.command, self.path))
        fault, _, seconds = self.proxy.rule(self.command, self.path).partition(" ")
        if fault == "slow":
            time.sleep(float(seconds))
        if fault == "away":
            self._drop()
            return
        if fault == "500":
            self._answer(500, [], b"")
            return
        if self.command == "PUT" and self.path.endswith("/") and not self.proxy.markers:
            self._answer(200, [], b"")
            return
        status, headers, data = self._ask(body)
        if fault == "lost":
            self._drop()
        elif fault == "cut":
            self._answer(status, headers, data[: len(data) // 2], length=len(data))
            self._drop()
        elif fault == "wrong" and data:
            self._answer(status, headers, data[:-1] + bytes([data[-1] ^ 1]))
        else:
            self._answer(status, headers, data)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _relay

    def _ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.proxy.upstream, timeout=60)
        try:
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():  # signed: passed on as they are
                if name.lower() not in ("connection", "expect"):
                    connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            data = answer.read()
            headers = [(name, value) for name, value in answer.getheaders() if name.lower() not in _HOP]
            if self.command == "HEAD":
                headers.append(("Content-Length", answer.getheader("Content-Length") or "0"))
            return answer.status, headers, data
        finally:
            connection.close()

    def _answer(
        self, status: int, headers: list[tuple[str, str]], data: bytes, length: int | None = None
    ) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if self.command != "HEAD" and status != 204:
            self.send_header("Content-Length", str(len(data) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _drop(self) -> None:
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""

    def handle(self) -> None:
        try:
            super().handle()
        except (ConnectionError, TimeoutError):
            self.close_connection = True
