"""The protocol of the change log: one ordered stream of writes for each noun."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Noun = Literal["user", "product", "interaction"]
Op = Literal["put", "remove", "erase"]


@dataclass(frozen=True, slots=True)
class ChangeLogEntry:
    """One entry of a change log."""

    noun: Noun
    offset: str
    "Stream entry id `<ms>-<n>`; offsets of one noun grow."
    op: Op
    payload: bytes
    """put user/product: JSON array of records. remove: JSON array of ids. put interaction: JSON array of
    normalised interactions. erase interaction: JSON array of prefixed user ids (`u:...`, `a:...`)."""
    vectors: bytes = b""
    "Only product puts: float16 [n, d] little endian, one row a record, in payload order."
    embedder: str = ""
    "Version of the embedder that made `vectors`."
    is_lost: bool = False
    "An `erase` or `remove` whose two copies are both damaged: its ids are lost."


@dataclass(frozen=True, slots=True)
class Follower:
    """A process that follows the change log of an app."""

    name: str
    at_ms: int
    "When the follower last recorded its offsets."
    offsets: Mapping[Noun, str]
    digest: Mapping[str, str] = field(default_factory=dict)
    """Digests of its state at these offsets: `records`, and `lists` of a state that was just loaded with the snapshot
    `version`. Empty for followers that answer no queries."""


FOLLOWING_MS = 60_000
"A follower that was silent for longer has ended."


def find_differing(followers: Iterable[Follower], now_ms: int) -> list[str]:
    """Return the names of live followers whose state differs from that of another one at the same offsets."""
    digests: dict[tuple[Any, ...], dict[str, list[str]]] = {}
    for follower in followers:
        if now_ms - follower.at_ms >= FOLLOWING_MS:
            continue
        digest, offsets = follower.digest, tuple(sorted(follower.offsets.items()))
        for kind, at in (("records", offsets), ("lists", (*offsets, digest.get("version", "")))):
            if digest.get(kind):
                digests.setdefault((kind, at), {}).setdefault(digest[kind], []).append(follower.name)
    differing = [names for found in digests.values() if len(found) > 1 for names in found.values()]
    return sorted({name for names in differing for name in names})


class ChangeLog(Protocol):
    """The ordered stream of writes, one for each noun."""

    async def read(
        self, app_id: str, after: Mapping[Noun, str], *, count: int, block_ms: int
    ) -> list[ChangeLogEntry]:
        """Return changes after the offsets (`"0"` = from the start), oldest first per noun, up to `count` each.

        Waits up to `block_ms` for the first; 0 does not wait. A damaged change is returned as an empty one
        (`put` of `[]`), so that a follower can skip it.
        """
        ...

    async def last(self, app_id: str, noun: Noun) -> str:
        """Return the newest offset, `"0"` when the log is empty."""
        ...

    async def first(self, app_id: str, noun: Noun) -> str:
        """Return the offset after which the log is complete; `"0"` when it was never trimmed. A follower at an
        older offset has a gap and must load compacted segments."""
        ...

    async def record_follower(self, app_id: str, follower: Follower) -> None:
        """Record a follower; for 10 minutes no entry after its offsets is trimmed."""
        ...

    async def list_followers(self, app_id: str) -> list[Follower]:
        """Return the followers of an app by name, those that ended too; damaged entries are left out."""
        ...

    async def compacted_offsets(self, app_id: str) -> dict[Noun, str]: ...

    async def request_compaction(self, app_id: str, offsets: Mapping[Noun, str]) -> None:
        """Request that everything up to these offsets is compacted soon, without waiting for more entries."""
        ...

    async def requested_compactions(self, app_id: str) -> dict[Noun, str]: ...

    async def compact(self, app_id: str, noun: Noun, offset: str, now_ms: int) -> int:
        """Record that segments contain all changes up to `offset`; trim entries that no live follower needs.

        Returns the number of trimmed entries. An older offset than the recorded one only trims.
        """
        ...
