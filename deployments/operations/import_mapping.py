"""A mapping of columns as a form shows it: one field for each column, and further rules as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jobs.ingest.column_proposal import build_rule
from jobs.ingest.mapping import FieldMap


def read_choices(names: Sequence[str], mapping: Sequence[str], *, is_plain: bool) -> dict[str, Any]:
    """Return `chosen`, the field of each column by its number, and `more`, all rules that are no such choice.

    With `is_plain`, every column is the field of its name.

    Errors:
        Invalid: a rule is invalid
    """
    if is_plain:
        return {"chosen": {str(at): name for at, name in enumerate(names)}, "more": []}
    places = {name: at for at, name in enumerate(names)}
    chosen: dict[str, str] = {}
    more: list[str] = []
    for text in mapping:
        (rule,) = FieldMap.parse([text]).rules
        place = places.get(rule.column) if rule.constant is None else None
        field = ".".join(rule.target)
        if place is None or str(place) in chosen or not _is_choice(text, field, rule.column):
            more.append(text)
        else:
            chosen[str(place)] = field
    return {"chosen": chosen, "more": more}


def build_mapping(
    columns: Sequence[Mapping[str, Any]], chosen: Mapping[int, str], more: str
) -> tuple[str, ...]:
    """Return the rules of a form: `chosen` has the field of a column by its number, `more` one rule a line."""
    rules = [
        column["rule"] if field == column["field"] else build_rule(field, column["name"], column["kind"])
        for at, column in enumerate(columns)
        if (field := chosen.get(at, ""))
    ]
    return (*rules, *(line.strip() for line in more.splitlines() if line.strip()))


def _is_choice(text: str, field: str, column: str) -> bool:
    return text in (build_rule(field, column), build_rule(field, column, "decimal comma"))
