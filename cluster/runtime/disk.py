"""The disk guard: writes stop before the disk is full, reads go on.

A door asks `refusal_reason()` before it accepts a write and refuses with that sentence (503, `Retry-After`). It looks
at the disk itself, at most once a second, so no part has to be alive to tell it, and writing goes on by itself
as soon as there is room.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from cluster.clock import Clock

LOOK_EVERY_S = 1.0
RETRY_AFTER_S = 10


def used_share(path: Path) -> float:
    """Tell how much of a disk is used, 0 to 1, as `df` counts: what ordinary users may not touch is used.

    Errors:
        OSError: there is no such directory
    """
    found = os.statvfs(path)
    used = found.f_blocks - found.f_bfree
    usable = used + found.f_bavail
    return used / usable if usable else 0.0


class DiskGuard:
    """Watches the disk below a directory; one that does not exist on this machine needs no guard."""

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
        """Say why writes are refused; empty while they are welcome.

        Cost: a comparison; once a second 2 microseconds for the system call.
        """
        now = self._clock.monotonic_s()
        if now - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = now
            self._reason = self._refresh()
        return self._reason

    def _refresh(self) -> str:
        try:
            share = self._share(self._path)
        except OSError:
            return ""
        if share < self._limit:
            return ""
        return (
            f"The disk of the service is {share:.0%} full, so writes are refused until there is room again. "
            "Reads go on."
        )
