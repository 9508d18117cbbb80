"""Bounds on the snapshots that engines load beside the serving ones because this process compares them."""

from __future__ import annotations

from collections.abc import Iterable

from cluster.errors import TooMany

MOST = 4
"Two comparisons of two."
LOADED_S = 600.0
"An engine releases a version without a query after so long."

SnapshotName = tuple[str, str, str]
"App, engine and version."


class SnapshotBounds:
    """Counts the snapshots that engines hold for comparisons of this process."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._asked_s: dict[SnapshotName, float] = {}

    @property
    def count(self) -> int:
        """Return the number of loaded snapshots."""
        return len(self._asked_s)

    def reserve(self, snapshots: Iterable[SnapshotName], now_s: float) -> None:
        """Note that snapshots are asked for now.

        Errors:
            TooMany: too many others are loaded; fact `retry_after_s`
        """
        self._asked_s = {one: at_s for one, at_s in self._asked_s.items() if at_s > now_s - LOADED_S}
        wanted = dict.fromkeys(snapshots, now_s)
        if len(self._asked_s.keys() | wanted.keys()) > self._most:
            oldest_s = min(at_s for one, at_s in self._asked_s.items() if one not in wanted)
            wait_s = max(1, round(oldest_s + LOADED_S - now_s))
            raise TooMany(
                f"{self._most} snapshots are loaded for comparisons already; one is released in {wait_s} s",
                retry_after_s=wait_s,
            )
        self._asked_s |= wanted
