"""What a reader did lately, packed small: the form that waits in Redis for the next recommendation."""

from __future__ import annotations

from dataclasses import dataclass

import orjson


@dataclass(frozen=True, slots=True)
class RecentEvent:
    """One thing a reader did, as the recommender sees it."""

    type: str
    product_ids: tuple[str, ...]
    at_ms: int
    value: float = 0.0
    "duration in seconds, rating, or 0; the meaning depends on `type`."

    def pack(self) -> bytes:
        """Pack for a recent list."""
        # formatting copies the bytes into a block of their size; the writer's own block is of 1 kB
        return b"%b" % orjson.dumps((self.type, self.product_ids, self.at_ms, self.value))

    @classmethod
    def unpack(cls, packed: bytes) -> RecentEvent:
        """Read back what `pack` wrote."""
        kind, product_ids, at_ms, value = orjson.loads(packed)
        return cls(kind, tuple(product_ids), at_ms, value)
