"""Keys of the store as backups carry them: whole, or in parts."""

from __future__ import annotations

from typing import Any

import msgspec


class StreamState(msgspec.Struct, array_like=True):
    """The state of a stream beside its entries; an empty stream has one too."""

    last_id: bytes
    "The newest id that was ever given."
    added: int = -1
    "Number of entries that were ever added; -1 where the server does not count them."
    deleted: bytes = b"0-0"
    "The newest id that was ever deleted."
    groups: list[tuple[bytes, bytes]] = []
    """Consumer groups: name, and the id after which entries are delivered. Entries that a consumer had not acknowledged
    come after it, so they are delivered again."""


class KeyPart(msgspec.Struct, array_like=True):
    """A key with all of its value or one part of it; the parts of a key are adjacent, and added to each other."""

    key: bytes
    kind: str
    "`string`, `hash`, `set`, `zset`, `list` or `stream`."
    items: list[Any]
    "As Redis returns them; hashes and sorted sets flat."
    expires_ms: int = 0
    "Wall clock; 0 means never."
    last_id: bytes = b""
    "Streams in backups of release 0.1.0, in each part: the newest id that was ever given when the first part was read."
    stream: StreamState | None = None
    "In the last part of a stream."
