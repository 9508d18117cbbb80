"""One row of a file, or the reason why it could not be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_KEPT = 500


@dataclass(frozen=True, slots=True)
class UnreadableRow:
    """A row that could not be read."""

    reason: str
    text: str
    "The beginning of the text of the row."


Row = dict[str, Any] | UnreadableRow


def shorten_row(text: bytes | str) -> str:
    """Return the beginning of a row, long enough to find it."""
    start = text[:_KEPT]
    return start if isinstance(start, str) else start.decode("utf-8", "replace")
