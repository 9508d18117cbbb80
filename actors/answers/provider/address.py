"""Which addresses a provider may have: a name is looked up once per connection, judged, and connected to as judged.

The second half matters: between a check and a connection that looks the name up again, a name can change its mind.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable

import httpx

Lookup = Callable[[str, int], Awaitable[list[str]]]


class Internal(Exception):
    """The address is one of ours, not one of the world's."""


async def look_up(host: str, port: int) -> list[str]:
    """Find the addresses of a name."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def is_internal(address: str) -> bool:
    """Is this an address of this machine, of its network, or of nobody?"""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return True
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if inner is not None:
            return not inner.is_global
        if ip in _NAT64:
            return not ipaddress.ip_address(int(ip) & 0xFFFFFFFF).is_global
    return not ip.is_global or ip.is_multicast


_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class GuardedTransport(httpx.AsyncBaseTransport):
    """Connects to the address that was judged, under the name that was asked for."""

    def __init__(self, *, may_be_internal: bool, look_up: Lookup = look_up, verify: bool = True) -> None:
        self._may_be_internal = may_be_internal
        self._look_up = look_up
        self._inner = httpx.AsyncHTTPTransport(verify=verify, retries=0, trust_env=False)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request.

        Errors:
            Internal: the name leads to an address that may not be spoken to
        """
        host, port = request.url.host, request.url.port or (443 if request.url.scheme == "https" else 80)
        try:
            addresses = await self._look_up(host, port)
        except OSError as error:
            raise httpx.ConnectError("the name is unknown", request=request) from error
        # one bad address among good ones is a trick, not an accident
        if not addresses or (not self._may_be_internal and any(map(is_internal, addresses))):
            raise Internal
        request.extensions = {**request.extensions, "sni_hostname": host}
        request.url = request.url.copy_with(host=addresses[0])
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()
