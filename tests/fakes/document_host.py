"""A real HTTPS server for metadata documents, well-behaved and not; every connection has a thread."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

from cluster.external_fetcher import ExternalFetcher, FetchRules
from tests.fakes.certificates import Authority

HOSTS = ("app.example.com", "other.example.com", "localhost")
PUBLIC = "93.184.216.34"
JSON_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"

Behaviour = Callable[[ssl.SSLSocket], None]


def a_document(address: str, **more: Any) -> dict[str, Any]:
    """Return a document as clients publish it; None leaves a member out."""
    usual = {
        "client_id": address,
        "client_name": "Reader",
        "redirect_uris": ["http://localhost:33418/callback"],
    }
    return {name: value for name, value in {**usual, **more}.items() if value is not None}


def reply(body: bytes | dict[str, Any], head: bytes = JSON_HEAD) -> bytes:
    """Return a whole response."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return head + b"Content-Length: %d\r\n\r\n" % len(text) + text


class DocumentHost:
    """Serves what `answers` holds for a path: a response, or a function that speaks for itself."""

    def __init__(self, authority: Authority, hosts: tuple[str, ...] = HOSTS) -> None:
        self.answers: dict[str, bytes | Behaviour] = {}
        self.requests: list[bytes] = []
        self.connected: list[str] = []
        "Addresses to which a client of `client` connected."
        self.is_closing = threading.Event()
        self._context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._context.load_cert_chain(*authority.issue(f"host-{hosts[0]}", hosts))
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def client(self, look_up: Callable[[str, int], list[str]] | None = None, **rules: Any) -> ExternalFetcher:
        """Return a client for which every public address leads here."""
        return ExternalFetcher(
            look_up=look_up or (lambda host, port: [PUBLIC]),
            connect=self._connect,
            rules=FetchRules(**rules),
        )

    def serve(
        self, address: str, answer: bytes | Behaviour | dict[str, Any] | None = None, **more: Any
    ) -> str:
        """Answer an address, by default with its document; return the address."""
        path = "/" + address.removeprefix("https://").partition("/")[2]
        given = a_document(address, **more) if answer is None else answer
        self.answers[path] = reply(given) if isinstance(given, dict) else given
        return address

    def close(self) -> None:
        self.is_closing.set()
        self._socket.close()

    def _connect(self, address: tuple[str, int], timeout: float) -> socket.socket:
        self.connected.append(address[0])
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                plain, _ = self._socket.accept()
                threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        plain.settimeout(20)
        with (
            contextlib.suppress(OSError, ssl.SSLError),
            plain,
            self._context.wrap_socket(plain, server_side=True) as secured,
        ):
            request = b""
            while b"\r\n\r\n" not in request:
                chunk = secured.recv(4096)
                if not chunk:
                    return
                request += chunk
            self.requests.append(request)
            answer = self.answers.get(request.split(b" ")[1].decode(), b"HTTP/1.1 404 Not Found\r\n\r\n")
            if isinstance(answer, bytes):
                secured.sendall(answer)
            else:
                answer(secured)
