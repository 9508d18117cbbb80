"""Filter text to tree. The grammar is in the package's docstring; the budgets are in `limits`.

Open groups are in a list, not on Python's stack. The tree is flat where possible (`a OR (b OR c)` is one `Any`),
has no double negations, and contains stored field names, so equal filters have equal trees.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from cluster.errors import FilterSyntax
from cluster.query.language import patterns
from cluster.query.language.automaton import StepBudget
from cluster.query.language.field_values import canonical_field, is_moment, is_number, is_text
from cluster.query.language.lexer import FilterToken, Interval, Lexer, TokenKind
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
from cluster.query.language.syntax_errors import quote_text, shift_error, syntax_error
from cluster.query.language.text_analysis import fold, split_words
from cluster.query.language.tree import (
    All,
    Any,
    Everything,
    Exists,
    Node,
    Not,
    Phrase,
    Range,
    Regex,
    Term,
    Wildcard,
)

_PREFIXES = (TokenKind.PLUS, TokenKind.MINUS, TokenKind.NOT)
_VALUES = (TokenKind.WORD, TokenKind.PHRASE, TokenKind.REGEX, TokenKind.RANGE)
_MAGIC = frozenset({"_query_", "_val_"})


FULL_TEXT = "full_text"
"The pseudo-field of all texts: its group of values without operators requires all of them."


class Subtree(NamedTuple):
    """A part of the tree and its height."""

    node: Node
    height: int


class ClauseMember:
    """One member of a sequence: clauses joined by AND, the sign of a single one, and the OR beside it."""

    __slots__ = ("after_or", "before_or", "parts", "sign")

    def __init__(self, after_or: bool) -> None:
        self.parts: list[Subtree] = []
        self.sign: TokenKind | None = None
        self.after_or = after_or
        self.before_or = False

    def add(self, sign: TokenKind | None, part: Subtree) -> None:
        """Append a clause. A single clause keeps its sign; in a conjunction the sign negates or has no effect."""
        # Only now is it clear that the first clause stands in a conjunction, where its sign negates.
        if self.parts and self.sign is not None:
            self.parts[0] = _apply_sign(self.sign, self.parts[0])
            self.sign = None
        if self.parts:
            part = _apply_sign(sign, part)
        else:
            self.sign = sign
        self.parts.append(part)


class ClauseGroup:
    """An open group: its field, its members so far and the operator before the next clause."""

    __slots__ = ("every", "field", "items", "join", "position", "sign")

    def __init__(self, position: int, field: str | None, every: bool = False) -> None:
        self.position = position
        self.field = field
        self.every = every
        self.items: list[ClauseMember] = []
        self.join: TokenKind | None = None
        self.sign: TokenKind | None = None

    def add(self, part: Subtree) -> None:
        """Append the next clause."""
        if self.join is TokenKind.AND:
            item = self.items[-1]
        else:
            item = ClauseMember(self.join is TokenKind.OR)
            self.items.append(item)
        item.add(self.sign, part)
        self.join = self.sign = None


def parse(text: str, default_field: str | None = None) -> Node:
    """Parse a filter; `default_field`, if given, is the field of values without one.

    Errors:
        FilterSyntax: facts `kind` (see the package) and `position` (0-based character)

    Cost:
        linear in the text; 8 microseconds for one clause, 50 for four in a group
    """
    _check_length(text)
    return _Parser(text, default_field).parse()


def _check_length(text: str) -> None:
    # Before encoding: a character has at least one byte, so a text of a gigabyte is refused at once.
    if len(text) > MAX_BYTES:
        raise syntax_error("too_long", MAX_BYTES, f"a filter has at most {MAX_BYTES} bytes")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise syntax_error("character", error.start, "half a surrogate pair is no character") from None
    if size > MAX_BYTES:
        raise syntax_error("too_long", len(text), f"a filter has at most {MAX_BYTES} bytes")


class _Parser:
    def __init__(self, text: str, default_field: str | None) -> None:
        self._lexer = Lexer(text)
        self._token = self._lexer.next()
        self._levels = [ClauseGroup(0, default_field)]
        self._weight = 0
        self._effort = StepBudget()

    def parse(self) -> Node:
        if self._token.kind is TokenKind.END:
            raise syntax_error("empty", 0, "the filter is empty")
        # Groups are kept in a list: recursion could exhaust Python's stack with the parentheses of a request.
        while True:
            token = self._token
            level = self._levels[-1]
            if token.kind is TokenKind.END:
                if len(self._levels) > 1:
                    raise syntax_error("group", level.position, "this ( is never closed")
                return self._closed(level, token).node
            self._advance()
            if token.kind in (TokenKind.AND, TokenKind.OR):
                self._join(level, token)
            elif token.kind in _PREFIXES:
                if level.sign is not None:
                    raise syntax_error("operator", token.position, "one of + - NOT before a clause is enough")
                level.sign = token.kind
            elif token.kind is TokenKind.OPEN:
                self._enter(token.position, level.field, level.every)
            elif token.kind is TokenKind.CLOSE:
                self._leave(level, token)
            else:
                self._clause(level, token)

    def _advance(self) -> None:
        self._token = self._lexer.next()

    def _join(self, level: ClauseGroup, token: FilterToken) -> None:
        if not level.items or level.join is not None or level.sign is not None:
            raise syntax_error("operator", token.position, f"{token.raw} needs a clause before it")
        level.join = token.kind
        if token.kind is TokenKind.OR:
            level.items[-1].before_or = True

    def _enter(self, position: int, field: str | None, every: bool = False) -> None:
        if len(self._levels) > MAX_DEPTH:
            raise syntax_error("too_deep", position, f"groups stand at most {MAX_DEPTH} deep")
        self._levels.append(ClauseGroup(position, field, every))

    def _leave(self, level: ClauseGroup, token: FilterToken) -> None:
        if len(self._levels) == 1:
            raise syntax_error("group", token.position, "this ) closes nothing")
        if not level.items and level.sign is None:
            raise syntax_error("group", level.position, "this group is empty")
        built = self._closed(level, token)
        self._levels.pop()
        self._levels[-1].add(built)

    def _closed(self, level: ClauseGroup, token: FilterToken) -> Subtree:
        if level.join is not None or level.sign is not None:
            raise syntax_error("operator", token.position, "a clause is missing after the last operator")
        built = combine_members(level.items, level.every)
        if built.height > MAX_DEPTH:
            raise syntax_error("too_deep", level.position, f"clauses stand at most {MAX_DEPTH} deep")
        return built

    def _clause(self, level: ClauseGroup, token: FilterToken) -> None:
        if token.kind is TokenKind.COLON:
            raise syntax_error(
                "field",
                token.position,
                "a field name is missing before this colon; in a value write \\: or quote it",
            )
        if self._token.kind is not TokenKind.COLON:
            self._bare(level, token)
            return
        if token.kind is not TokenKind.WORD:
            raise syntax_error("field", token.position, f"{quote_text(token.raw)} is no field name")
        self._advance()
        value = self._token
        if token.wildcard == "*" and value.wildcard == "*":
            self._advance()
            level.add(self._everything(token))
            return
        field = self._field(token)
        if value.kind is TokenKind.OPEN:
            self._advance()
            self._enter(value.position, field, field == FULL_TEXT)
        elif value.kind in _VALUES:
            self._advance()
            level.add(self._value(field, value))
        else:
            raise syntax_error("value", value.position, _no_value(field, value))

    def _bare(self, level: ClauseGroup, token: FilterToken) -> None:
        if level.field is not None:
            level.add(self._value(level.field, token))
        elif token.wildcard == "*":
            level.add(self._everything(token))
        elif token.raw in ("and", "or", "not"):
            raise syntax_error(
                "operator", token.position, f"operators are written in capitals: {token.raw.upper()}"
            )
        else:
            reason = comparison_hint(token.raw, self._token.raw, self._lexer)
            reason = reason or f"{quote_text(token.raw)} needs a field before it: field:value"
            raise syntax_error("field", token.position, reason)

    def _field(self, token: FilterToken) -> str:
        name = token.text
        if name in _MAGIC:
            raise syntax_error("unsupported", token.position, f"{name} is not supported")
        if token.wildcard is not None:
            raise syntax_error("field", token.position, "a field name holds no * or ?; only *:* does")
        if len(name) > MAX_FIELD or name.count(".") >= MAX_SEGMENTS:
            raise syntax_error("field", token.position, "this field name is too long")
        if not all(name.split(".")):
            raise syntax_error("field", token.position, f"{quote_text(name)} is no field name")
        return canonical_field(name)

    def _everything(self, token: FilterToken) -> Subtree:
        self._spend(1, token.position)
        return Subtree(Everything(), 1)

    def _spend(self, weight: int, position: int) -> None:
        self._weight += weight
        if self._weight > MAX_CLAUSES:
            reason = (
                f"a filter has at most {MAX_CLAUSES} clauses; ranges, dates and words of text fields count "
                f"{RANGE_WEIGHT}, patterns {PATTERN_WEIGHT}"
            )
            raise syntax_error("too_many_clauses", position, reason)

    def _value(self, field: str, token: FilterToken) -> Subtree:
        if token.interval is not None:
            return Subtree(self._range(field, token, token.interval), 1)
        if token.kind is TokenKind.REGEX:
            self._try_pattern(field, token)
            return Subtree(Regex(field, token.text), 1)
        if token.wildcard is None:
            return Subtree(self._exact(field, token), 1)
        if not token.wildcard.strip("*"):
            self._spend(1, token.position)
            return Subtree(Exists(field), 1)
        self._try_pattern(field, token)
        return Subtree(Wildcard(field, token.wildcard), 1)

    def _exact(self, field: str, token: FilterToken) -> Node:
        if token.kind is TokenKind.WORD and token.raw[0] in "<>":
            hint = "comparisons are written as ranges: [4 TO *]; quote the value if it is meant as it stands"
            raise syntax_error("unsupported", token.position, hint)
        self._check_scalar(field, token.text, token.position)
        if is_text(field):
            self._spend(max(1, WORD_WEIGHT * len(split_words(token.text))), token.position)
        else:
            self._spend(RANGE_WEIGHT if is_moment(field) else 1, token.position)
        return Phrase(field, token.text) if token.kind is TokenKind.PHRASE else Term(field, token.text)

    def _range(self, field: str, token: FilterToken, interval: Interval) -> Node:
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
            raise syntax_error("number", position, f"{field} holds numbers, and {quote_text(text)} is none")
        if is_moment(field) and period_of(text) is None:
            raise syntax_error("date", position, f"{field} holds dates, and {quote_text(text)} is none")

    def _try_pattern(self, field: str, token: FilterToken) -> None:
        """Build the automaton once, so that the parser reports a pattern that can't run."""
        if is_number(field):
            raise syntax_error("number", token.position, f"{field} holds numbers, which have no pattern")
        self._spend(PATTERN_WEIGHT, token.position)
        try:
            if token.wildcard is None:
                patterns.compile_regex(token.text, self._effort)
            else:
                patterns.compile_wildcard(token.wildcard, self._effort, fold=fold if is_text(field) else None)
        except FilterSyntax as error:
            # A regular expression begins behind its slash.
            raise shift_error(error, token.position + (token.wildcard is None)) from None


_COMPARISON = re.compile(r"([A-Za-z_][\w.]*)(<=|>=|==|!=|<|>|=)(.*)")
_SHORT = re.compile(r"[\w.:+-]{1,40}")
_RANGES = {"<": "[* TO {0}}}", "<=": "[* TO {0}]", ">": "{{{0} TO *]", ">=": "[{0} TO *]"}


def comparison_hint(first: str, second: str, lexer: Lexer) -> str:
    """Return the correct form of a mistaken comparison such as `price < 5`; empty for other mistakes."""
    text = first if _COMPARISON.match(first) else first + second
    match = _COMPARISON.fullmatch(text)
    if match is None or (text is not first and second[:1] not in "<>=!"):
        return ""
    name, sign, value = match.groups()
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


def _no_value(field: str, value: FilterToken) -> str:
    if value.kind in _PREFIXES:
        return f"a sign belongs before the field: {value.raw}{quote_text(field)[1:-1]}:..."
    if value.kind in (TokenKind.AND, TokenKind.OR):
        return f"{quote_text(field)} has no value; write {value.raw} in quotes if it is one"
    return f"{quote_text(field)} has no value"


def _apply_sign(sign: TokenKind | None, part: Subtree) -> Subtree:
    if sign is None or sign is TokenKind.PLUS:
        return part
    # Two negations cancel out, so equal filters get equal trees and share one cached mask.
    if isinstance(part.node, Not):
        return Subtree(part.node.child, part.height - 1)
    return Subtree(Not(part.node), part.height + 1)


def combine_members(items: list[ClauseMember], every: bool = False) -> Subtree:
    """Join the members of a sequence; with `every`, a sequence without operators requires all of them.

    With + or - on any member, or a NOT without an OR beside it, the sequence has the meaning of Solr: members with +
    are required, members with - or NOT are excluded, and the others matter only if none has +. Otherwise it is a
    plain OR, and NOT is a plain negation.
    """
    if len(items) == 1:
        return _apply_sign(items[0].sign, _join(All, items[0].parts))
    solr = any(
        item.sign in (TokenKind.PLUS, TokenKind.MINUS)
        or (item.sign is TokenKind.NOT and not item.after_or and not item.before_or)
        for item in items
    )
    parts = [(item.sign, _join(All, item.parts)) for item in items]
    if every and not solr and not any(item.before_or for item in items):
        return _join(All, [part for _, part in parts])
    if not solr:
        return _join(Any, [_apply_sign(sign, part) for sign, part in parts])
    required = [part for sign, part in parts if sign is TokenKind.PLUS]
    others = [part for sign, part in parts if sign is None]
    barred = [_apply_sign(sign, part) for sign, part in parts if sign in (TokenKind.MINUS, TokenKind.NOT)]
    if not required and others:
        required = [_join(All if every else Any, others)]
    return _join(All, required + barred)


def _join(kind: type[All] | type[Any], parts: list[Subtree]) -> Subtree:
    if len(parts) == 1:
        return parts[0]
    children: list[Node] = []
    height = 0
    for part in parts:
        # Flat: `a OR (b OR c)` becomes one node of three children.
        if isinstance(part.node, kind):
            children.extend(part.node.children)
            height = max(height, part.height - 1)
        else:
            children.append(part.node)
            height = max(height, part.height)
    return Subtree(kind(tuple(children)), height + 1)
