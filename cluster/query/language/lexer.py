"""Filter text to tokens, each with the position of its first character.

The lexer makes one token at a time, so a text over the clause budget is refused before the rest of it is read. The
work is linear in the text.

    word      anything up to a blank or one of  " ( ) [ ] { } : && ||      `\\x` is x itself
    phrase    "..."                             `\\"` and `\\\\` inside
    regex     /.../                             only where a word may begin; `\\/` inside
    range     [low TO high]  {low TO high}      mixed brackets, `to`, quoted bounds, * for an open end

A colon belongs to a word only inside a time of day (`2024-01-01T10:30:00Z`). `-` begins a value only before a
digit (`margin:-5`).
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

from cluster.query.language.syntax_errors import quote_text, syntax_error


class TokenKind(Enum):
    """The kind of a token."""

    WORD = "word"
    PHRASE = "phrase"
    REGEX = "regex"
    RANGE = "range"
    OPEN = "("
    CLOSE = ")"
    COLON = ":"
    AND = "AND"
    OR = "OR"
    NOT = "NOT"
    PLUS = "+"
    MINUS = "-"
    END = "end"


class Interval(NamedTuple):
    """The content of a range as written. None is an open end."""

    low: str | None
    high: str | None
    include_low: bool
    include_high: bool


class FilterToken(NamedTuple):
    """One token. `text` is unescaped; `raw` is the original text."""

    kind: TokenKind
    position: int
    raw: str = ""
    text: str = ""
    wildcard: str | None = None
    "The word as a wildcard pattern, when it contains an unescaped `*` or `?`."
    interval: Interval | None = None


_BLANK = re.compile(r"\s*")
_PLAIN = re.compile(r"[^\s\"()\[\]{}:^~\\*?&|]+")
_IN_PHRASE = re.compile(r"[^\"\\]+")
_IN_REGEX = re.compile(r"[^/\\]+")
_IN_BOUND = re.compile(r"[^\s\]}\\]+")
# Before a colon of 10:30 or 10:30:00, so that a time needs no quotes.
_CLOCK = re.compile(r"\d{4}-\d\d-\d\dT\d\d(?::\d\d)?")
_GOES_ON = ":\\*?&|^~"
_SINGLE = {
    "(": TokenKind.OPEN,
    ")": TokenKind.CLOSE,
    ":": TokenKind.COLON,
    "+": TokenKind.PLUS,
    "-": TokenKind.MINUS,
    "!": TokenKind.NOT,
}
_DOUBLE = {"&&": TokenKind.AND, "||": TokenKind.OR}
_NAMED = {"AND": TokenKind.AND, "OR": TokenKind.OR, "NOT": TokenKind.NOT}


class Lexer:
    """Reads one filter text from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._after_colon = False

    def next(self) -> FilterToken:
        """Return the next token; at the end of the text always `END`.

        Errors:
            FilterSyntax: an unclosed bracket or quote, or an unsupported construct
        """
        text = self._text
        blank = _BLANK.match(text, self._at)
        at = self._at = blank.end() if blank else self._at
        after_colon = self._after_colon
        self._after_colon = False
        if at >= len(text):
            return FilterToken(TokenKind.END, len(text))
        char = text[at]
        # `margin:-5` is a negative number, `a:b -5` an excluded value.
        if char in _SINGLE and not (after_colon and char == "-" and text[at + 1 : at + 2].isdigit()):
            self._at += 1
            self._after_colon = char == ":"
            return FilterToken(_SINGLE[char], at, char)
        if text[at : at + 2] in _DOUBLE:
            self._at += 2
            return FilterToken(_DOUBLE[text[at : at + 2]], at, text[at : at + 2])
        if char == '"':
            value = self._phrase()
            return FilterToken(TokenKind.PHRASE, at, text[at : self._at], value)
        if char == "/":
            return self._regex()
        if char in "[{":
            return self._range()
        if char in "]}":
            raise syntax_error("range", at, f"{quote_text(char)} closes a range that was never opened")
        return self._word()

    def _word(self) -> FilterToken:
        text = self._text
        start = self._at
        run = _PLAIN.match(text, start)
        # One match of a pattern for nearly every word; the loop below handles escapes and wildcards.
        if run and self._ends_word(run.end(), text[start]):
            self._at = run.end()
            raw = run.group()
            return FilterToken(_NAMED.get(raw, TokenKind.WORD), start, raw, raw)
        literal: list[str] = []
        pattern: list[str] = []
        wild = False
        while self._at < len(text):
            at = self._at
            char = text[self._at]
            run = _PLAIN.match(text, at)
            if run:
                self._at = run.end()
                literal.append(run.group())
                pattern.append(run.group())
                continue
            if char == "\\":
                char = self._escaped()
                pattern.append("\\" + char if char in "*?\\" else char)
            elif char in "*?":
                wild = True
                pattern.append(char)
                self._at += 1
            elif (char in "&|" and text[at + 1 : at + 2] != char) or (char == ":" and self._in_clock(start)):
                pattern.append(char)
                self._at += 1
            elif char in "^~":
                raise syntax_error(
                    "unsupported", at, f"weights and fuzzy words are not supported; write \\{char}"
                )
            else:
                break
            literal.append(char)
        raw = text[start : self._at]
        kind = _NAMED.get(raw, TokenKind.WORD)
        return FilterToken(kind, start, raw, "".join(literal), "".join(pattern) if wild else None)

    def _ends_word(self, at: int, first: str) -> bool:
        """Return whether a run of ordinary characters is a whole word, as it mostly is."""
        after = self._text[at : at + 1]
        return after not in _GOES_ON or not after or (after == ":" and not first.isdigit())

    def _in_clock(self, start: int) -> bool:
        at = self._at
        # 16 characters are `2024-01-01T10:30`: a longer word is no time, and its check would cost for each
        # colon.
        near = at - start <= 16 and self._text[at + 1 : at + 2].isdigit()
        return near and _CLOCK.fullmatch(self._text, start, at) is not None

    def _escaped(self) -> str:
        at = self._at
        if at + 1 >= len(self._text):
            raise syntax_error("escape", at, "a backslash stands at the end")
        self._at += 2
        return self._text[at + 1]

    def _phrase(self) -> str:
        start = self._at
        self._at += 1
        phrase = self._read_escaped(_IN_PHRASE)
        if self._at == len(self._text):
            raise syntax_error("quote", start, "this quote is never closed")
        self._at += 1
        return phrase

    def _read_escaped(self, plain: re.Pattern[str]) -> str:
        """Read runs of plain characters and escaped ones, until another character or the end."""
        text = self._text
        parts: list[str] = []
        while self._at < len(text):
            run = plain.match(text, self._at)
            if run:
                parts.append(run.group())
                self._at = run.end()
            elif text[self._at] == "\\":
                parts.append(self._escaped())
            else:
                break
        return "".join(parts)

    def _regex(self) -> FilterToken:
        text = self._text
        start = self._at
        self._at += 1
        while self._at < len(text):
            run = _IN_REGEX.match(text, self._at)
            if run:
                self._at = run.end()
            elif text[self._at] == "\\":
                self._escaped()
            else:
                self._at += 1
                return FilterToken(
                    TokenKind.REGEX, start, text[start : self._at], text[start + 1 : self._at - 1]
                )
        raise syntax_error("regex", start, "this regular expression is never closed")

    def _range(self) -> FilterToken:
        text = self._text
        start = self._at
        # Solr's local parameters would select another parser; here they would read as a range.
        if text.startswith("{!", start):
            raise syntax_error("unsupported", start, "local parameters such as {!join} are not supported")
        self._at += 1
        low = self._bound(start)
        self._blank()
        if self._at >= len(text):
            raise syntax_error("range", start, "this range is never closed")
        word = text[self._at : self._at + 2]
        if word.upper() != "TO":
            raise syntax_error("range", self._at, "a range is written [low TO high]; TO is missing")
        self._at += 2
        if self._at < len(text) and not text[self._at].isspace() and text[self._at] != '"':
            raise syntax_error("range", self._at, "a blank belongs after TO")
        high = self._bound(start)
        self._blank()
        if self._at >= len(text):
            raise syntax_error("range", start, "this range is never closed")
        close = text[self._at]
        if close not in "]}":
            raise syntax_error("range", self._at, "a range has two ends and closes with ] or }")
        self._at += 1
        interval = Interval(low, high, text[start] == "[", close == "]")
        return FilterToken(TokenKind.RANGE, start, text[start : self._at], interval=interval)

    def _blank(self) -> None:
        blank = _BLANK.match(self._text, self._at)
        self._at = blank.end() if blank else self._at

    def _bound(self, start: int) -> str | None:
        self._blank()
        text = self._text
        begin = self._at
        if begin >= len(text):
            raise syntax_error("range", start, "this range is never closed")
        if text[begin] == '"':
            return self._phrase()
        bound = self._read_escaped(_IN_BOUND)
        if self._at == begin:
            raise syntax_error("range", begin, "an end of this range is missing; * leaves it open")
        return None if text[begin : self._at] == "*" else bound
