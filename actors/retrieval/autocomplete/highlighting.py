"""Highlighting: typed and other characters of a completion, escaped for HTML."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from actors.language.folding import fold_with_positions, measure_shared_prefix


@dataclass(frozen=True, slots=True)
class HighlightedText:
    """A completion with markup."""

    text: str
    text_with_markups: str
    "`<mark>` around the characters that the user did not type yet."
    text_with_inverted_markups: str
    "`<mark>` around the typed characters."


def highlight(text: str, spans: list[tuple[int, int]]) -> HighlightedText:
    """Mark a text, given which spans of its folded form were typed.

    `spans` are (from, to) in folded characters, ascending, not touching each other.
    """
    typed = _map_spans(text, spans)
    normal: list[str] = []
    inverted: list[str] = []
    for begin, end, was_typed in _split(typed, len(text)):
        # Escaped piece by piece: escaping the whole text would move the positions.
        piece = escape(text[begin:end], quote=False)
        normal.append(piece if was_typed else f"<mark>{piece}</mark>")
        inverted.append(f"<mark>{piece}</mark>" if was_typed else piece)
    return HighlightedText(text, "".join(normal), "".join(inverted))


def match_typed_words(folded_text: str, typed: str) -> list[tuple[int, int]]:
    """Find the spans of the words of a folded text that were typed in another order, or in part.

    A typed word marks the word of the text with which it shares its longest prefix.
    """
    places: list[tuple[int, str]] = []
    at = 0
    for word in folded_text.split(" "):
        places.append((at, word))
        at += len(word) + 1
    ends: dict[int, int] = {}
    for word in typed.split():
        lengths = [
            (measure_shared_prefix(word, other), -begin, begin)
            for begin, other in places
            if begin not in ends
        ]
        length, _, begin = max(lengths, default=(0, 0, 0))
        if length:
            ends[begin] = begin + length
    return sorted(ends.items())


def _map_spans(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Map spans of folded characters to spans of the text."""
    _, places = fold_with_positions(text)
    if not places:
        return []
    mapped = []
    for begin, end in spans:
        begin = max(begin, 0)
        end = min(end, len(places))
        if begin < end:
            # up to where the next folded character begins, but without the blanks and marks before it
            last = places[end - 1] + 1
            while last < len(text) and end < len(places) and places[end] > last and not text[last].isspace():
                last += 1
            mapped.append((places[begin], last))
    return mapped


def _split(typed: list[tuple[int, int]], length: int) -> list[tuple[int, int, bool]]:
    """Split a text into spans that were typed and spans that were not."""
    pieces: list[tuple[int, int, bool]] = []
    at = 0
    for begin, end in typed:
        if begin > at:
            pieces.append((at, begin, False))
        pieces.append((begin, end, True))
        at = end
    if at < length:
        pieces.append((at, length, False))
    return pieces
