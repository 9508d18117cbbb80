from __future__ import annotations

from typing import Any

import pytest

from cluster.errors import Invalid
from cluster.settings import Settings
from deployments.edge.http.client_address import ClientAddresses
from deployments.edge.http.request import ApiRequest
from tests.fakes.request_handler import StillClock


def client_address(addresses: ClientAddresses, peer: str | None, noted: str | None) -> str:
    headers = [(b"x-forwarded-for", noted.encode("latin-1"))] if noted is not None else []
    scope = {"method": "GET", "headers": headers, "client": (peer, 1) if peer else None}

    async def receive() -> Any:
        raise AssertionError("nothing to receive")

    return ApiRequest(scope, receive, StillClock(), addresses).ip


@pytest.mark.parametrize(
    "noted", [None, "198.51.100.1", "198.51.100.1, 127.0.0.1", "127.0.0.1", "<script>", ""]
)
def test_nobody_is_believed_by_default(noted: str | None) -> None:
    assert client_address(ClientAddresses(), "10.0.0.1", noted) == "10.0.0.1"
    assert client_address(ClientAddresses(), "127.0.0.1", noted) == "127.0.0.1"
    assert client_address(ClientAddresses(["10.9.0.0/16"]), "10.0.0.1", noted) == "10.0.0.1"


def test_behind_trusted_proxies_the_last_entry_that_is_not_one_of_them_counts() -> None:
    addresses = ClientAddresses(["10.0.0.0/8", "2001:db8::/32"])
    assert client_address(addresses, "10.0.0.1", "forged, 203.0.113.9") == "203.0.113.9"
    assert client_address(addresses, "10.0.0.1", "1.1.1.1, 203.0.113.9, 10.0.0.7, 10.2.3.4") == "203.0.113.9"
    assert client_address(addresses, "2001:db8::1", "203.0.113.9") == "203.0.113.9"
    assert client_address(addresses, "::ffff:10.0.0.1", "203.0.113.9") == "203.0.113.9"
    assert client_address(addresses, "10.0.0.1", None) == "10.0.0.1"
    assert client_address(addresses, "10.0.0.1", "10.0.0.2") == "10.0.0.2"
    assert client_address(addresses, "10.0.0.1", "203.0.113.9, junk") == "?"


def test_behind_haproxy_the_entry_of_haproxy_counts() -> None:
    addresses = ClientAddresses(behind_haproxy=True)
    assert client_address(addresses, "127.0.0.1", "203.0.113.9") == "203.0.113.9"
    assert client_address(addresses, "127.0.0.1", None) == "127.0.0.1"


def test_an_ipv6_network_of_one_customer_counts_as_one_address() -> None:
    addresses = [
        client_address(ClientAddresses(), f"2001:db8:1:2:{tail}", None) for tail in ("3::4", "ffff::1", ":1")
    ]
    assert set(addresses) == {"2001:db8:1:2::/64"}
    assert client_address(ClientAddresses(), "2001:db8:1:3::1", None) != addresses[0]
    assert (
        client_address(ClientAddresses(), None, None)
        == client_address(ClientAddresses(), "unix", None)
        == "?"
    )


def test_trusted_proxies_are_addresses_and_networks() -> None:
    kept = Settings(trusted_proxies="10.1.2.3/8, 192.0.2.1,::1")
    assert kept.proxy_networks == ("10.0.0.0/8", "192.0.2.1/32", "::1/128")
    assert Settings().proxy_networks == ()
    with pytest.raises(Invalid, match="KIOSK_TRUSTED_PROXIES"):
        Settings(trusted_proxies="proxy.example.com")


def test_a_line_that_the_client_wrote_does_not_count_beside_that_of_the_proxy() -> None:
    async def receive() -> Any:
        raise AssertionError("nothing to receive")

    lines = [(b"x-forwarded-for", b"198.51.100.66"), (b"x-forwarded-for", b"203.0.113.9")]
    scope = {"type": "http", "method": "GET", "headers": lines, "client": ("10.0.0.1", 1)}
    for addresses in (ClientAddresses(["10.0.0.0/8"]), ClientAddresses(behind_haproxy=True)):
        assert addresses.find(scope) == "203.0.113.9"
        assert ApiRequest(scope, receive, StillClock(), addresses).ip == "203.0.113.9"
    chain = {**scope, "headers": [*lines, (b"x-forwarded-for", b"10.0.0.2")]}
    assert ClientAddresses(["10.0.0.0/8"]).find(chain) == "203.0.113.9"
