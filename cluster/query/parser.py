"""Filter text to tree. The grammar stands in the package's docstring; the budgets in `limits`.

Groups wait on a list, not on Python's stack. The tree is flat where it can be (`a OR (b OR c)` is one `Any`), a
double negation is gone, and fields carry their stored names, so equal filters have equal trees.
"""

from __future__ import annotations

from typing import NamedTuple

from cluster.errors import FilterSyntax
from cluster.query import patterns
from cluster.query.automaton import Effort
from cluster.query.faults import mistake, moved, shown
from cluster.query.lexer import Interval, Kind, Lexer, Token
from cluster.query.limits import (
    MAX_BYTES,
    MAX_CLAUSES,
    MAX_DEPTH,
    MAX_FIELD,
    MAX_PATTERNS,
    MAX_RANGES,
    MAX_SEGMENTS,
    MAX_WORDS,
)
from cluster.query.scalars import number_of, period_of
from cluster.query.tree import All, Any, Everything, Exists, Node, Not, Phrase, Range, Regex, Term, Wildcard
from cluster.query.values import canonical, is_moment, is_number, is_text
from cluster.query.words import fold, words_of

_PREFIXES = (Kind.PLUS, Kind.MINUS, Kind.NOT)
_VALUES = (Kind.WORD, Kind.PHRASE, Kind.REGEX, Kind.RANGE)
_MAGIC = frozenset({"_query_", "_val_"})


def parse(text: str) -> Node:
    """Parse a filter.

    Errors:
        FilterSyntax: facts `kind` (see the package) and `position` (0-based character)

    Cost:
        linear in the text; 15 to 40 microseconds for three clauses
    """
    _check_length(text)
    return _Parser(text).parse()


def _check_length(text: str) -> None:
    if len(text) > MAX_BYTES:
        raise mistake("too_long", MAX_BYTES, f"a filter has at most {MAX_BYTES} bytes")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise mistake("character", error.start, "half a surrogate pair is no character") from None
    if size > MAX_BYTES:
        raise mistake("too_long", len(text), f"a filter has at most {MAX_BYTES} bytes")


class _Built(NamedTuple):
    """A part of the tree and its height."""

    node: Node
    height: int


class _Item:
    """One member of a sequence: clauses joined by AND, the sign of a single one, and how OR touches it."""

    __slots__ = ("after_or", "before_or", "parts", "sign")

    def __init__(self, after_or: bool) -> None:
        self.parts: list[_Built] = []
        self.sign: Kind | None = None
        self.after_or = after_or
        self.before_or = False

    def add(self, sign: Kind | None, part: _Built) -> None:
        """Append a clause. A sign is kept apart while the clause stands alone, else it negates or does nothing."""
        if self.parts and self.sign is not None:
            self.parts[0], self.sign = _signed(self.sign, self.parts[0]), None
        if self.parts:
            part = _signed(sign, part)
        else:
            self.sign = sign
        self.parts.append(part)


class _Level:
    """An open group: its field, its members so far and what the next clause will be joined by."""

    __slots__ = ("field", "items", "join", "position", "sign")

    def __init__(self, position: int, field: str | None) -> None:
        self.position = position
        self.field = field
        self.items: list[_Item] = []
        self.join: Kind | None = None
        self.sign: Kind | None = None

    def add(self, part: _Built) -> None:
        if self.join is Kind.AND:
            item = self.items[-1]
        else:
            item = _Item(self.join is Kind.OR)
            self.items.append(item)
        item.add(self.sign, part)
        self.join = self.sign = None


class _Parser:
    def __init__(self, text: str) -> None:
        self._lexer = Lexer(text)
        self._token = self._lexer.next()
        self._levels = [_Level(0, None)]
        self._clauses = 0
        self._ranges = 0
        self._patterns = 0
        self._words = 0
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
                self._enter(token.position, level.field)
            elif token.kind is Kind.CLOSE:
                self._leave(level, token)
            else:
                self._clause(level, token)

    def _advance(self) -> None:
        self._token = self._lexer.next()

    def _join(self, level: _Level, token: Token) -> None:
        if not level.items or level.join is not None or level.sign is not None:
            raise mistake("operator", token.position, f"{token.raw} needs a clause before it")
        level.join = token.kind
        if token.kind is Kind.OR:
            level.items[-1].before_or = True

    def _enter(self, position: int, field: str | None) -> None:
        if len(self._levels) > MAX_DEPTH:
            raise mistake("too_deep", position, f"groups stand at most {MAX_DEPTH} deep")
        self._levels.append(_Level(position, field))

    def _leave(self, level: _Level, token: Token) -> None:
        if len(self._levels) == 1:
            raise mistake("group", token.position, "this ) closes nothing")
        if not level.items and level.sign is None:
            raise mistake("group", level.position, "this group is empty")
        built = self._closed(level, token)
        self._levels.pop()
        self._levels[-1].add(built)

    def _closed(self, level: _Level, token: Token) -> _Built:
        if level.join is not None or level.sign is not None:
            raise mistake("operator", token.position, "a clause is missing after the last operator")
        built = _combined(level.items)
        if built.height > MAX_DEPTH:
            raise mistake("too_deep", level.position, f"clauses stand at most {MAX_DEPTH} deep")
        return built

    def _clause(self, level: _Level, token: Token) -> None:
        if token.kind is Kind.COLON:
            raise mistake("field", token.position, "a field name is missing before the colon")
        if self._token.kind is not Kind.COLON:
            self._bare(level, token)
            return
        if token.kind is not Kind.WORD:
            raise mistake("field", token.position, f"{shown(token.raw)} is no field name")
        self._advance()
        value = self._token
        if token.wildcard == "*" and value.wildcard == "*":
            self._advance()
            level.add(self._counted(Everything()))
            return
        field = self._field(token)
        if value.kind is Kind.OPEN:
            self._advance()
            self._enter(value.position, field)
        elif value.kind in _VALUES:
            self._advance()
            level.add(self._value(field, value))
        else:
            raise mistake("value", value.position, _no_value(field, value))

    def _bare(self, level: _Level, token: Token) -> None:
        if level.field is not None:
            level.add(self._value(level.field, token))
        elif token.wildcard == "*":
            level.add(self._counted(Everything()))
        elif token.raw in ("and", "or", "not"):
            raise mistake(
                "operator", token.position, f"operators are written in capitals: {token.raw.upper()}"
            )
        else:
            raise mistake("field", token.position, f"{shown(token.raw)} needs a field before it: field:value")

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

    def _counted(self, node: Node, clauses: int = 1) -> _Built:
        self._clauses += clauses
        if self._clauses > MAX_CLAUSES:
            position = self._token.position
            raise mistake("too_many_clauses", position, f"a filter has at most {MAX_CLAUSES} clauses")
        return _Built(node, 1)

    def _value(self, field: str, token: Token) -> _Built:
        if token.interval is not None:
            return self._range(field, token, token.interval)
        if token.kind is Kind.REGEX:
            self._try_pattern(field, token)
            return self._counted(Regex(field, token.text))
        if token.wildcard is not None:
            if not token.wildcard.strip("*"):
                return self._counted(Exists(field))
            self._try_pattern(field, token)
            return self._counted(Wildcard(field, token.wildcard))
        if token.kind is Kind.WORD and token.raw[0] in "<>":
            hint = "comparisons are written as ranges: [4 TO *]; quote the value if it is meant as it stands"
            raise mistake("unsupported", token.position, hint)
        if is_moment(field):
            self._count_range(token.position)
        self._check_scalar(field, token.text, token.position)
        words = len(words_of(token.text)) if is_text(field) else 0
        self._words += words
        if self._words > MAX_WORDS:
            raise mistake(
                "too_many_words", token.position, f"a filter asks text fields for at most {MAX_WORDS} words"
            )
        made = Phrase(field, token.text) if token.kind is Kind.PHRASE else Term(field, token.text)
        return self._counted(made, max(words, 1))

    def _range(self, field: str, token: Token, interval: Interval) -> _Built:
        if interval.low is None and interval.high is None:
            return self._counted(Exists(field))
        self._count_range(token.position)
        for end in (interval.low, interval.high):
            if end is not None:
                self._check_scalar(field, end, token.position)
        return self._counted(Range(field, *interval))

    def _count_range(self, position: int) -> None:
        self._ranges += 1
        if self._ranges > MAX_RANGES:
            raise mistake("too_many_ranges", position, f"a filter has at most {MAX_RANGES} ranges")

    def _check_scalar(self, field: str, text: str, position: int) -> None:
        if is_number(field) and number_of(text) is None:
            raise mistake("number", position, f"{field} holds numbers, and {shown(text)} is none")
        if is_moment(field) and period_of(text) is None:
            raise mistake("date", position, f"{field} holds dates, and {shown(text)} is none")

    def _try_pattern(self, field: str, token: Token) -> None:
        """Build the automaton once, to report at the door what could not be run behind it."""
        if is_number(field):
            raise mistake("number", token.position, f"{field} holds numbers, which have no pattern")
        self._patterns += 1
        if self._patterns > MAX_PATTERNS:
            raise mistake(
                "too_many_patterns", token.position, f"a filter has at most {MAX_PATTERNS} patterns"
            )
        try:
            if token.wildcard is None:
                patterns.regex(token.text, self._effort)
            else:
                patterns.wildcard(token.wildcard, self._effort, fold=fold if is_text(field) else None)
        except FilterSyntax as error:
            raise moved(error, token.position + (token.wildcard is None)) from None


def _no_value(field: str, value: Token) -> str:
    if value.kind in _PREFIXES:
        return f"a sign belongs before the field: {value.raw}{shown(field)[1:-1]}:..."
    if value.kind in (Kind.AND, Kind.OR):
        return f"{shown(field)} has no value; write {value.raw} in quotes if it is one"
    return f"{shown(field)} has no value"


def _signed(sign: Kind | None, part: _Built) -> _Built:
    if sign is None or sign is Kind.PLUS:
        return part
    if isinstance(part.node, Not):
        return _Built(part.node.child, part.height - 1)
    return _Built(Not(part.node), part.height + 1)


def _combined(items: list[_Item]) -> _Built:
    """Join the members of a sequence.

    With a + or - anywhere among them, or a NOT that no OR touches, the sequence is read as Solr reads it: what
    has + must hold, what has - or NOT must not, and the rest matters only where nothing has +. Otherwise it is a
    plain OR, and NOT is a plain negation.
    """
    if len(items) == 1:
        return _signed(items[0].sign, _joined(All, items[0].parts))
    solr = any(
        item.sign in (Kind.PLUS, Kind.MINUS)
        or (item.sign is Kind.NOT and not item.after_or and not item.before_or)
        for item in items
    )
    parts = [(item.sign, _joined(All, item.parts)) for item in items]
    if not solr:
        return _joined(Any, [_signed(sign, part) for sign, part in parts])
    wanted = [part for sign, part in parts if sign is Kind.PLUS]
    others = [part for sign, part in parts if sign is None]
    barred = [_signed(sign, part) for sign, part in parts if sign in (Kind.MINUS, Kind.NOT)]
    if not wanted and others:
        wanted = [_joined(Any, others)]
    return _joined(All, wanted + barred)


def _joined(kind: type[All] | type[Any], parts: list[_Built]) -> _Built:
    if len(parts) == 1:
        return parts[0]
    children: list[Node] = []
    height = 0
    for part in parts:
        if isinstance(part.node, kind):
            children.extend(part.node.children)
            height = max(height, part.height - 1)
        else:
            children.append(part.node)
            height = max(height, part.height)
    return _Built(kind(tuple(children)), height + 1)
