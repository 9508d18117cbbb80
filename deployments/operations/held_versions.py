"""The snapshots that this process lately asked for beside the serving ones, so that comparisons stay bounded."""

from __future__ import annotations

from collections.abc import Iterable

from cluster.errors import TooMany

MOST = 4
"Two comparisons of two."
HELD_S = 600.0
"An engine releases a version without a query after so long."

HeldVersion = tuple[str, str, str]
"App, engine and version."


class HeldVersions:
    """Counts the versions that engines hold because of this process."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._held: dict[HeldVersion, float] = {}

    @property
    def count(self) -> int:
        """Return the number of held versions."""
        return len(self._held)

    def hold(self, versions: Iterable[HeldVersion], now_s: float) -> None:
        """Note that versions are asked for now.

        Errors:
            TooMany: too many others are held; fact `retry_after_s`
        """
        self._held = {one: at_s for one, at_s in self._held.items() if at_s > now_s - HELD_S}
        wanted = dict.fromkeys(versions, now_s)
        if len(self._held.keys() | wanted.keys()) > self._most:
            oldest_s = min(at_s for one, at_s in self._held.items() if one not in wanted)
            wait_s = max(1, round(oldest_s + HELD_S - now_s))
            raise TooMany(
                f"{self._most} snapshots are held for comparisons already; one is released in {wait_s} s",
                retry_after_s=wait_s,
            )
        self._held |= wanted
