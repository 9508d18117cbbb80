"""Ten thousand hostile addresses and documents: each ends in time, in little memory, and reaches no internal host."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import ipaddress
import json
import random
import socket
import struct
import time
import tracemalloc
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from cluster.external_fetcher import MOST_AT_ONCE, DocumentError, ExternalFetcher, FetchedDocument
from deployments.archive.oauth.client_identity.metadata_validation import read_client_document
from deployments.archive.oauth.replies import OAuthError
from tests.fakes.certificates import Authority
from tests.fakes.document_host import JSON_HEAD, PUBLIC, DocumentHost, a_document

ADDRESSES = 6_000
DOCUMENTS = 4_000
WITHIN_S = 5.0
MOST_MEMORY = 64 << 10
ADDRESS = "https://app.example.com/client.json"

RFC_6890 = [
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
        "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
        "224.0.0.0/4", "240.0.0.0/4", "::1/128", "::/128", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16",
        "fc00::/7", "fe80::/10", "ff00::/8",
    )
]  # fmt: skip
"The registries, written down a second time."
MAPPED = [ipaddress.ip_network("::ffff:0:0/96"), ipaddress.ip_network("64:ff9b::/96")]


def is_special(text: str) -> bool:
    ip = ipaddress.ip_address(text)
    if any(ip in network for network in MAPPED if network.version == ip.version):
        ip = ipaddress.ip_address(int(ip) & 0xFFFFFFFF)
    return any(ip in network for network in RFC_6890 if network.version == ip.version)


class Addresses:
    """Makes addresses, and what their names lead to."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def special(self) -> str:
        network = self._random.choice(RFC_6890)
        return str(network[self._random.randrange(min(network.num_addresses, 1 << 60))])

    def public(self) -> str:
        while True:
            ip = str(ipaddress.ip_address(self._random.getrandbits(32)))
            if not is_special(ip):
                return ip

    def any_form(self) -> str:
        """Return an IPv4 address, mostly an internal one, in one of its forms."""
        pick = self._random.choice
        ip = ipaddress.ip_address(
            self.public() if self._random.random() < 0.2 else pick(["127.0.0.1", "10.0.0.1"])
        )
        number, parts = int(ip), str(ip).split(".")
        return pick(
            [
                str(ip), str(number), hex(number), f"0{number:o}", ".".join(map(hex, map(int, parts))),
                ".".join(f"0{int(part):o}" for part in parts), f"{parts[0]}.{number & 0xFFFFFF}", f"[::ffff:{ip}]",
                f"[::{ip}]", f"[64:ff9b::{ip}]", f"[64:ff9b:1::{ip}]", f"[2002:{number >> 16:x}:{number & 0xFFFF:x}::]",
                f"[::ffff:0:{ip}]", f"{ip}.", f"{ip}%00", f"[{ip}]", "".join(chr(0xFEE0 + ord(c)) for c in str(ip)),
            ]
        )  # fmt: skip

    def address(self) -> str:
        pick = self._random.choice
        host = pick(
            [
                self.any_form(),
                "app.example.com",
                "localhost",
                "metadata.internal",
                f"{self.any_form()}.nip.io",
            ]
        )
        scheme = pick(
            ["https://"] * 12 + ["http://", "HTTPS://", "file://", "gopher://", "https:/", "https:\\\\"]
        )
        user = pick([""] * 9 + ["me@", "app.example.com@", "app.example.com\\@", ":@"])
        port = pick(["", "", "", ":443", ":22", ":6379", ":0", ":99999", ":", ":-1"])
        path = pick(
            [
                "/x",
                "/x",
                "/x",
                "/",
                "",
                "/../x",
                "/%2e%2E/x",
                "/x#y",
                "/x?u=https://[::1]/",
                "/\r\nHost: x",
                "/\0",
            ]
        )
        return scheme + user + host + port + path

    def look_up(self, host: str, port: int) -> list[str]:
        """Answer as a resolver that reads every spelling of a number, and as a hostile one for names."""
        with contextlib.suppress(ValueError):
            return [str(ipaddress.ip_address(host))]
        with contextlib.suppress(OSError):
            return [socket.inet_ntoa(socket.inet_aton(host))]
        return [
            self.special() if self._random.random() < 0.7 else self.public()
            for _ in range(self._random.randrange(4))
        ]


async def test_no_address_leads_to_a_host_that_is_not_public() -> None:
    addresses, connected, slowest_s = Addresses(7), [], 0.0

    def connect(target: tuple[str, int], timeout: float) -> socket.socket:
        connected.append(target[0])
        raise ConnectionRefusedError

    client = ExternalFetcher(look_up=addresses.look_up, connect=connect)
    outcomes: Counter[str] = Counter()
    for _ in range(ADDRESSES):
        began_s = time.monotonic()
        with pytest.raises(DocumentError) as refused:
            await client.fetch(addresses.address(), person="ada")
        slowest_s = max(slowest_s, time.monotonic() - began_s)
        outcomes[refused.value.reason] += 1
    assert [address for address in connected if is_special(address)] == []
    assert len(set(connected)) > 50, "some addresses are public, and those are tried"
    assert outcomes["is not a public host"] > 300
    assert slowest_s < WITHIN_S


class Documents:
    """Makes responses."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def response(self) -> bytes:
        pick = self._random.choice
        body = self._body()
        if pick([False] * 9 + [True]):
            return self._random.randbytes(self._random.randrange(100_000))
        head = pick([JSON_HEAD] * 6 + [
            JSON_HEAD + b"Content-Encoding: gzip\r\n", b"HTTP/1.1 200 OK\r\n", JSON_HEAD + b"X: y\r\n" * 9_000,
            b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/\r\n",
            b"HTTP/1.1 103 Early Hints\r\n\r\n" * self._random.randrange(3_000) + JSON_HEAD,
            JSON_HEAD + b"Content-Type: text/html\r\n",
            JSON_HEAD + b"Set-Cookie: a=b\r\nCache-Control: max-age=1e9\r\n",
            b"HTTP/0.9 200\r\n", JSON_HEAD + b"Content-Length: 1\r\n", JSON_HEAD + b"\xff\xfe: \x00\r\n",
        ])  # fmt: skip
        framing = pick(
            [b"Content-Length: %d\r\n\r\n" % len(body)] * 5
            + [b"\r\n", b"Content-Length: 99999999999999999999\r\n\r\n"]
        )
        whole = head + framing + body
        if pick([False] * 5 + [True]):
            whole = (
                head + b"Transfer-Encoding: chunked\r\n\r\n" + b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
            )
        return whole[: self._random.randrange(len(whole))] if pick([False] * 5 + [True]) else whole

    def _body(self) -> bytes:
        pick = self._random.choice
        hostile: list[Any] = [
            None, "", 7, -1e308, [], {}, ["javascript:alert(1)"], ["http://127.0.0.1.evil.example/"], "x" * 20_000,
            "\ud800", ["https://app.example.com/cb"], {"$ref": "http://127.0.0.1/"}, [["x"]], True, "none",
            "private_key_jwt",
        ]  # fmt: skip
        document = a_document(ADDRESS)
        for _ in range(self._random.randrange(3)):
            name = pick(
                [
                    *document,
                    "token_endpoint_auth_method",
                    "grant_types",
                    "client_secret",
                    "jwks_uri",
                    "logo_uri",
                ]
            )
            document[name] = pick(hostile)
        text = json.dumps(document).encode()
        return pick(
            [text] * 6 + [
                text + b" " * self._random.randrange(200_000), b"[" * self._random.randrange(9_999),
                gzip.compress(text), text[:-1] + b',"x":' + b"9" * 5_000 + b"}",
                text.replace(b'"', b"'"), b"\xef\xbb\xbf" + text,
            ]
        )  # fmt: skip


@pytest.fixture
def host(trusted_authority: Authority) -> Iterator[DocumentHost]:
    with closing(DocumentHost(trusted_authority)) as host:
        yield host


async def _fetch(client: ExternalFetcher, person: str, address: str) -> str:
    """Return how a fetch ends: `client`, or the kind of refusal."""
    try:
        document: FetchedDocument = await client.fetch(address, person=person)
    except DocumentError as error:
        return error.reason
    assert len(document.body) <= 10_000
    try:
        described = read_client_document(ADDRESS, document.body).client
    except OAuthError as error:
        return error.description
    assert described.client_id == ADDRESS
    assert described.host == "app.example.com"
    return "client"


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_every_document_ends_in_time_and_in_little_memory(
    host: DocumentHost, record_property: Any
) -> None:
    documents, client = Documents(11), host.client()
    left, outcomes, slowest_s = iter(range(DOCUMENTS)), Counter[str](), 0.0

    async def work(person: str) -> None:
        nonlocal slowest_s
        for number in left:
            address = host.serve(f"https://app.example.com/{number}", documents.response())
            began_s = time.monotonic()
            outcomes[await _fetch(client, person, address)] += 1
            slowest_s = max(slowest_s, time.monotonic() - began_s)
            host.answers.pop(f"/{number}")
            host.requests.clear()

    await asyncio.gather(*(work(f"person-{number}") for number in range(MOST_AT_ONCE)))
    record_property("slowest_s", slowest_s)
    record_property("outcomes", dict(outcomes))
    assert outcomes.total() == DOCUMENTS
    assert outcomes["client"] > DOCUMENTS // 20
    assert len(outcomes) > 10
    assert set(host.connected) == {PUBLIC}
    assert slowest_s < WITHIN_S


async def test_a_document_takes_little_memory(host: DocumentHost) -> None:
    client, peaks = host.client(), []
    await _fetch(client, "ada", host.serve(ADDRESS))
    for number, large in enumerate(
        (
            JSON_HEAD + b"\r\n" + b" " * 5_000_000, JSON_HEAD + b"X: " + b"y" * 5_000_000, b"\x00" * 5_000_000,
            b"HTTP/1.1 100 Continue\r\n\r\n" * 100_000, JSON_HEAD + b"X: y\r\n" * 500_000,
            JSON_HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\n \r\n" * 500_000,
        )
    ):  # fmt: skip
        address = host.serve(f"https://app.example.com/large-{number}", large)
        tracemalloc.start()
        assert await _fetch(client, "ada", address) != "client"
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert max(peaks) < MOST_MEMORY, peaks


async def test_hosts_that_send_forever_end_in_time(host: DocumentHost) -> None:
    def drip(secured: Any) -> None:
        with contextlib.suppress(OSError):
            secured.sendall(JSON_HEAD + b"\r\n")
            while not host.is_closing.wait(0.2):
                secured.sendall(b" ")

    def silent(secured: Any) -> None:
        host.is_closing.wait(30)

    client = host.client()
    for number, behaviour in enumerate((drip, silent, drip, silent)):
        host.serve(f"https://app.example.com/slow-{number}", behaviour)
    began_s = time.monotonic()
    reasons = await asyncio.gather(
        *(_fetch(client, f"person-{number}", f"https://app.example.com/slow-{number}") for number in range(4))
    )
    assert set(reasons) == {"does not answer in time"}
    assert time.monotonic() - began_s < WITHIN_S + 1.0


async def test_a_host_that_resets_its_connection_leaves_no_open_socket() -> None:
    def connect(_: tuple[str, int], timeout: float) -> socket.socket:
        with socket.create_server(("127.0.0.1", 0)) as server:
            client = socket.create_connection(server.getsockname(), timeout)
            peer, _ = server.accept()
            # Without lingering, the end of a connection is a reset.
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            peer.close()
        with contextlib.suppress(OSError):
            while client.getpeername():
                time.sleep(0.001)
        return client

    fetcher = ExternalFetcher(look_up=lambda host, port: [PUBLIC], connect=connect)
    with warnings.catch_warnings(record=True) as unclosed:
        warnings.simplefilter("always")
        with pytest.raises(DocumentError, match=r"does not answer$"):
            await fetcher.fetch(ADDRESS, person="p")
        gc.collect()
    assert unclosed == []
