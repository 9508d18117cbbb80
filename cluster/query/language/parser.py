"""Filter text to tree. The grammar stands in the package's docstring; the budgets in `limits`.

Groups wait on a list, not on Python's stack. The tree is flat where it can be (`a OR (b OR c)` is one `Any`), a
double negation is gone, and fields carry their stored names, so equal filters have equal trees.
"""

from __future__ import annotations

import re

from cluster.errors import FilterSyntax
from cluster.query.language import patterns
from cluster.query.language.automaton import Effort
from cluster.query.language.boolean_clauses import Built, Group, combined
from cluster.query.language.field_values import canonical, is_moment, is_number, is_text
from cluster.query.language.lexer import Interval, Kind, Lexer, Token
from cluster.query.language.limits import (
    MAX_BYTES,
    MAX_CLAUSES,
    MAX_DEPTH,
    MAX_FIELD,
    MAX_SEGMENTS,
    PATTERN_WEIGHT,
    RANGE_WEIGHT,
    WORD_WEIGHT,
)
from cluster.query.language.scalars import number_of, period_of
from cluster.query.language.syntax_errors import mistake, moved, shown
from cluster.query.language.tree import Everything, Exists, Node, Phrase, Range, Regex, Term, Wildcard
from cluster.query.language.words import fold, words_of

_PREFIXES = (Kind.PLUS, Kind.MINUS, Kind.NOT)
_VALUES = (Kind.WORD, Kind.PHRASE, Kind.REGEX, Kind.RANGE)
_MAGIC = frozenset({"_query_", "_val_"})


FULL_TEXT = "full_text"
"The pseudo-field of all texts: a group of its values without operators means all of them."


def parse(text: str, default_field: str | None = None) -> Node:
    """Parse a filter; values without a field belong to `default_field` when there is one.

    Errors:
        FilterSyntax: facts `kind` (see the package) and `position` (0-based character)

    Cost:
        linear in the text; 8 microseconds for one clause, 50 for four in a group
    """
    _check_length(text)
    return _Parser(text, default_field).parse()


def _check_length(text: str) -> None:
    if len(text) > MAX_BYTES:
        raise mistake("too_long", MAX_BYTES, f"a filter has at most {MAX_BYTES} bytes")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise mistake("character", error.start, "half a surrogate pair is no character") from None
    if size > MAX_BYTES:
        raise mistake("too_long", len(text), f"a filter has at most {MAX_BYTES} bytes")


class _Parser:
    def __init__(self, text: str, default_field: str | None) -> None:
        self._lexer = Lexer(text)
        self._token = self._lexer.next()
        self._levels = [Group(0, default_field)]
        self._weight = 0
        self._effort = Effort()

    def parse(self) -> Node:
        if self._token.kind is Kind.END:
            raise mistake("empty", 0, "the filter is empty")
        while True:
            token = self._token
            level = self._levels[-1]
            if token.kind is Kind.END:
                if len(self._levels) > 1:
                    raise mistake("group", level.position, "this ( is never closed")
                return self._closed(level, token).node
            self._advance()
            if token.kind in (Kind.AND, Kind.OR):
                self._join(level, token)
            elif token.kind in _PREFIXES:
                if level.sign is not None:
                    raise mistake("operator", token.position, "one of + - NOT before a clause is enough")
                level.sign = token.kind
            elif token.kind is Kind.OPEN:
                self._enter(token.position, level.field, level.every)
            elif token.kind is Kind.CLOSE:
                self._leave(level, token)
            else:
                self._clause(level, token)

    def _advance(self) -> None:
        self._token = self._lexer.next()

    def _join(self, level: Group, token: Token) -> None:
        if not level.items or level.join is not None or level.sign is not None:
            raise mistake("operator", token.position, f"{token.raw} needs a clause before it")
        level.join = token.kind
        if token.kind is Kind.OR:
            level.items[-1].before_or = True

    def _enter(self, position: int, field: str | None, every: bool = False) -> None:
        if len(self._levels) > MAX_DEPTH:
            raise mistake("too_deep", position, f"groups stand at most {MAX_DEPTH} deep")
        self._levels.append(Group(position, field, every))

    def _leave(self, level: Group, token: Token) -> None:
        if len(self._levels) == 1:
            raise mistake("group", token.position, "this ) closes nothing")
        if not level.items and level.sign is None:
            raise mistake("group", level.position, "this group is empty")
        built = self._closed(level, token)
        self._levels.pop()
        self._levels[-1].add(built)

    def _closed(self, level: Group, token: Token) -> Built:
        if level.join is not None or level.sign is not None:
            raise mistake("operator", token.position, "a clause is missing after the last operator")
        built = combined(level.items, level.every)
        if built.height > MAX_DEPTH:
            raise mistake("too_deep", level.position, f"clauses stand at most {MAX_DEPTH} deep")
        return built

    def _clause(self, level: Group, token: Token) -> None:
        if token.kind is Kind.COLON:
            raise mistake(
                "field",
                token.position,
                "a field name is missing before this colon; in a value write \\: or quote it",
            )
        if self._token.kind is not Kind.COLON:
            self._bare(level, token)
            return
        if token.kind is not Kind.WORD:
            raise mistake("field", token.position, f"{shown(token.raw)} is no field name")
        self._advance()
        value = self._token
        if token.wildcard == "*" and value.wildcard == "*":
            self._advance()
            level.add(self._everything(token))
            return
        field = self._field(token)
        if value.kind is Kind.OPEN:
            self._advance()
            self._enter(value.position, field, field == FULL_TEXT)
        elif value.kind in _VALUES:
            self._advance()
            level.add(self._value(field, value))
        else:
            raise mistake("value", value.position, _no_value(field, value))

    def _bare(self, level: Group, token: Token) -> None:
        if level.field is not None:
            level.add(self._value(level.field, token))
        elif token.wildcard == "*":
            level.add(self._everything(token))
        elif token.raw in ("and", "or", "not"):
            raise mistake(
                "operator", token.position, f"operators are written in capitals: {token.raw.upper()}"
            )
        else:
            reason = comparison_hint(token.raw, self._token.raw, self._lexer)
            reason = reason or f"{shown(token.raw)} needs a field before it: field:value"
            raise mistake("field", token.position, reason)

    def _field(self, token: Token) -> str:
        name = token.text
        if name in _MAGIC:
            raise mistake("unsupported", token.position, f"{name} is not supported")
        if token.wildcard is not None:
            raise mistake("field", token.position, "a field name holds no * or ?; only *:* does")
        if len(name) > MAX_FIELD or name.count(".") >= MAX_SEGMENTS:
            raise mistake("field", token.position, "this field name is too long")
        if not all(name.split(".")):
            raise mistake("field", token.position, f"{shown(name)} is no field name")
        return canonical(name)

    def _everything(self, token: Token) -> Built:
        self._spend(1, token.position)
        return Built(Everything(), 1)

    def _spend(self, weight: int, position: int) -> None:
        self._weight += weight
        if self._weight > MAX_CLAUSES:
            reason = (
                f"a filter has at most {MAX_CLAUSES} clauses; ranges, dates and words of text fields count "
                f"{RANGE_WEIGHT}, patterns {PATTERN_WEIGHT}"
            )
            raise mistake("too_many_clauses", position, reason)

    def _value(self, field: str, token: Token) -> Built:
        if token.interval is not None:
            return Built(self._range(field, token, token.interval), 1)
        if token.kind is Kind.REGEX:
            self._try_pattern(field, token)
            return Built(Regex(field, token.text), 1)
        if token.wildcard is None:
            return Built(self._exact(field, token), 1)
        if not token.wildcard.strip("*"):
            self._spend(1, token.position)
            return Built(Exists(field), 1)
        self._try_pattern(field, token)
        return Built(Wildcard(field, token.wildcard), 1)

    def _exact(self, field: str, token: Token) -> Node:
        if token.kind is Kind.WORD and token.raw[0] in "<>":
            hint = "comparisons are written as ranges: [4 TO *]; quote the value if it is meant as it stands"
            raise mistake("unsupported", token.position, hint)
        self._check_scalar(field, token.text, token.position)
        if is_text(field):
            self._spend(max(1, WORD_WEIGHT * len(words_of(token.text))), token.position)
        else:
            self._spend(RANGE_WEIGHT if is_moment(field) else 1, token.position)
        return Phrase(field, token.text) if token.kind is Kind.PHRASE else Term(field, token.text)

    def _range(self, field: str, token: Token, interval: Interval) -> Node:
        if interval.low is None and interval.high is None:
            self._spend(1, token.position)
            return Exists(field)
        self._spend(RANGE_WEIGHT, token.position)
        for end in (interval.low, interval.high):
            if end is not None:
                self._check_scalar(field, end, token.position)
        return Range(field, *interval)

    def _check_scalar(self, field: str, text: str, position: int) -> None:
        if is_number(field) and number_of(text) is None:
            raise mistake("number", position, f"{field} holds numbers, and {shown(text)} is none")
        if is_moment(field) and period_of(text) is None:
            raise mistake("date", position, f"{field} holds dates, and {shown(text)} is none")

    def _try_pattern(self, field: str, token: Token) -> None:
        """Build the automaton once, to report at the door what could not be run behind it."""
        if is_number(field):
            raise mistake("number", token.position, f"{field} holds numbers, which have no pattern")
        self._spend(PATTERN_WEIGHT, token.position)
        try:
            if token.wildcard is None:
                patterns.regex(token.text, self._effort)
            else:
                patterns.wildcard(token.wildcard, self._effort, fold=fold if is_text(field) else None)
        except FilterSyntax as error:
            raise moved(error, token.position + (token.wildcard is None)) from None


_COMPARISON = re.compile(r"([A-Za-z_][\w.]*)(<=|>=|==|!=|<|>|=)(.*)")
_SHORT = re.compile(r"[\w.:+-]{1,40}")
_RANGES = {"<": "[* TO {0}}}", "<=": "[* TO {0}]", ">": "{{{0} TO *]", ">=": "[{0} TO *]"}


def comparison_hint(first: str, second: str, lexer: Lexer) -> str:
    """Say how a comparison is written that was meant, as in `price < 5`; empty when none was."""
    text = first if _COMPARISON.match(first) else first + second
    found = _COMPARISON.fullmatch(text)
    if found is None or (text is not first and second[:1] not in "<>=!"):
        return ""
    name, sign, value = found.groups()
    if not value:
        value = second if text is first else lexer.next().raw
    if not _SHORT.fullmatch(value):
        value = "value"
    plain = f"{name}:{value}"
    if sign in _RANGES:
        plain = f"{name}:{_RANGES[sign].format(value)}"
        if sign == "<":
            plain += f", or {name}:[* TO {value}] with {value} itself"
        if sign == ">":
            plain += f", or {name}:[{value} TO *] with {value} itself"
    elif sign == "!=":
        plain = f"-{plain}"
    return f"comparisons are written as field:value or as ranges; use {plain}"


def _no_value(field: str, value: Token) -> str:
    if value.kind in _PREFIXES:
        return f"a sign belongs before the field: {value.raw}{shown(field)[1:-1]}:..."
    if value.kind in (Kind.AND, Kind.OR):
        return f"{shown(field)} has no value; write {value.raw} in quotes if it is one"
    return f"{shown(field)} has no value"
