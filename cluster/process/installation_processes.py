"""Finding and ending the processes of one installation, and no others.

Every process of Kiosk has the installation's mark in its environment, and so do its children. A process that
rewrote its environment is identified by the run directory on its command line.
"""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterable

import psutil

from cluster.paths import InstallationPaths

MARK = "KIOSK_MARK"
"Environment variable that holds `InstallationPaths.mark`."
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> bool:
    """Become the parent of descendants whose parent dies, so that none is lost; return False where impossible."""
    try:
        return bool(ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)
    except (OSError, AttributeError):
        return False


def list_processes(paths: InstallationPaths) -> list[psutil.Process]:
    """Return all processes of an installation except this one and its ancestors."""
    me = psutil.Process()
    spared = {me.pid, *(parent.pid for parent in me.parents())}
    # A process that hid both its environment and its command line is still found as a child of another.
    mine = (
        {}
        if os.environ.get(MARK) != paths.mark
        else {child.pid: child for child in me.children(recursive=True)}
    )
    for process in psutil.process_iter():
        try:
            if process.pid not in spared and process.pid not in mine and _is_part_of(process, paths):
                mine[process.pid] = process
        except (psutil.Error, OSError):
            continue
    return list(mine.values())


def _is_part_of(process: psutil.Process, paths: InstallationPaths) -> bool:
    # A process of another user is not ours, and its environment can't be read.
    if process.uids().real != os.getuid() or process.status() == psutil.STATUS_ZOMBIE:
        return False
    if process.environ().get(MARK) == paths.mark:
        return True
    # With a slash, or the run directory of another installation with a longer name would match.
    inside = f"{paths.run_dir}/"
    return any(inside in word for word in process.cmdline())


def end_processes(processes: Iterable[psutil.Process], patience_s: float) -> list[psutil.Process]:
    """Terminate processes, kill them after `patience_s`; return those that remain."""
    alive = list(processes)
    for way, wait_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, 5.0)):
        for process in alive:
            try:
                process.send_signal(way)
                # A stopped process handles no signal but this one and SIGKILL.
                process.send_signal(signal.SIGCONT)
            except psutil.Error:
                continue
        _, alive = psutil.wait_procs(alive, timeout=wait_s)
        if not alive:
            break
    return alive


def title_of(process: psutil.Process) -> str:
    """Return the name of a process and the title that it gave itself; empty if it has ended."""
    try:
        return " ".join([process.name(), *process.cmdline()[:1]])
    except psutil.Error:
        return ""


def is_alive(pid: int) -> bool:
    """Return whether a process exists and runs; a zombie does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def pss_bytes(processes: Iterable[psutil.Process]) -> int:
    """Return the sum of proportional memory in bytes: shared pages count once over all processes."""
    total = 0
    for process in processes:
        try:
            total += process.memory_full_info().pss
        except psutil.Error:
            continue
    return total


def reap_orphans(kept_pids: set[int]) -> None:
    """Collect the exit codes of adopted orphans that ended; `kept_pids` children are left to their owners."""
    while True:
        try:
            # WNOWAIT only looks: a child that `subprocess` started must stay for its owner to collect.
            child = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if child is None or child.si_pid in kept_pids:
            return
        os.waitpid(child.si_pid, 0)
