"""Published faults of Redis and Valkey, and the affected versions.

A fault lists the first repaired version of each release series. A series without an entry counts as affected when
it is older than the newest repaired series, because it gets no more repairs. Distributions repair old versions
without a new number, so for a distribution's build its security tracker decides.

Source: release notes of Redis and Valkey up to `AS_OF`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

AS_OF = "2026-11-22"
Version = tuple[int, ...]
Series = tuple[int, int]
_ALWAYS: Series = (0, 0)


def _versions(text: str) -> tuple[Version, ...]:
    return tuple(tuple(int(part) for part in word.split(".")) for word in text.split())


@dataclass(frozen=True, slots=True)
class PublishedVulnerability:
    """One published fault."""

    fault_id: str
    about: str
    redis: str = ""
    "First repaired version of each series, separated by blanks; empty: Redis never had it."
    valkey: str = ""
    only_with: str = ""
    "The feature that must be on for it; the server that Kiosk starts has it off."
    since: Mapping[str, Series] = field(default_factory=lambda: MappingProxyType({}))
    "Product -> first affected series."

    def affects_version(self, product: str, version: Version) -> bool:
        """Return whether a version has this fault."""
        repaired = _versions(self.valkey if product == "valkey" else self.redis)
        if not repaired or version[:2] < self.since.get(product, _ALWAYS):
            return False
        for first in repaired:
            if first[:2] == version[:2]:
                return version < first
        # A series that got no repair: affected if it is older than the newest repaired one.
        return version < max(repaired)


_FROM_7 = MappingProxyType({"redis": (7, 0)})
FAULTS = (
    PublishedVulnerability("CVE-2024-31449", "Lua bit library: stack overflow", "6.2.16 7.2.6 7.4.1", "7.2.7 8.0.1"),
    PublishedVulnerability("CVE-2024-31228", "long patterns stop the server", "6.2.16 7.2.6 7.4.1", "7.2.7 8.0.1"),
    PublishedVulnerability(
        "CVE-2024-31227", "malformed ACL selector stops the server", "7.2.6 7.4.1", "7.2.7 8.0.1", since=_FROM_7
    ),
    PublishedVulnerability("CVE-2024-46981", "Lua: code execution", "6.2.17 7.2.7 7.4.2", "7.2.8 8.0.2"),
    PublishedVulnerability(
        "CVE-2024-51741", "malformed ACL selector stops the server", "7.2.7 7.4.2", "7.2.8 8.0.2", since=_FROM_7
    ),
    PublishedVulnerability(
        "CVE-2025-21605", "clients without a password fill memory", "6.2.18 7.2.8 7.4.3", "7.2.9 8.0.3 8.1.1"
    ),
    PublishedVulnerability(
        "CVE-2025-32023", "HyperLogLog: code execution", "6.2.19 7.2.10 7.4.5 8.0.3", "7.2.10 8.0.4 8.1.3"
    ),
    PublishedVulnerability(
        "CVE-2025-48367", "clients without a password stop the server", "6.2.19 7.2.10 7.4.5 8.0.3",
        "7.2.10 8.0.4 8.1.3",
    ),
    PublishedVulnerability(
        "CVE-2025-49844", "Lua: code execution", "6.2.20 7.2.11 7.4.6 8.0.4 8.2.2", "7.2.11 8.0.6 8.1.4"
    ),
    PublishedVulnerability(
        "CVE-2025-46817", "Lua: integer overflow", "6.2.20 7.2.11 7.4.6 8.0.4 8.2.2", "7.2.11 8.0.6 8.1.4"
    ),
    PublishedVulnerability(
        "CVE-2025-46818", "Lua runs as another user", "6.2.20 7.2.11 7.4.6 8.0.4 8.2.2", "7.2.11 8.0.6 8.1.4"
    ),
    PublishedVulnerability(
        "CVE-2025-46819", "Lua: read out of bounds", "6.2.20 7.2.11 7.4.6 8.0.4 8.2.2", "7.2.11 8.0.6 8.1.4"
    ),
    PublishedVulnerability(
        "CVE-2025-62507", "XACKDEL: code execution", "8.2.3", since=MappingProxyType({"redis": (8, 2)})
    ),
    PublishedVulnerability(
        "CVE-2025-67733", "Lua error replies inject other replies", "6.2.22 7.2.13 7.4.8 8.2.5 8.4.2 8.6.1",
        "7.2.12 8.0.7 8.1.6 9.0.3",
    ),
    PublishedVulnerability(
        "CVE-2026-21863", "malformed message on the cluster bus stops the server", valkey="7.2.12 8.0.7 8.1.6 9.0.3",
        only_with="cluster mode",
    ),
    PublishedVulnerability(
        "CVE-2026-27623", "clients without a password stop the server", valkey="9.0.3",
        since=MappingProxyType({"valkey": (9, 0)}),
    ),
    PublishedVulnerability(
        "CVE-2026-23479", "use after free when a blocked client is evicted", "7.2.14 7.4.9 8.2.6 8.4.3 8.6.3",
        "7.2.13 8.0.8 8.1.7 9.0.4 9.1.0", only_with="maxmemory-clients",
        since=MappingProxyType({"redis": (7, 2)}),
    ),
    PublishedVulnerability(
        "CVE-2026-25243", "RESTORE: code execution", "6.2.22 7.2.14 7.4.9 8.2.6 8.4.3 8.6.3",
        "7.2.13 8.0.8 8.1.7 9.0.4 9.1.0",
    ),
    PublishedVulnerability(
        "CVE-2026-23631", "use after free when a replica synchronises during a script",
        "7.2.14 7.4.9 8.2.6 8.4.3 8.6.3", "7.2.13 8.0.8 8.1.7 9.0.4 9.1.0", only_with="replication",
        since=_FROM_7,
    ),
    PublishedVulnerability(
        "CVE-2026-56684", "use after free in TLS connections", valkey="7.2.14 8.0.10 8.1.9 9.0.5 9.1.1",
        only_with="TLS",
    ),
    PublishedVulnerability(
        "CVE-2026-63639", "corrupt stream in a snapshot file: code execution",
        valkey="7.2.14 8.0.10 8.1.9 9.0.5 9.1.1",
    ),
    PublishedVulnerability(
        "GHSA-fq2f-crmw-q97r", "use after free of the Lua interpreter", valkey="9.1.2",
        since=MappingProxyType({"valkey": (9, 1)}),
    ),
    PublishedVulnerability(
        "GHSA-f4q9-j22m-xqq9", "oversized message on the cluster bus: code execution",
        valkey="7.2.15 8.0.12 8.1.11 9.0.7 9.1.3", only_with="cluster mode",
    ),
    PublishedVulnerability(
        "CVE-2026-130822", "use after free in client eviction", valkey="7.2.16 8.0.13 8.1.12 9.0.8 9.1.4",
        only_with="maxmemory-clients",
    ),
)  # fmt: skip
"Oldest first. A series whose release notes name no repair is listed as affected."


def list_faults(product: str, version: Version) -> list[PublishedVulnerability]:
    """Return the published faults of a version."""
    return [fault for fault in FAULTS if fault.affects_version(product, version)]


def list_reachable_vulnerabilities(product: str, version: Version) -> list[PublishedVulnerability]:
    """Return the faults that need no feature that Kiosk switches off."""
    return [fault for fault in list_faults(product, version) if not fault.only_with]
