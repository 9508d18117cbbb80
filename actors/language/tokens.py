"""Text to words: folded, split, with the trailing blank kept as a fact."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

_WORD = re.compile(r"\w+")
_IDEOGRAPHS = re.compile(r"[぀-ヿ㐀-鿿가-힯]")


@dataclass(frozen=True, slots=True)
class TypedWords:
    """What somebody typed so far."""

    words: tuple[str, ...]
    open_end: bool
    "The last word may still grow: no blank was typed after it."


def fold(text: str) -> str:
    """Fold case, width and accents, so that `Café` and `cafe` are one word."""
    if text.isascii():
        return text.lower()
    parts = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFC", "".join(c for c in parts if not unicodedata.combining(c)))


def tokenize(text: str) -> list[str]:
    """Split folded text into words; scripts without blanks are cut into pairs of characters."""
    found = _WORD.findall(fold(text))
    if text.isascii():
        return found
    return [piece for word in found for piece in _pieces(word)]


def tokenize_typed(text: str) -> TypedWords:
    """Split what somebody is typing, remembering whether the last word is finished."""
    found = tuple(tokenize(text))
    return TypedWords(found, bool(found) and not text[-1:].isspace())


def grams(word: str, sizes: tuple[int, ...] = (3, 4)) -> list[str]:
    """Cut a word, with marks at both ends, into overlapping character n-grams."""
    marked = f"<{word}>"
    return [marked[at : at + size] for size in sizes for at in range(len(marked) - size + 1)]


def _pieces(word: str) -> list[str]:
    if len(word) < 3 or not _IDEOGRAPHS.search(word):
        return [word]
    return [word[at : at + 2] for at in range(len(word) - 1)]
