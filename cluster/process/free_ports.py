"""Finding free ports."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, suppress

LOOPBACK = "127.0.0.1"
RANGES_FROM = 20_000
RANGE_WIDTH = 100
RANGES = 90
"Ports 20,000 to 29,000: below the ephemeral ports of operating systems."
SERVER_PORTS = (*range(29_000, 32_768), *range(61_000, 65_536))
"Linux gives no outgoing connection one of these by default, so a port stays free until its server listens."


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a server on that host."""
    return host == "localhost" or host.startswith("127.") or host in ("::1", "[::1]")


def free_ports(count: int, host: str = LOOPBACK) -> list[int]:
    """Return ports that are free now, all different, and that outgoing connections rarely take."""
    with ExitStack() as probes:
        # All sockets stay open until the end, or the same port could be chosen twice.
        ports: list[int] = []
        # 0 at the end: the system chooses when all of these ports are taken.
        for port in (*random.sample(SERVER_PORTS, len(SERVER_PORTS)), *[0] * count):
            if len(ports) == count:
                break
            probe = probes.enter_context(socket.socket())
            with suppress(OSError):
                probe.bind((host, port))
                ports.append(int(probe.getsockname()[1]))
        return ports


def is_local_address(host: str) -> bool:
    """Return whether a host name or address is one that programs on this machine can listen on."""
    try:
        addresses = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    for family, kind, protocol, _, address in addresses:
        with suppress(OSError), socket.socket(family, kind, protocol) as probe:
            probe.bind(address)
            return True
    return False


def is_free(host: str, port: int) -> bool:
    """Return whether a server could listen on the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        # As servers do: without it, old connections in TIME_WAIT would make the port look taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def accepts_connections(host: str, port: int, within_s: float = 0.5) -> bool:
    """Return whether a server accepts connections on the address."""
    try:
        with socket.create_connection((host, port), timeout=within_s):
            return True
    except OSError:
        return False


def port_range(mark: str) -> tuple[int, int]:
    """Return a range of ports for the replicas of an installation, the same at every start.

    The ranges of two installations on one machine rarely overlap; if they do, replicas use other ports.
    """
    # The mark is a hash of the installation's path, so the range is stable without a file.
    first = RANGES_FROM + int(mark, 16) % RANGES * RANGE_WIDTH
    return first, first + RANGE_WIDTH - 1
