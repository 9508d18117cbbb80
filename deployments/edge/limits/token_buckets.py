"""Token buckets for client addresses, for a bounded number of addresses in this process.

There are two tables. A new address enters the young one. When it is full, it becomes the old table, and the previous
old table is dropped. So frequent addresses stay, and memory never exceeds two tables.
"""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass
from functools import lru_cache

from cluster.clock import Clock

MOST_ADDRESSES = 20_000
"Addresses of one table: about 4 MB in both."


def network_from_address(address: str) -> str:
    """Return the part of an address that a client can't choose: an IPv4 address, or the first 64 bits of an IPv6 one.

    Cost: 60 ns for IPv4.
    """
    return address if ":" not in address else _network_of_v6(address)


@lru_cache(maxsize=4096)
def _network_of_v6(address: str) -> str:
    try:
        parsed = ipaddress.IPv6Address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return f"{int(parsed) >> 64:x}::"


def digest_address(secret: bytes, period: int, address: str) -> str:
    """Return a keyed digest of an address; the digest changes with each period."""
    message = f"{period}\0{network_from_address(address)}".encode("utf-8", "surrogatepass")
    return hmac.digest(secret or b"kiosk", message, "sha256").hex()[:16]


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at_s: float


class AddressBuckets:
    """Token buckets by address; the caller gives rate and burst with each call."""

    def __init__(self, clock: Clock, most: int = MOST_ADDRESSES) -> None:
        self._clock = clock
        self._most = most
        self._young: dict[tuple[str, str, str], _Bucket] = {}
        self._old: dict[tuple[str, str, str], _Bucket] = {}

    def spend(
        self, key_id: str, bucket: str, address: str, rate: float, burst: float, count: float = 1
    ) -> float:
        """Take tokens; return 0, or the seconds until there are enough.

        Cost: half a microsecond.
        """
        name = (key_id, bucket, network_from_address(address))
        now_s = self._clock.monotonic_s()
        state = self._young.get(name) or self._refill(name, now_s, burst)
        tokens = state.tokens + (now_s - state.at_s) * rate
        state.at_s = now_s
        state.tokens = tokens if tokens < burst else burst
        if state.tokens < count:
            return (count - state.tokens) / rate
        state.tokens -= count
        return 0.0

    def _refill(self, name: tuple[str, str, str], now_s: float, burst: float) -> _Bucket:
        if len(self._young) >= self._most:
            self._old, self._young = self._young, {}
        bucket = self._old.pop(name) if name in self._old else _Bucket(burst, now_s)
        self._young[name] = bucket
        return bucket
