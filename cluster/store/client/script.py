"""The atomic steps: Lua texts from `scripts/`, each with its digest in Redis.

A script may fail only before its first write. When memory or disk are full, Redis refuses the first writing command
of a script and never a later one, so the script still does all or nothing. The Python code checks all other
conditions (types, counts, numbers) before it sends the script.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path(__file__).parents[1] / "scripts"
_CALLED = re.compile(r"redis\.p?call\('([A-Z]+)'")
_READING = (
    "EXISTS GET HEXISTS HGET HGETALL HLEN HMGET LLEN LRANGE PTTL SCARD SISMEMBER SMEMBERS TTL TYPE XINFO XLEN XPENDING "
    "XRANGE ZCARD ZRANGE ZSCORE"
)
_READS = frozenset(_READING.split())


@dataclass(frozen=True, slots=True)
class Script:
    """One Lua text."""

    name: str
    text: str
    digest: str
    writes: bool
    "Whether it changes anything."

    @classmethod
    def load(cls, name: str) -> Script:
        """Read `scripts/<name>.lua`."""
        text = (_FOLDER / f"{name}.lua").read_text(encoding="utf-8")
        # Redis names a script by its SHA-1; it is no protection.
        digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
        return cls(name, text, digest, any(command not in _READS for command in _CALLED.findall(text)))
