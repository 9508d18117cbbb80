"""Bounds on the snapshots that engines load beside the serving ones because this process compares them."""

from __future__ import annotations

from collections.abc import Iterable

from cluster.errors import TooMany

MOST = 4
"Two comparisons of two, in one app."
MOST_IN_ALL = 16
"In all apps together: each loaded snapshot takes memory of this process."
LOADED_S = 600.0
"An engine releases a version without a query after so long."

SnapshotName = tuple[str, str, str]
"App, engine and version."


class SnapshotBounds:
    """Counts the snapshots that engines hold for comparisons of this process."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._requested_s: dict[SnapshotName, float] = {}

    @property
    def count(self) -> int:
        """Return the number of loaded snapshots."""
        return len(self._requested_s)

    def reserve(self, snapshots: Iterable[SnapshotName], now_s: float) -> None:
        """Note that snapshots are asked for now.

        Errors:
            TooMany: too many others are loaded; fact `retry_after_s`
        """
        self._requested_s = {
            snapshot: at_s for snapshot, at_s in self._requested_s.items() if at_s > now_s - LOADED_S
        }
        requested = dict.fromkeys(snapshots, now_s)
        apps = {app_id for app_id, _, _ in requested}
        of_apps = {snapshot: at_s for snapshot, at_s in self._requested_s.items() if snapshot[0] in apps}
        for most, loaded in ((self._most, of_apps), (MOST_IN_ALL, self._requested_s)):
            others = [at_s for snapshot, at_s in loaded.items() if snapshot not in requested]
            if others and len(loaded.keys() | requested.keys()) > most:
                wait_s = max(1, round(min(others) + LOADED_S - now_s))
                raise TooMany(
                    f"{most} snapshots are loaded for comparisons already; one is released in {wait_s} s",
                    retry_after_s=wait_s,
                )
        self._requested_s |= requested
