"""The log of rows erased from segments, which shows which models were trained on them.

The log is in the facts of the segments' manifest and contains no user ids. A run compares its length: its data is
outdated if an erasure happened since. A snapshot also compares offsets: rows written after its training
are not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST = 1_000
"Erasures in the list; older ones count as if they affected everything."


def _position(offset: str) -> tuple[int, int]:
    ms, _, n = offset.partition("-")
    return int(ms), int(n or 0)


@dataclass(frozen=True, slots=True)
class ErasureLog:
    """Erasures of one app, oldest first."""

    count: int = 0
    "Total number of erasures that removed rows."
    listed: tuple[tuple[str, str, int], ...] = ()
    "The newest ones: noun, offset of the first removed row, time (ms)."

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> ErasureLog:
        """Return the log from the facts of a manifest; empty for a manifest without one."""
        given = facts.get("erasures", {})
        return cls(
            given.get("count", 0), tuple((noun, first, at) for noun, first, at in given.get("listed", ()))
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the log as facts of a manifest."""
        return {"count": self.count, "listed": [list(entry) for entry in self.listed]}

    def add(self, noun: str, first: str, at_ms: int) -> ErasureLog:
        """Return the log with one more erasure."""
        return ErasureLog(self.count + 1, (*self.listed, (noun, first, at_ms))[-MOST:])

    def may_concern(self, noun: str, offset: str) -> bool:
        """Return whether rows of a log entry may have been erased: an erasure came later, and reached back so far."""
        written = _position(offset)
        return any(
            erased_noun == noun and _position(first) <= written and at_ms >= written[0]
            for erased_noun, first, at_ms in self.listed
        )

    def since(self, seen: int, offsets: Mapping[str, str]) -> int:
        """Return the number of erasures that affect data read after the first `seen` erasures.

        `offsets` (noun -> offset) is how far that data was read.
        """
        unlisted = max(0, self.count - len(self.listed) - seen)
        newer = self.listed[max(0, seen - (self.count - len(self.listed))) :]
        applied = [entry for entry in newer if _position(entry[1]) <= _position(offsets.get(entry[0], "0"))]
        return unlisted + len(applied)
