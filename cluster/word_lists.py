"""Tables of words in code, written as text: one word after another instead of one a line."""

from __future__ import annotations


def words_from_text(text: str) -> tuple[str, ...]:
    """Return the words of a text."""
    return tuple(text.split())
