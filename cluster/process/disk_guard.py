"""Guard the disk: writes stop before the disk is full, and reads continue.

An API replica calls `refusal_reason()` before it accepts a write, and refuses with that sentence (503,
`Retry-After`). The guard checks the disk itself, at most once a second, so it depends on no other process.
Replicas accept writes again as soon as there is space.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from cluster.clock import Clock

LOOK_EVERY_S = 1.0


def used_share(path: Path) -> float:
    """Return the used share of a disk, 0 to 1, as `df` counts: space reserved for root counts as used.

    Errors:
        OSError: there is no such directory
    """
    usage = os.statvfs(path)
    used = usage.f_blocks - usage.f_bfree
    usable = used + usage.f_bavail
    return used / usable if usable else 0.0


class DiskGuard:
    """Watches the disk below a directory; a missing directory needs no guard."""

    def __init__(
        self, path: Path, limit: float, clock: Clock, share: Callable[[Path], float] = used_share
    ) -> None:
        self._path = path
        self._limit = limit
        self._clock = clock
        self._share = share
        self._looked_at = float("-inf")
        self._reason = ""

    def refusal_reason(self) -> str:
        """Return why writes are refused; empty while they are accepted.

        Cost: a comparison; once a second 2 microseconds for the system call.
        """
        now = self._clock.monotonic_s()
        if now - self._looked_at >= LOOK_EVERY_S:
            # Before the call: a disk that answers late is asked no more often.
            self._looked_at = now
            self._reason = self._refresh()
        return self._reason

    def _refresh(self) -> str:
        try:
            share = self._share(self._path)
        # No directory, so nothing is written here.
        except OSError:
            return ""
        if share < self._limit:
            return ""
        return (
            f"The disk of the service is {share:.0%} full, so writes are refused until there is room again. "
            "Reads go on."
        )
