"""Addresses of unknown hosts: which ones a server may be sent to, and which a name leads to.

A second look-up between check and connection could return another address, so callers look a name up once and connect
to a checked address.

Source: RFC 6890 and the IANA registries of special-purpose addresses; draft-ietf-oauth-client-id-metadata-document,
section 3.
"""

from __future__ import annotations

import ipaddress
import re

LONGEST = 2000
"Maximum characters of an address to fetch from."

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_UNICAST_6 = ipaddress.IPv6Network("2000::/3")
"Everything else is local, reserved, or writes an IPv4 address in a way that only some networks translate."
_SPECIAL_6 = tuple(map(ipaddress.IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
"Teredo and other protocols, documentation, 6to4: no provider has them, and some lead to an internal IPv4 address."
_SPECIAL_4 = tuple(map(ipaddress.IPv4Network, ("192.0.0.0/24", "192.88.99.0/24", "240.0.0.0/4")))
"""Special purposes that some releases of Python call global.

Source: the IANA registries of special-purpose addresses
"""
_VISIBLE = re.compile(r"[!-\[\]-~]+")
"Visible ASCII without the backslash, which browsers read as a slash."
_PORT = re.compile(r"[0-9]{1,5}")
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
"A last label that makes resolvers read the whole host as an IPv4 address, in decimal or hexadecimal."


def is_internal(address: str) -> bool:
    """Return whether an address is not global unicast: of this machine, its network, or reserved."""
    try:
        # The zone, as in `fe80::1%eth0`, is no part of the address.
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return True
    if isinstance(ip, ipaddress.IPv6Address):
        # Mapped and NAT64 addresses lead to an IPv4 address, which may be internal.
        inner = ip.ipv4_mapped or (ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF) if ip in _NAT64 else None)
        if inner is None:
            return ip not in _UNICAST_6 or not ip.is_global or any(ip in network for network in _SPECIAL_6)
        ip = inner
    return not ip.is_global or ip.is_multicast or any(ip in network for network in _SPECIAL_4)


def is_loopback_address(address: str) -> bool:
    """Return whether an IP address is loopback, in its plain spelling."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def find_address_fault(address: str, *, needs_path: bool = True) -> str:
    """Return why nothing may be fetched from an address, judged by its text; empty if it may.

    An https address with a host, a path (with `needs_path`), and neither user, fragment, backslash nor dot segments.
    The text is judged as given and never normalised.
    """
    if len(address) > LONGEST:
        return f"is longer than {LONGEST} characters"
    if not _VISIBLE.fullmatch(address):
        return "holds a character that may not stand there"
    if not address.startswith("https://"):
        return "is not an https address"
    if "#" in address:
        return "holds a fragment"
    authority, _, path = address[len("https://") :].partition("?")[0].partition("/")
    if "@" in authority:
        return "names a user"
    host, port = split_port(authority)
    if not _is_host(host):
        return "does not name a host"
    if port is not None and (not _PORT.fullmatch(port) or not 0 < int(port) < 65536):
        return "does not name a port"
    if needs_path and not path:
        return "has no path"
    # Programs resolve dot segments, so several addresses would name the same document.
    if any(segment.lower().replace("%2e", ".") in (".", "..") for segment in path.split("/")):
        return "holds a dot segment in its path"
    return ""


def split_port(authority: str) -> tuple[str, str | None]:
    """Return host and port of an authority; None for no port. An IPv6 address keeps its brackets."""
    host, colon, port = authority.rpartition(":")
    if not colon or authority.endswith("]"):
        return authority, None
    return host, port


def find_host(address: str) -> str:
    """Return the host of an address that `find_address_fault` accepts, with a port other than 443."""
    authority = address.removeprefix("https://").partition("/")[0]
    return authority.removesuffix(":443")


def _is_host(host: str) -> bool:
    if host.startswith("[") and host.endswith("]"):
        return _is_ip(host[1:-1], ipaddress.IPv6Address)
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _is_ip(host, ipaddress.IPv4Address)
    return len(host) <= 253 and all(map(_LABEL.fullmatch, labels))


def _is_ip(text: str, kind: type[ipaddress.IPv4Address | ipaddress.IPv6Address]) -> bool:
    try:
        kind(text)
    except ValueError:
        return False
    return "%" not in text
