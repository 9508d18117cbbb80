"""The bill of materials of an installation in CycloneDX 1.6.

A component is an installed Python package or a program that came inside one (the Redis or Valkey server, HAProxy). A
package names the files of its release that `cluster/locks/run.lock` admits, by hash: pip took one of them.

Source: the CycloneDX 1.6 JSON schema, ECMA-424.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
import subprocess
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import NormalizedName, canonicalize_name

from cluster import build_info
from cluster.errors import KioskError
from cluster.local.haproxy_process import find_haproxy
from cluster.local.redis_binary import find_redis

PRODUCT = "kiosk"
LOCK = Path(__file__).parents[1] / "locks" / "run.lock"
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_LONGEST_LICENCE = 80
"Some packages write the whole text of their licence into the field for its name."


def parse_lock_file(text: str) -> dict[tuple[str, str], list[str]]:
    """Return a lock file as (name, version) -> the SHA-256 of each file of that release."""
    packages: dict[tuple[str, str], list[str]] = {}
    hashes: list[str] = []
    for line in text.splitlines():
        if pinned := _PINNED.match(line):
            hashes = packages.setdefault((canonicalize_name(pinned[1]), pinned[2]), [])
        hashes += _HASH.findall(line)
    return packages


def build_bill(timestamp: str, serial: str) -> dict[str, Any]:
    """Return the bill of the environment of this process.

    `timestamp` is now in ISO 8601 with a time zone, `serial` a random UUID.
    """
    installed = {
        canonicalize_name(each.name): each for each in importlib.metadata.distributions() if each.name
    }
    lock = parse_lock_file(LOCK.read_text("utf-8")) if LOCK.is_file() else {}
    packages = [_package(name, each, lock) for name, each in sorted(installed.items()) if name != PRODUCT]
    programs = list(_programs())
    product = {
        "type": "application",
        "bom-ref": PRODUCT,
        "name": PRODUCT,
        "version": build_info.installed_version(),
    }
    edges: dict[str, list[str]] = {name: _requirements(each, installed) for name, each in installed.items()}
    edges[PRODUCT] = edges.get(PRODUCT, []) + [program["bom-ref"] for program in programs]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"timestamp": timestamp, "component": product},
        "components": [*packages, *programs],
        "dependencies": [{"ref": name, "dependsOn": needs} for name, needs in sorted(edges.items())],
    }


def _package(name: str, each: Distribution, lock: Mapping[tuple[str, str], list[str]]) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}@{each.version}"
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": name,
        "name": name,
        "version": each.version,
        "purl": purl,
    }
    if licences := _licences(each):
        component["licenses"] = licences
    if hashes := lock.get((name, each.version)):
        component["externalReferences"] = [
            {
                "type": "distribution",
                "url": purl,
                "comment": "the files of this release that the lock admits",
                "hashes": [{"alg": "SHA-256", "content": content} for content in hashes],
            }
        ]
    return component


def _licences(each: Distribution) -> list[dict[str, Any]]:
    """Return the SPDX expression, else the classifiers, else a short free text."""
    metadata = each.metadata
    # PEP 639: an expression replaces the classifiers.
    if "License-Expression" in metadata:
        return [{"expression": metadata["License-Expression"]}]
    names = [
        line.rpartition("::")[2].strip()
        for line in metadata.get_all("Classifier") or ()
        if line.startswith("License ::") and not line.endswith("OSI Approved")
    ]
    text = metadata["License"].strip() if "License" in metadata else ""
    if not names and 0 < len(text) <= _LONGEST_LICENCE and "\n" not in text:
        names = [text]
    return [{"license": {"name": name}} for name in dict.fromkeys(names)]


def _requirements(each: Distribution, installed: Mapping[NormalizedName, Distribution]) -> list[str]:
    needs: set[str] = set()
    for text in each.requires or ():
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        name = canonicalize_name(requirement.name)
        # A marker can't be evaluated without a value for `extra`; here nobody asks for one.
        if name in installed and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            needs.add(name)
    return sorted(needs)


def _programs() -> Iterable[dict[str, Any]]:
    """Yield the programs that an installation starts, with the hash of the file on this machine."""
    try:
        server = find_redis()
        version = ".".join(map(str, server.version))
        # Redis left the BSD licence with 7.4.
        licence = "BSD-3-Clause" if server.product == "valkey" or server.version < (7, 4) else ""
        yield _program(server.product, version, licence, server.path, server.kind)
    except KioskError:
        pass
    try:
        path = find_haproxy()
        words = subprocess.run([path, "-v"], capture_output=True, text=True, timeout=10, check=False).stdout
        number = re.search(r"version (\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)", words)
        yield _program("haproxy", number[1] if number else "", "GPL-2.0-or-later", path, "bundled")
    except KioskError:
        pass


def _program(name: str, version: str, licence: str, path: str, kind: str) -> dict[str, Any]:
    content = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    component: dict[str, Any] = {
        "type": "application",
        "bom-ref": f"program:{name}",
        "name": name,
        "version": version,
        "purl": f"pkg:generic/{name}@{version}",
        "hashes": [{"alg": "SHA-256", "content": content}],
        "properties": [{"name": "kiosk:origin", "value": kind}],
    }
    if licence:
        component["licenses"] = [{"expression": licence}]
    return component
