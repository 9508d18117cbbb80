"""What a check of `kiosk doctor` saw."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

Level = Literal["ok", "warning", "bad"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check saw, and what to do about it."""

    check: str
    level: Level
    words: str
    advice: str = ""

    def to_dict(self) -> dict[str, str]:
        """Say it as JSON."""
        return asdict(self)
