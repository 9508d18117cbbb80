"""Fetches documents from unknown hosts, outside every event loop: metadata of clients, feeds and pages of articles.

A host may be hostile: slow, endless, somewhere inside, or a redirect to such a place. So each fetch has a thread of its
own, one deadline for all steps, and bounds for all bytes. It looks the name up once and connects to a checked address.
It sends no credentials, follows no redirect, and uses no proxy.

Source: draft-ietf-oauth-client-id-metadata-document, sections 4 and 6; RFC 9111 sections 4.2 and 5.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import h11

from cluster.addresses.ssrf_guard import find_address_fault, is_internal, is_loopback_address
from cluster.deadline import run_within

WITHIN_S = 5.0
MOST_BYTES = 10_000
MOST_AT_ONCE = 4
LEAST_LIFE_S = 60
MOST_LIFE_S = 86_400

_MOST_HEADERS = 16_384
_MOST_TRIED = 3
"Addresses of one name to which a fetch tries to connect."
_JSON = re.compile(r"application/(?:[a-z0-9!#$&^_.-]+\+)?json", re.IGNORECASE)

LookUp = Callable[[str, int], list[str]]
Connect = Callable[[tuple[str, int], float], socket.socket]


@dataclass(frozen=True, slots=True)
class FetchRules:
    """The bounds of all fetches of one client; the defaults are those of metadata documents."""

    within_s: float = WITHIN_S
    "Seconds for everything, from the look-up of the name to the last byte."
    most_bytes: int = MOST_BYTES
    "Largest document, as it was sent."
    most_received: int = 32_000
    "Largest response with headers and framing."
    most_at_once: int = MOST_AT_ONCE
    "Fetches of one process at a time; a hung look-up of a name counts until it ends."
    most_per_person: int = 2
    chunk: int = 4_096
    "Bytes that are read from the connection at a time."


@dataclass(frozen=True, slots=True)
class FetchedResponse:
    """The response of a host. Only one with status 200 has a body."""

    status: int
    headers: Mapping[str, str]
    "Names in lower case; values of repeated headers are joined by commas."
    body: bytes


@dataclass(frozen=True, slots=True)
class FetchedDocument:
    """A fetched document."""

    body: bytes
    life_s: int
    "Seconds for which it may be cached: what its host says, between a minute and a day."


class DocumentError(Exception):
    """The document can't be fetched; `reason` continues a sentence about its host."""

    def __init__(self, reason: str, *, is_outage: bool = True) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_outage = is_outage
        "Whether the host may be down; not where it works, or was not asked at all."


class TooManyFetches(DocumentError):
    """The host was not asked, because too many fetches run at this moment."""

    def __init__(self) -> None:
        words = "is not asked now, because too many others are; try again in a moment"
        super().__init__(words, is_outage=False)


def look_up_addresses(host: str, port: int) -> list[str]:
    """Return the IP addresses of a name."""
    records = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(record[4][0]) for record in records))


class ExternalFetcher:
    """Fetches documents, a few at a time."""

    def __init__(
        self,
        *,
        look_up: LookUp = look_up_addresses,
        connect: Connect = socket.create_connection,
        rules: FetchRules | None = None,
    ) -> None:
        self._look_up = look_up
        self._connect = connect
        self._rules = rules or FetchRules()
        self._lock = threading.Lock()
        self._running: Counter[str] = Counter()
        self._trust: ssl.SSLContext | None = None

    def end_s(self) -> float:
        """Return when fetches that begin now must end, by the monotonic clock."""
        return time.monotonic() + self._rules.within_s

    async def fetch(
        self, address: str, *, person: str, may_be_loopback: bool = False, ends_s: float | None = None
    ) -> FetchedDocument:
        """Return the JSON document at an address.

        `person` is on whose behalf; `may_be_loopback` allows hosts of this machine; `ends_s` is `end_s` of the first of
        several fetches that share one deadline.

        Errors:
            DocumentError: the address may not be fetched, the host does not answer in time with a JSON document, or too
                many fetches are running
        """
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        exchange = _Exchange(self._rules, "GET", headers, _check_document)
        response = await self._run(address, exchange, person, may_be_loopback, ends_s)
        return FetchedDocument(response.body, find_life_s(response.headers))

    async def send(
        self, address: str, *, person: str, method: str = "GET", headers: Mapping[str, str] | None = None
    ) -> FetchedResponse:
        """Return the response of a public host, whatever its status and type; redirects are not followed.

        Errors:
            DocumentError: the address may not be fetched, the host does not answer within the bounds, or too many
                fetches are running
        """
        return await self._run(address, _Exchange(self._rules, method, headers or {}), person)

    async def _run(
        self,
        address: str,
        exchange: _Exchange,
        person: str,
        may_be_loopback: bool = False,
        ends_s: float | None = None,
    ) -> FetchedResponse:
        fault = find_address_fault(address, needs_path=exchange.check is not None)
        if fault:
            raise DocumentError(f"has an address that {fault}", is_outage=False)
        ends_s = self.end_s() if ends_s is None else ends_s
        left_s = _left_s(ends_s)
        self._begin(person)
        future: Future[FetchedResponse] = Future()
        # A running future can't be cancelled, so the thread never sets the result of a cancelled one.
        future.set_running_or_notify_cancel()

        def work() -> None:
            try:
                outcome: FetchedResponse | DocumentError = self._fetch(
                    address, exchange, may_be_loopback, ends_s
                )
            except Exception as error:  # noqa: BLE001 - the last layer of the thread: everything becomes an outcome
                outcome = error if isinstance(error, DocumentError) else DocumentError(_explain(error))
            self._end(person)
            if isinstance(outcome, FetchedResponse):
                future.set_result(outcome)
            else:
                future.set_exception(outcome)

        # A name server may not answer for minutes; a daemon thread does not delay the end of the process.
        threading.Thread(target=work, name="document", daemon=True).start()
        try:
            return await run_within(asyncio.wrap_future(future), left_s)
        except asyncio.TimeoutError:
            raise DocumentError("does not answer in time") from None

    def _begin(self, person: str) -> None:
        with self._lock:
            if (
                self._running[person] >= self._rules.most_per_person
                or self._running.total() >= self._rules.most_at_once
            ):
                raise TooManyFetches
            self._running[person] += 1

    def _end(self, person: str) -> None:
        with self._lock:
            self._running[person] -= 1
            self._running += Counter()  # drops the persons at zero

    def _fetch(
        self, address: str, exchange: _Exchange, may_be_loopback: bool, ends_s: float
    ) -> FetchedResponse:
        parts = urlsplit(address)
        host = parts.hostname or ""
        port = parts.port or 443
        addresses = self._look_up(host, port)
        # One internal address among public ones is an attack, not an accident.
        if not addresses or any(
            is_internal(address) and not (may_be_loopback and is_loopback_address(address))
            for address in addresses
        ):
            raise DocumentError("is not a public host")
        with self._open(addresses, port, ends_s) as plain:
            plain.settimeout(_left_s(ends_s))
            trust = self._trusted()
            with trust.wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False) as secured:
                secured.do_handshake()
                return exchange.perform(secured, address, ends_s)

    def _open(self, addresses: list[str], port: int, ends_s: float) -> socket.socket:
        """Connect to the first of the checked addresses that answers."""
        tried = addresses[:_MOST_TRIED]
        for address in tried[:-1]:
            try:
                return self._connect((address, port), _left_s(ends_s) / 2)
            except OSError:
                continue
        return self._connect((tried[-1], port), _left_s(ends_s))

    def _trusted(self) -> ssl.SSLContext:
        """Return the authorities of the system, or those of `SSL_CERT_FILE`."""
        if self._trust is None:
            trust = ssl.create_default_context()
            trust.sslsocket_class = _ClosingSocket
            self._trust = trust
        return self._trust


class _ClosingSocket(ssl.SSLSocket):
    """A TLS socket that is closed where the peer reset its connection before the handshake."""

    def getpeername(self) -> Any:
        try:
            return super().getpeername()
        except OSError as error:
            # Python 3.11 would leave the open socket to the garbage collector.
            self.close()
            raise ConnectionResetError from error


@dataclass(frozen=True, slots=True)
class _Exchange:
    """One request on an open connection, and its response."""

    rules: FetchRules
    method: str
    headers: Mapping[str, str]
    check: Callable[[FetchedResponse], None] | None = None
    "Raises `DocumentError` for a response that is refused, before its body is read."

    def perform(self, secured: ssl.SSLSocket, address: str, ends_s: float) -> FetchedResponse:
        """Send the request and return the response.

        Errors:
            DocumentError: the response exceeds a bound, or is none
        """
        parts = urlsplit(address)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        fixed = [("Host", parts.netloc), ("User-Agent", "kiosk"), ("Connection", "close")]
        request = h11.Request(method=self.method, target=target, headers=[*fixed, *self.headers.items()])
        connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MOST_HEADERS)
        secured.settimeout(_left_s(ends_s))
        secured.sendall((connection.send(request) or b"") + (connection.send(h11.EndOfMessage()) or b""))
        received = 0
        body = bytearray()
        response: FetchedResponse | None = None
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                secured.settimeout(_left_s(ends_s))
                chunk = secured.recv(self.rules.chunk)
                # Headers and sizes of chunks count too: they could be endless.
                received += len(chunk)
                if received > self.rules.most_received:
                    raise DocumentError("answers with too many bytes", is_outage=False)
                connection.receive_data(chunk)
            elif isinstance(event, h11.Response):
                response = self._begin_response(event)
                if response.status != 200:
                    return response
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > self.rules.most_bytes:
                    raise self._too_large()
            elif isinstance(event, h11.EndOfMessage) and response is not None:
                return replace(response, body=bytes(body))
            elif not isinstance(event, h11.InformationalResponse):
                raise DocumentError("does not answer as a web server")

    def _begin_response(self, event: h11.Response) -> FetchedResponse:
        """Return a response without its body."""
        headers: dict[str, str] = {}
        for raw, value in event.headers:
            name = raw.decode("latin-1")
            text = value.decode("latin-1").strip()
            headers[name] = f"{headers[name]}, {text}" if name in headers else text
        response = FetchedResponse(event.status_code, headers, b"")
        if self.check is not None:
            self.check(response)
        length = headers.get("content-length", "0")
        if self.method == "GET" and length.isdecimal() and int(length[:20]) > self.rules.most_bytes:
            raise self._too_large()
        return response

    def _too_large(self) -> DocumentError:
        return DocumentError(f"answers with more than {self.rules.most_bytes} bytes", is_outage=False)


def _check_document(response: FetchedResponse) -> None:
    """Refuse a response that can't carry a JSON document."""
    headers = response.headers
    if response.status != 200:
        # Redirects included: they are never followed.
        raise DocumentError(f"answers {response.status} instead of 200")
    if not _JSON.fullmatch(headers.get("content-type", "").partition(";")[0].strip()):
        raise DocumentError("answers with something else than JSON")
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise DocumentError("answers with a compressed document")


def find_life_s(headers: Mapping[str, str]) -> int:
    """Return for how many seconds a response may be cached, between a minute and a day.

    A response without any statement, or one that forbids caching, is kept for a minute.

    Source: RFC 9111 sections 4.2.1 and 4.2.3
    """
    directives = {
        name.strip().lower(): value.strip().strip('"')
        for name, _, value in (part.partition("=") for part in headers.get("cache-control", "").split(","))
    }
    life_s = 0.0
    if not {"no-store", "no-cache"} & directives.keys():
        if (given := directives.get("max-age")) is not None:
            # Caches on the way have used up this part of the life (RFC 9111, 4.2).
            life_s = _seconds(given) - _seconds(headers.get("age", "0"))
        elif "expires" in headers:
            life_s = _until(headers["expires"], headers.get("date", ""))
    return int(min(max(life_s, LEAST_LIFE_S), MOST_LIFE_S))


def _seconds(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 12 else 0


def _until(expires: str, date: str) -> float:
    try:
        return (parsedate_to_datetime(expires) - parsedate_to_datetime(date)).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return 0.0


def _left_s(ends_s: float) -> float:
    left_s = ends_s - time.monotonic()
    if left_s <= 0:
        raise DocumentError("does not answer in time")
    return left_s


def _explain(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return "has a certificate that is not valid for its name"
    if isinstance(error, TimeoutError | socket.timeout):
        return "does not answer in time"
    if isinstance(error, socket.gaierror | UnicodeError):
        return "is not known under its name"
    return "does not answer" if isinstance(error, OSError) else "does not answer as a web server"
