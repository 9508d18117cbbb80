"""The protocol of the store of interactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class BrowserWriter:
    """Who writes with a publishable key, and how much they may."""

    address: str
    "Digest of the client's address."
    now_ms: int
    proven: frozenset[str] = frozenset()
    "User ids that were proven; every other reader is a stranger."
    readers_per_address: int = 1_000
    "Readers without proof one address may add on a day, or keep longer than that."
    readers_per_day: int = 100_000
    bytes_per_minute: int = 0
    "Of change-log entries, all browsers of the app together; 0: no bound."

    @property
    def day(self) -> int:
        """Days since 1970."""
        return self.now_ms // 86_400_000


class InteractionStore(Protocol):
    """Interactions: API replicas append them and read them back as a user's recent list."""

    async def append(
        self,
        app_id: str,
        payload: bytes,
        recents: Sequence[tuple[str, str, bytes]],
        writer: BrowserWriter | None = None,
    ) -> str:
        """Append one change-log entry and push to recent lists in one step; return the offset.

        `recents` are (user_id or "", anonymous_id or "", packed) per interaction that belongs into a recent
        list, oldest first. Both ids link the visitor to the user: what the visitor did so far is copied to
        the user's list, and what the visitor does later goes to both. A visitor linked to somebody else moves
        to the new user and starts an empty list; nothing is copied then. Empty bytes as `packed` only link.

        With a `writer` the call keeps within what a publishable key may do: see `recents`.

        Errors:
            TooMany: browsers wrote too much in this minute; nothing is written
        """
        ...

    async def recent(self, app_id: str, reader_ids: Sequence[str], limit: int = 200) -> list[bytes]:
        """Packed interactions of one or two readers (`u:`/`a:`), newest first, each list up to `limit`.
        What stands in both lists comes once."""
        ...

    async def links(self, app_id: str, anonymous_ids: Sequence[str]) -> dict[str, str]:
        """Which users visitors turned out to be; those who did not are absent."""
        ...

    async def erase(self, app_id: str, user_ids: Sequence[str]) -> None:
        """Forget all interactions of users and of visitors linked to them, and which variants they were
        given; logs an `erase` change."""
        ...
