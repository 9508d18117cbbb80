"""The address of a language model: its configuration, and the addresses that a connection may have.

Connections go to the checked address itself, because a second look-up could return another one.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx

from cluster.addresses.origin import is_loopback
from cluster.addresses.ssrf_guard import is_internal
from cluster.errors import Invalid

Resolver = Callable[[str, int], Awaitable[list[str]]]


class InternalAddressError(Exception):
    """The address is an internal one."""


async def resolve_addresses(host: str, port: int) -> list[str]:
    """Return the addresses of a name."""
    records = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in records))


class GuardedTransport(httpx.AsyncBaseTransport):
    """Connects to the checked address, under the requested host name."""

    def __init__(
        self, *, may_be_internal: bool, look_up: Resolver = resolve_addresses, verify: bool = True
    ) -> None:
        self._may_be_internal = may_be_internal
        self._look_up = look_up
        self._inner = httpx.AsyncHTTPTransport(verify=verify, retries=0, trust_env=False)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request.

        Errors:
            InternalAddressError: the name leads to an address that may not be spoken to
        """
        host = request.url.host
        port = request.url.port or (443 if request.url.scheme == "https" else 80)
        try:
            addresses = await self._look_up(host, port)
        except OSError as error:
            raise httpx.ConnectError("the name is unknown", request=request) from error
        # one internal address among public ones is an attack, not an accident
        if not addresses or (not self._may_be_internal and any(map(is_internal, addresses))):
            raise InternalAddressError
        # TLS still checks the certificate against the name, not against the address.
        request.extensions = {**request.extensions, "sni_hostname": host}
        # The checked address itself: another look-up could lead elsewhere.
        request.url = request.url.copy_with(host=addresses[0])
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


@dataclass(frozen=True, slots=True)
class LanguageModelConfig:
    """An administrator's settings of the provider."""

    url: str
    "Address of the interface, as `https://models.example.com/v1`."
    model: str
    key: str = field(default="", repr=False)
    may_be_internal: bool = False
    "Loopback, private and link-local addresses may be spoken to."
    connect_s: float = 3.0
    first_s: float = 12.0
    "From the request to the first piece of text."
    between_s: float = 6.0
    "From one piece of text to the next."
    total_s: float = 40.0
    most_tokens: int = 700
    most_bytes: int = 2 << 20
    "Maximal bytes of a reply."
    at_once: int = 8
    "Maximal number of answers that one process writes at the same time."

    @property
    def name(self) -> str:
        """Return the name of the model and its address, without any secret."""
        return f"{self.model}@{urlsplit(self.url).hostname}"

    def validate(self) -> LanguageModelConfig:
        """Check the settings without a connection.

        Errors:
            Invalid: no http address, a key that would travel in plain text, or no model
        """
        parts = urlsplit(self.url)
        # The path of the completion is appended to the address, so a query would end up in front of it.
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            raise Invalid("KIOSK_LLM_URL is an address as https://models.example.com/v1")
        if parts.scheme == "http" and not (self.may_be_internal or is_loopback(parts.hostname)):
            raise Invalid("KIOSK_LLM_URL must be https: the key would travel in the clear")
        if not self.model.strip():
            raise Invalid("KIOSK_LLM_MODEL is missing")
        return self
