"""Memory of this machine, or of the container that this process runs in."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from pathlib import Path

import psutil

_FILES = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
"Limit and use of a control group, version 2 and 1."
_CGROUPS = Path("/sys/fs/cgroup")
_PROCESS = Path("/proc/self/cgroup")


def machine_memory(cgroups: Path = _CGROUPS, process: Path = _PROCESS) -> int:
    """Return the bytes of memory this process may use at most: the machine's, or its container's if that has less."""
    return min([int(psutil.virtual_memory().total), *(limit for limit, _ in _read_groups(cgroups, process))])


def available_memory(cgroups: Path = _CGROUPS, process: Path = _PROCESS) -> int:
    """Return the bytes of memory that are free for this process: the machine's, or its container's if that has less.

    Pages of files that nobody used lately count as free: the kernel drops them before it refuses memory.
    """
    free = [limit - used for limit, used in _read_groups(cgroups, process)]
    return max(0, min([int(psutil.virtual_memory().available), *free]))


def release_memory() -> None:
    """Free objects in reference cycles, and give unused pages of the heap back to the system.

    The loaded state of an app is part of cycles, so the reference counts alone do not free it when it is unloaded.

    Cost:
        proportional to the objects made since `freeze_objects`; other threads wait meanwhile
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)


def freeze_objects() -> None:
    """Leave the objects of now out of later garbage collections.

    The modules and stores of a started process are about 100,000 objects. Each full collection would visit them, while
    the event loop answers nobody: half a second on a busy machine, after which Redis counts as silent.
    """
    gc.collect()
    gc.freeze()


def _read_groups(cgroups: Path, process: Path) -> list[tuple[int, int]]:
    """Return limit and use in bytes of all control groups of this process that have a limit."""
    folders = {cgroups: None, cgroups / "memory": None}
    with contextlib.suppress(OSError):
        for line in process.read_text().splitlines():
            _, controllers, named = line.split(":", 2)
            if controllers not in ("", "memory"):
                continue
            # Every group above the one of this process may have the limit.
            top = cgroups / controllers
            group = top / named.strip().lstrip("/")
            folders |= dict.fromkeys(
                folder for folder in (group, *group.parents) if top in (folder, *folder.parents)
            )
    limits = []
    for folder in folders:
        for limit_file, used_file in _FILES:
            limit = _read_number(folder / limit_file)
            if limit > 0:
                limits.append((limit, max(0, _read_number(folder / used_file) - _read_unused_files(folder))))
    return limits


def _read_number(path: Path) -> int:
    try:
        text = path.read_text().strip()
    except OSError:
        return 0
    return int(text) if text.isdigit() else 0


def _read_unused_files(folder: Path) -> int:
    try:
        words = [line.split() for line in (folder / "memory.stat").read_text().splitlines()]
    except OSError:
        return 0
    sizes = {name: int(size) for name, size in words}
    return sizes.get("total_inactive_file", sizes.get("inactive_file", 0))
