"""Words and character n-grams of folded texts."""

from __future__ import annotations

import re

from actors.language.folding import fold

_WORD = re.compile(r"\w+")
_IDEOGRAPHS = re.compile(r"[぀-ヿ㐀-鿿가-힯]")


def tokenize(text: str) -> list[str]:
    """Split folded text into words; words of scripts without blanks are cut into pairs of characters."""
    found = _WORD.findall(fold(text))
    if text.isascii():
        return found
    return [piece for word in found for piece in _pair_up(word)]


def grams(word: str, sizes: tuple[int, ...] = (3, 4)) -> list[str]:
    """Return the overlapping character n-grams of a word, with `<` and `>` at its ends."""
    marked = f"<{word}>"
    return [marked[at : at + size] for size in sizes for at in range(len(marked) - size + 1)]


def _pair_up(word: str) -> list[str]:
    if len(word) < 3 or not _IDEOGRAPHS.search(word):
        return [word]
    return [word[at : at + 2] for at in range(len(word) - 1)]
