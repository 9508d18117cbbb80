"""Lines and tables of results, declared beside the results; the command line prints them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ResultTable:
    """Rows of texts under headings."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    empty: str = ""
    "What stands there in place of a table without rows; empty: the headings alone."
    title: str = ""
    ids: tuple[str, ...] = ()
    "Columns of ids; a narrow terminal shows their start."
    droppable: tuple[str, ...] = ()
    "Columns that a narrow terminal leaves out, the first one first."


ResultLines = Sequence[str | ResultTable]
"What `to_lines()` of a result returns: the lines that a person reads."


@dataclass(frozen=True, slots=True)
class PlainResult:
    """A result of facts for programs, and lines for people."""

    facts: Mapping[str, Any]
    lines: ResultLines = ()

    def to_dict(self) -> dict[str, Any]:
        return dict(self.facts)

    def to_lines(self) -> ResultLines:
        return self.lines
