"""Keys of the store as backups carry them: whole, or in parts."""

from __future__ import annotations

from typing import Any

import msgspec


class KeyPart(msgspec.Struct, array_like=True):
    """A key with all of its value or one part of it; the parts of a key are added to each other."""

    key: bytes
    kind: str
    "`string`, `hash`, `set`, `zset`, `list` or `stream`."
    items: list[Any]
    "As Redis returns them; hashes and sorted sets flat."
    expires_ms: int = 0
    "Wall clock; 0 means never."
    last_id: bytes = b""
    "Streams: the newest id that was ever given."
