"""One row of a file, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_KEPT = 500


@dataclass(frozen=True, slots=True)
class UnreadableRow:
    """A row that could not be read."""

    reason: str
    text: str
    "The beginning of what stood there."


Row = dict[str, Any] | UnreadableRow


def shorten_row(text: bytes | str) -> str:
    """Keep enough of a row to find it again."""
    start = text[:_KEPT]
    return start if isinstance(start, str) else start.decode("utf-8", "replace")
