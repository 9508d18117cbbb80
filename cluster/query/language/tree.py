"""The syntax tree of a filter: frozen dataclasses, made by the parser, evaluated by `filter_evaluation`.

A tree travels between processes, so it contains plain values only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Term:
    """`brand:Alder`: the field equals (keyword fields) or contains (text fields) the value."""

    field: str
    value: str


@dataclass(frozen=True, slots=True)
class Phrase:
    """`brand:"Alder & Sons"`."""

    field: str
    value: str


@dataclass(frozen=True, slots=True)
class Wildcard:
    """`title:gard*`, `a?c`. `pattern` keeps `*` and `?`; a literal one is escaped with a backslash."""

    field: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Regex:
    """`product_id:/story_.+/`: matches the whole value; run by a linear-time engine only."""

    field: str
    pattern: str


@dataclass(frozen=True, slots=True)
class Exists:
    """`cover_image:*`."""

    field: str


@dataclass(frozen=True, slots=True)
class Range:
    """`rating:[4 TO *]`, `price:{10 TO 20]`. None is an open end."""

    field: str
    low: str | None
    high: str | None
    include_low: bool = True
    include_high: bool = True


@dataclass(frozen=True, slots=True)
class All:
    """Every child holds (AND)."""

    children: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Any:
    """At least one child holds (OR)."""

    children: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The child does not hold."""

    child: Node


@dataclass(frozen=True, slots=True)
class Everything:
    """`*:*`."""


Node: TypeAlias = Term | Phrase | Wildcard | Regex | Exists | Range | All | Any | Not | Everything


_PLAIN = frozenset("_.-")
_OPERATORS = frozenset({"AND", "OR", "NOT"})


def render_filter(node: Node) -> str:
    """Return a filter as text."""
    if isinstance(node, All):
        return " AND ".join(_group(child) for child in node.children)
    if isinstance(node, Any):
        return " OR ".join(_group(child) for child in node.children)
    if isinstance(node, Not):
        return f"NOT {_group(node.child)}"
    if isinstance(node, Everything):
        return "*:*"
    return f"{_escape(node.field)}:{_value(node)}"


def _value(node: Term | Phrase | Wildcard | Regex | Exists | Range) -> str:
    if isinstance(node, Exists):
        return "*"
    if isinstance(node, Range):
        opening = "[" if node.include_low else "{"
        closing = "]" if node.include_high else "}"
        return f"{opening}{_bound(node.low)} TO {_bound(node.high)}{closing}"
    if isinstance(node, Regex):
        return f"/{escape_slashes(node.pattern)}/"
    if isinstance(node, Wildcard):
        return _escape(node.pattern, _PLAIN | frozenset("*?\\"))
    return _escape(node.value) if isinstance(node, Term) else _quote(node.value)


def _bound(text: str | None) -> str:
    return "*" if text is None else _quote(text)


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _escape(text: str, plain: frozenset[str] = _PLAIN) -> str:
    # Escaped as a whole, or the parser would take the word for an operator.
    if text in _OPERATORS:
        return "\\" + text
    done = "".join(char if char.isalnum() or char in plain else "\\" + char for char in text)
    # A leading minus would negate the term.
    return "\\" + done if done.startswith("-") else done


def _group(node: Node) -> str:
    # Always in brackets: no rule of precedence is needed to read the text again.
    return f"({render_filter(node)})" if isinstance(node, (All, Any)) else render_filter(node)


def escape_slashes(pattern: str) -> str:
    """Return a regular expression as it stands between slashes: slashes that are not escaped yet are."""
    done = []
    after_backslash = False
    for char in pattern:
        done.append("\\/" if char == "/" and not after_backslash else char)
        after_backslash = char == "\\" and not after_backslash
    return "".join(done)
