"""Texts as they are compared: folded, without punctuation, one blank between words; and the way back to what is shown.

    "Harry Potter & the Sorcerer's Stone"   ->   "harry potter the sorcerers stone"

Folding drops accents, case and width, joins what an apostrophe divides, and turns everything else that is neither
letter nor digit into one blank. Ideographs stand without blanks; each of them begins a word of its own.
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


def fold_text(text: str) -> str:
    """Fold a text; blanks at its ends are gone."""
    if text.isascii():
        return _ASCII_JUNK.sub(" ", text.lower().translate(_ASCII_JOINED)).strip()
    return "".join(char for char, _ in _pieces(text)).strip()


def fold_with_positions(text: str) -> tuple[str, list[int]]:
    """Fold a text and say where in it each folded character came from.

    Shapes:
        the list is as long as the folded text
    """
    if text.isascii():
        return _ascii_with_places(text)
    pieces = _pieces(text)
    while pieces and pieces[0][0] == " ":
        pieces.pop(0)
    while pieces and pieces[-1][0] == " ":
        pieces.pop()
    return "".join(char for char, _ in pieces), [place for _, place in pieces]


def fold_typed(text: str) -> str:
    """Fold what somebody is typing; a blank at its end stays: the last word is finished."""
    found = fold_text(text)
    ended = bool(found) and bool(text) and not _is_word(text[-1]) and text[-1] not in _APOSTROPHES
    return found + " " if ended else found


def is_ideograph(code: int) -> bool:
    """Does a character stand for a word or syllable, so that words have no blanks between them?"""
    return 0x2E80 <= code <= 0x9FFF or 0xAC00 <= code <= 0xD7AF or 0xF900 <= code <= 0xFAFF


def _is_word(char: str) -> bool:
    return char.isalnum() or bool(unicodedata.combining(char))


def _pieces(text: str) -> list[tuple[str, int]]:
    """Fold character by character, with the place of each; blanks never follow each other."""
    pieces: list[tuple[str, int]] = []
    for place, char in enumerate(text):
        if char in _APOSTROPHES:
            continue
        for part in _parts(char):
            if unicodedata.combining(part) or part in _APOSTROPHES:
                continue
            if part.isalnum() or _PRIVATE <= ord(part) < _PRIVATE + _PRIVATE_SIZE:
                pieces.append((_in_plane(unicodedata.normalize("NFC", part)), place))
            elif pieces and pieces[-1][0] != " ":
                pieces.append((" ", place))
    return _composed(pieces)


def _ascii_with_places(text: str) -> tuple[str, list[int]]:
    """Fold as `folded` folds plain letters, where there is nothing to take apart."""
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


def _parts(char: str) -> str:
    """Take a character apart and fold its case; some become capitals only when they are taken apart."""
    parts = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", char).casefold())
    return "".join(_SPECIAL.get(part, part) for part in parts)


def _composed(pieces: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Put syllables back together that decomposition took apart (Hangul); everything else is left as it is."""
    if not any("\u1100" <= char <= "\u11ff" for char, _ in pieces):
        return pieces
    put: list[tuple[str, int]] = []
    for char, place in pieces:
        if put and put[-1][1] == place:
            joined = unicodedata.normalize("NFC", put[-1][0] + char)
            if len(joined) == 1:
                put[-1] = (joined, place)
                continue
        put.append((char, place))
    return put


def _in_plane(char: str) -> str:
    """Bring rare characters beyond 16 bits into the private area, so that every character is one number."""
    return char if ord(char) <= 0xFFFF else chr(_PRIVATE + ord(char) % _PRIVATE_SIZE)
