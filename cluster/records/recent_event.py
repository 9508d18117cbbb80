"""A user's recent interaction in packed form, as recent lists in Redis hold it."""

from __future__ import annotations

from dataclasses import dataclass

import orjson


@dataclass(frozen=True, slots=True)
class RecentEvent:
    """One interaction of a user, as the recommender reads it."""

    type: str
    product_ids: tuple[str, ...]
    at_ms: int
    value: float = 0.0
    "duration in seconds, rating, or 0; the meaning depends on `type`."

    def pack(self) -> bytes:
        """Return the packed form for a recent list."""
        # formatting copies the bytes into a block of their size; the writer's own block is of 1 kB
        return b"%b" % orjson.dumps((self.type, self.product_ids, self.at_ms, self.value))

    @classmethod
    def unpack(cls, packed: bytes) -> RecentEvent:
        """Return the event of a packed form."""
        # a newer release may add values at the end
        kind, product_ids, at_ms, value = orjson.loads(packed)[:4]
        return cls(kind, tuple(product_ids), at_ms, value)
