"""The protocol of the store of interactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class BrowserWriter:
    """A client that writes with a publishable key, and its limits."""

    address: str
    "Digest of the client's address."
    now_ms: int
    proven: frozenset[str] = frozenset()
    "User ids that the client proved; every other user is unverified."
    readers_per_address: int = 1_000
    "Unverified users one address may add on a day, or keep longer than that."
    readers_per_day: int = 100_000
    bytes_per_minute: int = 0
    "Of change-log entries, all browsers of the app together; 0: no bound."

    @property
    def day(self) -> int:
        """Return the day, in days since 1970."""
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

        `recents` are (user_id or "", anonymous_id or "", packed) per interaction that belongs in a recent
        list, oldest first. Both ids link the visitor to the user: the visitor's interactions so far are copied to
        the user's list, and later ones go to both lists. A visitor who was linked to another user moves
        to the new user and starts an empty list; nothing is copied then. Empty bytes as `packed` only link.

        With a `writer`, the limits of a publishable key apply: see `recents`.

        Errors:
            TooMany: browsers wrote too many bytes in this minute; nothing is written
        """
        ...

    async def recent(self, app_id: str, reader_ids: Sequence[str], limit: int = 200) -> list[bytes]:
        """Return the packed interactions of one or two prefixed ids (`u:`/`a:`), newest first, at most `limit` of
        each list. An interaction in both lists comes once."""
        ...

    async def links(self, app_id: str, anonymous_ids: Sequence[str]) -> dict[str, str]:
        """Return the users that visitors were linked to; unlinked visitors are absent."""
        ...

    async def erase(self, app_id: str, user_ids: Sequence[str]) -> None:
        """Erase all interactions and variant assignments of users and of their linked visitors; append an `erase`
        change."""
        ...
