"""Count restarts of processes that Ray starts again by itself: API replicas, intake, tracker and the other actors.

A process has a role by its title. A restart is the end of a process of a role that a new one of that role follows
within `REPLACED_S`; a replica that ends because load fell has no follower.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import psutil

EVERY_S: Final = 2.0
REPLACED_S: Final = 60.0
ROLES: Final[Mapping[str, str]] = {
    "ServeReplica:api": "api",
    "ServeReplica:": "engine",
    "IntakeHost": "intake",
    "TrackerHost": "tracker",
    "AssignerHost": "assigner",
    "EngineOperator": "engines",
    "ray::Trainer": "trainer",
}
"Part of a process title -> the part of the installation; the first that fits counts."


class ProcessWatch:
    """Compares the processes of an installation from time to time."""

    def __init__(self) -> None:
        self._alive: dict[int, str] = {}
        self._ended: list[tuple[str, float]] = []
        "Roles whose process ended, and when."

    def find_restarts(self, processes: Mapping[int, str], now_s: float) -> list[str]:
        """Return the roles of new processes that replace ended ones; `processes` has a role for each process id."""
        self._ended = [(role, at_s) for role, at_s in self._ended if now_s - at_s < REPLACED_S]
        self._ended += [(role, now_s) for pid, role in self._alive.items() if pid not in processes]
        restarts = []
        for role in (role for pid, role in processes.items() if pid not in self._alive):
            before = next((ended for ended in self._ended if ended[0] == role), None)
            if before is not None:
                self._ended.remove(before)
                restarts.append(role)
        self._alive = dict(processes)
        return restarts

    def reset(self) -> None:
        """Forget all processes: the whole of Ray starts again, which counts by itself."""
        self._alive = {}
        self._ended = []


def list_roles(processes: Iterable[psutil.Process]) -> dict[int, str]:
    """Return the role of each process that has one, by process id."""
    roles = {}
    for process in processes:
        try:
            title = " ".join([process.name(), *process.cmdline()[:1]])
        except psutil.Error:
            continue
        role = next((role for part, role in ROLES.items() if part in title), "")
        if role:
            roles[process.pid] = role
    return roles
