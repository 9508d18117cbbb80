"""The syntax tree of a filter: frozen dataclasses, made by the parser, evaluated by `compile`.

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
