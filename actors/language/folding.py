"""Texts folded for comparison, in two forms, and the words and character n-grams of folded texts.

fold        a word as index terms are made of it: case, width and accents go, everything else stays
fold_text   a whole text as completions compare it: one blank between words, no punctuation, 16-bit characters, and
            with `fold_with_positions` the way back to the text as written

    fold_text("Harry Potter & the Sorcerer's Stone")   ->   "harry potter the sorcerers stone"

`fold_text` removes apostrophes and turns every other run of characters that are neither letter nor digit into one
blank. The two forms differ in stored indexes, so one can't replace the other.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_ASCII_JUNK = re.compile(r"[^a-z0-9]+")
_ASCII_WORD: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789")
_ASCII_JOINED: Final = str.maketrans("", "", "'")
_APOSTROPHES: Final = frozenset("'’ʼ`´")
_SPECIAL: Final = {
    "ß": "ss",
    "æ": "ae",
    "œ": "oe",
    "ø": "o",
    "đ": "d",
    "ð": "d",
    "ł": "l",
    "þ": "th",
    "ı": "i",
}
_PRIVATE: Final = 0xE000
_PRIVATE_SIZE: Final = 0x1900


def fold(text: str) -> str:
    """Fold case, width and accents, so that `Café` and `cafe` are one word."""
    # Most texts: nothing to decompose.
    if text.isascii():
        return text.lower()
    # NFKD takes accents apart from their letters; `casefold` first, as it may decompose too.
    parts = unicodedata.normalize("NFKD", text.casefold())
    # Composed again: Hangul syllables come apart under NFKD.
    return unicodedata.normalize("NFC", "".join(c for c in parts if not unicodedata.combining(c)))


def fold_text(text: str) -> str:
    """Fold a text, without blanks at its ends."""
    if text.isascii():
        return _ASCII_JUNK.sub(" ", text.lower().translate(_ASCII_JOINED)).strip()
    return "".join(char for char, _ in _fold_pieces(text)).strip()


def fold_with_positions(text: str) -> tuple[str, list[int]]:
    """Fold a text and return with it the position in the text that each folded character came from."""
    if text.isascii():
        return _fold_ascii_with_positions(text)
    pieces = _fold_pieces(text)
    while pieces and pieces[0][0] == " ":
        pieces.pop(0)
    while pieces and pieces[-1][0] == " ":
        pieces.pop()
    return "".join(char for char, _ in pieces), [place for _, place in pieces]


def fold_typed(text: str) -> str:
    """Fold the beginning of a query; one blank stays at its end if the user finished the last word."""
    folded = fold_text(text)
    ended = bool(folded) and bool(text) and not _is_word(text[-1]) and text[-1] not in _APOSTROPHES
    return folded + " " if ended else folded


def _is_word(char: str) -> bool:
    return char.isalnum() or bool(unicodedata.combining(char))


def _fold_pieces(text: str) -> list[tuple[str, int]]:
    """Fold character by character, with the position of each; blanks never follow each other."""
    pieces: list[tuple[str, int]] = []
    for place, char in enumerate(text):
        if char in _APOSTROPHES:
            continue
        for part in _decompose(char):
            if unicodedata.combining(part) or part in _APOSTROPHES:
                continue
            if part.isalnum() or _PRIVATE <= ord(part) < _PRIVATE + _PRIVATE_SIZE:
                pieces.append((_to_16_bits(unicodedata.normalize("NFC", part)), place))
            elif pieces and pieces[-1][0] != " ":
                pieces.append((" ", place))
    return _compose_hangul(pieces)


def _fold_ascii_with_positions(text: str) -> tuple[str, list[int]]:
    """Fold an ASCII text as `fold_text` does."""
    chars: list[str] = []
    places: list[int] = []
    for place, char in enumerate(text.lower()):
        if char in _ASCII_WORD:
            chars.append(char)
            places.append(place)
        elif char != "'" and chars and chars[-1] != " ":
            chars.append(" ")
            places.append(place)
    if chars and chars[-1] == " ":
        del chars[-1], places[-1]
    return "".join(chars), places


def _decompose(char: str) -> str:
    """Decompose a character and fold its case; some become capitals only when they are decomposed."""
    parts = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", char).casefold())
    return "".join(_SPECIAL.get(part, part) for part in parts)


def _compose_hangul(pieces: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Compose the Hangul syllables that decomposition took apart."""
    if not any("\u1100" <= char <= "\u11ff" for char, _ in pieces):
        return pieces
    put: list[tuple[str, int]] = []
    for char, place in pieces:
        # Only pieces of one character of the text join.
        if put and put[-1][1] == place:
            joined = unicodedata.normalize("NFC", put[-1][0] + char)
            if len(joined) == 1:
                put[-1] = (joined, place)
                continue
        put.append((char, place))
    return put


def _to_16_bits(char: str) -> str:
    """Map a character beyond 16 bits into the private use area, so that every character is one 16-bit number."""
    return char if ord(char) <= 0xFFFF else chr(_PRIVATE + ord(char) % _PRIVATE_SIZE)


_WORD = re.compile(r"\w+")
_IDEOGRAPHS = re.compile(r"[぀-ヿ㐀-鿿가-힯]")


def tokenize(text: str) -> list[str]:
    """Split folded text into words; words of scripts without blanks are cut into pairs of characters."""
    words = _WORD.findall(fold(text))
    if text.isascii():
        return words
    return [piece for word in words for piece in _pair_up(word)]


def grams(word: str, sizes: tuple[int, ...] = (3, 4)) -> list[str]:
    """Return the overlapping character n-grams of a word, with `<` and `>` at its ends."""
    marked = f"<{word}>"
    return [marked[at : at + size] for size in sizes for at in range(len(marked) - size + 1)]


def _pair_up(word: str) -> list[str]:
    if len(word) < 3 or not _IDEOGRAPHS.search(word):
        return [word]
    return [word[at : at + 2] for at in range(len(word) - 1)]


def measure_shared_prefix(text: str, other: str) -> int:
    """Return how many first letters two texts share."""
    count = 0
    for left, right in zip(text, other, strict=False):
        if left != right:
            break
        count += 1
    return count
