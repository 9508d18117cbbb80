"""A mapping as a form shows it: field, reading and values of each column, facts about all rows, and rules as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobs.ingest.mappings.column_proposal import READINGS, build_rule, list_noun_fields
from jobs.ingest.mappings.mapping import ORDER_ID, REFUND, RETURNS, SAME_USER_AND_TIME, FieldMap
from jobs.ingest.mappings.mapping_rules import MappingRule, quote_column

JOIN_RULE = f"{ORDER_ID}:={SAME_USER_AND_TIME}"
RETURNS_RULE = f"{RETURNS}:={REFUND}"
_TYPE = "type:="


@dataclass(frozen=True, slots=True)
class MappingChoices:
    """The choices of a form."""

    chosen: Mapping[int, str] = field(default_factory=dict)
    "Number of a column -> its field; columns without a field are left out."
    readings: Mapping[int, str] = field(default_factory=dict)
    "Number of a column -> a key of `READINGS`."
    tables: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    "Number of a column -> value of the file -> value of the field."
    row_type: str = ""
    "Type of all interactions; empty: a column has it."
    joins_rows: bool = False
    "Rows of the same user and time are one order."
    has_refunds: bool = False
    "Negative quantities are returns."
    more: str = ""
    "Further rules, one a line."

    def to_dict(self) -> dict[str, Any]:
        """Return the choices for JSON; numbers of columns are text."""
        return {
            "chosen": {str(at): name for at, name in self.chosen.items()},
            "readings": {str(at): name for at, name in self.readings.items()},
            "tables": {str(at): dict(table) for at, table in self.tables.items()},
            "row_type": self.row_type,
            "joins_rows": self.joins_rows,
            "has_refunds": self.has_refunds,
            "more": self.more.splitlines(),
        }


def choices_from_mapping(
    names: Sequence[str], mapping: Sequence[str], noun: str, *, is_plain: bool
) -> MappingChoices:
    """Return the choices that a mapping stands for; rules that are no such choice are in `more`.

    With `is_plain`, every column is the field of its name.

    Errors:
        Invalid: a rule is invalid
    """
    if is_plain:
        return MappingChoices(chosen=dict(enumerate(names)))
    places = {name: at for at, name in enumerate(names)}
    left_out = {f"={quote_column(name)}" for name in names}
    chosen: dict[int, str] = {}
    readings: dict[int, str] = {}
    tables: dict[int, Mapping[str, str]] = {}
    row_type = ""
    more = list[str]()
    for text in mapping:
        if text in left_out or text in (JOIN_RULE, RETURNS_RULE):
            continue
        if noun == "interaction" and text.startswith(_TYPE) and not row_type:
            row_type = text.removeprefix(_TYPE)
            continue
        rules = FieldMap.parse([text]).rules
        place = places.get(rules[0].column) if rules and rules[0].constant is None else None
        reading = _reading_of(text, rules[0]) if rules else None
        if place is None or place in chosen or reading is None:
            more.append(text)
            continue
        chosen[place] = ".".join(rules[0].target)
        readings |= {place: reading} if reading else {}
        tables |= {place: rules[0].table} if rules[0].table else {}
    return MappingChoices(
        chosen, readings, tables, row_type, JOIN_RULE in mapping, RETURNS_RULE in mapping, "\n".join(more)
    )


def build_mapping(
    columns: Sequence[Mapping[str, Any]], noun: str, choices: MappingChoices
) -> tuple[str, ...]:
    """Return the rules of the choices of a form.

    A column that is left out and has the name of a field is left out by a rule, because it would stay otherwise.
    """
    fields = list_noun_fields(noun)
    rules: list[str] = []
    for at, column in enumerate(columns):
        name = column["name"]
        if target := choices.chosen.get(at, ""):
            rules.append(build_rule(target, name, choices.readings.get(at, ""), choices.tables.get(at)))
        elif name.partition(".")[0] in fields:
            rules.append(f"={quote_column(name)}")
    if noun == "interaction":
        rules += [f"{_TYPE}{choices.row_type}"] if choices.row_type else []
        rules += [JOIN_RULE] if choices.joins_rows and ORDER_ID not in choices.chosen.values() else []
        rules += [RETURNS_RULE] if choices.has_refunds else []
    return (*rules, *(line.strip() for line in choices.more.splitlines() if line.strip()))


def _reading_of(text: str, rule: MappingRule) -> str | None:
    """Return the reading of a rule that the form can show; None for another rule."""
    target = ".".join(rule.target)
    for reading in ("", *READINGS):
        if text == build_rule(target, rule.column, reading, rule.table):
            return reading
    return None
