"""Does a passage hold what a sentence says? Asked of every sentence before it is shown, whoever wrote it."""

from __future__ import annotations

SUPPORTED = 0.5
"A sentence with at least this may be shown."


def supported(sentence: str, passage: str) -> float:
    """Say how well a passage holds a sentence: 0 not at all, 1 word by word."""
    return float(bool(sentence.strip()) and sentence.strip() in passage)
