"""The protocol of the stored replies to writes with an Idempotency-Key."""

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
        """Begin a write and return its state; `new` takes a lock that expires after 60 s without `finish` or `delete`.

        `most` bounds an app's bounded keys: the number of writes that may begin within an hour; 0: no bound.
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
        """Keep the reply for its lifetime, or until one of its users (`u:...`, `a:...`) is erased."""
        ...

    async def delete(self, app_id: str, token: str) -> None:
        """Delete the lock of a failed write whose reply must not be repeated."""
        ...
