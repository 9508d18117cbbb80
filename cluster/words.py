"""Tables of words in code, written as text: one word after another instead of one a line."""

from __future__ import annotations


def list_words(text: str) -> tuple[str, ...]:
    """Return the words of a text."""
    return tuple(text.split())
