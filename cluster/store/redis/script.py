"""The atomic steps: Lua texts from `scripts/`, each with the digest Redis remembers it by.

A script may fail only before its first write. Redis refuses the first writing command of a script when memory
or disk are full and never a later one, so a script is all or nothing also then; everything else that could
fail (types, counts, numbers) is checked by the Python beside it before the script is sent.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path(__file__).parent / "scripts"


@dataclass(frozen=True, slots=True)
class Script:
    """One Lua text."""

    name: str
    text: str
    digest: str

    @classmethod
    def load(cls, name: str) -> Script:
        """Read `scripts/<name>.lua`."""
        text = (_FOLDER / f"{name}.lua").read_text(encoding="utf-8")
        # SHA-1 is the name Redis gives a script, not a protection.
        return cls(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
