"""Which rows were erased from the settled segments, so that whatever was learned from them can be told.

The list stands in the facts of the segments' manifest and names nobody. A run compares its length: what it read is
out of date when somebody was erased since. A snapshot also compares offsets: rows that were written after it was
trained are not in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST = 1_000
"Erasures that are listed; older ones count as if they concerned everything."


def _position(offset: str) -> tuple[int, int]:
    ms, _, n = offset.partition("-")
    return int(ms), int(n or 0)


@dataclass(frozen=True, slots=True)
class ErasureLog:
    """Erasures of one app, oldest first."""

    count: int = 0
    "Erasures that took rows away, ever."
    listed: tuple[tuple[str, str, int], ...] = ()
    "The newest ones: noun, offset of the first row that went, time (ms)."

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> ErasureLog:
        """Read it from the facts of a manifest; a manifest without one has an empty one."""
        given = facts.get("erasures", {})
        return cls(
            given.get("count", 0), tuple((noun, first, at) for noun, first, at in given.get("listed", ()))
        )

    def to_dict(self) -> dict[str, Any]:
        """Write it as facts of a manifest."""
        return {"count": self.count, "listed": [list(one) for one in self.listed]}

    def add(self, noun: str, first: str, at_ms: int) -> ErasureLog:
        """Note an erasure."""
        return ErasureLog(self.count + 1, (*self.listed, (noun, first, at_ms))[-MOST:])

    def since(self, known: int, offsets: Mapping[str, str]) -> int:
        """Count erasures of rows that were in what somebody read when there were `known` erasures.

        `offsets` (noun -> offset) says up to where it was read.
        """
        unlisted = max(0, self.count - len(self.listed) - known)
        newer = self.listed[max(0, known - (self.count - len(self.listed))) :]
        held = [one for one in newer if _position(one[1]) <= _position(offsets.get(one[0], "0"))]
        return unlisted + len(held)
