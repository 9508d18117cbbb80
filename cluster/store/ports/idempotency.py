"""The protocol of the replies kept for an Idempotency-Key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class IdempotencyState:
    """State of an Idempotency-Key: `new` (go on), `flying`, `done` (repeat the reply), `other` (other body), `full`
    (too many keys)."""

    state: Literal["new", "flying", "done", "other", "full"]
    status: int = 0
    reply: bytes = b""


class IdempotencyStore(Protocol):
    """The replies to writes with an Idempotency-Key."""

    async def begin(self, app_id: str, token: str, body_sha256: str, *, most: int = 0) -> IdempotencyState:
        """Begin a write; `new` takes a lock that lapses after 60 s unless `finish` or `forget` comes first.

        `most` bounds the bounded ones among an app's keys: so many may be begun within an hour; 0: no bound.
        """
        ...

    async def finish(
        self,
        app_id: str,
        token: str,
        status: int,
        reply: bytes,
        readers: Sequence[str] = (),
        *,
        life_ms: int = 86_400_000,
    ) -> None:
        """Keep the answer for its life, or until one of its readers (`u:...`, `a:...`) is forgotten."""
        ...

    async def delete(self, app_id: str, token: str) -> None:
        """The write failed without an answer worth repeating."""
        ...
