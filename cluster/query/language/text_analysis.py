"""Words of a text field, as filters match them: case-folded, without markup.

Letters and digits form words, all other characters separate them. A character of a script written without blanks
(Chinese, Japanese kana, Thai, Lao, Khmer, Burmese) is a word. Every pattern here is a single class, so the work is
linear in the text.
"""

from __future__ import annotations

import html
import re
import unicodedata

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_WORD = re.compile(f"[{_UNSPACED}]|[^\\W_{_UNSPACED}]+")
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_TAG_NAME = re.compile(r"[/!?]?([A-Za-z][A-Za-z0-9]{0,15})|[!?/]()")
_HIDDEN = frozenset({"script", "style"})
_INLINE = frozenset({"a", "b", "em", "font", "i", "mark", "small", "span", "strong", "sub", "sup", "u"})


def split_words(text: str) -> list[str]:
    """Return the folded words of a text, in order, with repetitions."""
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    return _WORD.findall(fold(text))


def fold(text: str) -> str:
    """Return a text with equivalent spellings made equal."""
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def without_markup(text: str) -> str:
    """Return HTML as text, without tags, comments, scripts and styles, and with entities replaced."""
    parts: list[str] = []
    at = 0
    while True:
        opening = text.find("<", at)
        if opening < 0:
            parts.append(text[at:])
            break
        parts.append(text[at:opening])
        at, gap = _after_tag(text, opening)
        if at < 0:
            break
        parts.append(gap)
    return html.unescape("".join(parts))


def _after_tag(text: str, opening: int) -> tuple[int, str]:
    """Return where the text continues after a markup item at `<`, and its replacement; -1 for nowhere."""
    start = opening + 1
    if text.startswith("!--", start):
        end = text.find("-->", start + 3)
        return (end + 3 if end >= 0 else -1), " "
    name = _TAG_NAME.match(text, start)
    # A `<` without a name is an ordinary sign, as in `a < b`.
    if name is None:
        return start, "<"
    closing = text.find(">", start)
    if closing < 0:
        return -1, ""
    tag = name.group(1).lower()
    if tag in _HIDDEN and not name.group().startswith("/"):
        return text.find("</", closing), " "
    return closing + 1, "" if tag in _INLINE else " "
