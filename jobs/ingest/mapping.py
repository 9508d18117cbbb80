"""From the columns of a file to the fields of a record.

    product_id=sku                         a column under another name
    custom_attributes.colour=color         a field inside; the column may be a path too
    categories=cat|>                       split: `|` between paths or list items, `>` inside a path
    type:=book                             the same value for every record

Without a mapping every column is the field of its name; a dotted name goes inside. What a field needs is known
(`price` is a number, `tags` is a list, times may be seconds or milliseconds since 1970), so CSV works as well.
A value that does not fit is left as it is: the validation that follows says it better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

from cluster.errors import Invalid
from cluster.records.times import moment_text

_NUMBERS = {
    "price", "original_price", "sale_price", "margin", "rating", "revenue", "duration", "lat", "lon",
}  # fmt: skip
_INTEGERS = {"age"}
_BOOLEANS = {"enable_question_answering"}
_LISTS = {
    "tags", "authors", "publishers", "collections", "related_ids", "headers", "paragraphs", "anchors", "images",
    "product_ids", "product_group_ids", "category",
}  # fmt: skip
_TIMES = {"created_at", "updated_at", "published_at", "timestamp"}
_NUMBER_LISTS = {"quantities"}
_SECONDS_BELOW = 100_000_000_000
_TRUTHS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True, slots=True)
class Rule:
    """One target field and where its value comes from."""

    target: tuple[str, ...]
    source: tuple[str, ...] = ()
    constant: Any = None
    item_separator: str = "|"
    level_separator: str = ">"


@dataclass(frozen=True, slots=True)
class FieldMap:
    """All rules; without any, columns are fields."""

    rules: tuple[Rule, ...] = ()

    @classmethod
    def parse(cls, texts: Sequence[str]) -> FieldMap:
        """Read rules as they are written above.

        Errors:
            Invalid: a rule makes no sense
        """
        return cls(tuple(_rule(text) for text in texts))

    def apply(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Make a record of a row."""
        record: dict[str, Any] = {}
        for rule in self.rules or [Rule(_path(name), (name,)) for name in row]:
            value = rule.constant if rule.constant is not None else _look(row, rule.source)
            if value is None or value == "":
                continue
            _place(record, rule.target, _fit(rule, _plain(value)))
        return record


def _rule(text: str) -> Rule:
    target, constant, value = text.partition(":=")
    if constant and target:
        return Rule(_path(target), constant=value)
    target, equals, column = text.partition("=")
    if not (target and equals and column):
        raise Invalid(f"mapping {text!r} is neither field=column nor field:=value")
    separators = ""
    if len(column) > 1 and _path(target)[-1] in {*_LISTS, *_NUMBER_LISTS, "categories"}:
        bare = column.rstrip("|>;,/")
        separators, column = column[len(bare) :], bare
    filled = separators + "|>"[len(separators) :]
    return Rule(_path(target), (column,), item_separator=filled[0], level_separator=filled[1])


def _path(name: str) -> tuple[str, ...]:
    return tuple(name.split("."))


def _look(row: Mapping[str, Any], source: tuple[str, ...]) -> Any:
    """A column of exactly that name, else a path into objects."""
    (name,) = source
    if name in row:
        return row[name]
    value: Any = row
    for step in name.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(step)
    return value


def _place(record: dict[str, Any], target: tuple[str, ...], value: Any) -> None:
    for step in target[:-1]:
        inner = record.setdefault(step, {})
        if not isinstance(inner, dict):
            return
        record = inner
    record[target[-1]] = value


def _plain(value: Any) -> Any:
    """Turn what Parquet gives into what JSON has."""
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        return moment_text(round(aware.timestamp() * 1000))
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return value


def _fit(rule: Rule, value: Any) -> Any:
    name = rule.target[-1]
    if len(rule.target) > 1 and rule.target[0] == "custom_attributes":
        return value
    if name == "categories" and isinstance(value, str):
        paths = [path for path in value.split(rule.item_separator) if path.strip()]
        return [[level.strip() for level in path.split(rule.level_separator)] for path in paths]
    if name in _LISTS and isinstance(value, str):
        return [item.strip() for item in value.split(rule.item_separator) if item.strip()]
    if name in _NUMBER_LISTS and isinstance(value, str):
        return [_tried(float, item) for item in value.split(rule.item_separator)]
    if name in _TIMES:
        return _time(value)
    if not isinstance(value, str):
        return str(value) if name.endswith("_id") and isinstance(value, int) else value
    if name in _NUMBERS:
        return _tried(float, value)
    if name in _INTEGERS:
        return _tried(int, value)
    if name in _BOOLEANS:
        return _TRUTHS.get(value.lower(), value)
    return value


def _time(value: Any) -> Any:
    if isinstance(value, str):
        number = _tried(float, value) if len(value) != 4 else value
        if isinstance(number, str):
            return value
        value = number
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        at_ms = value * 1000 if abs(value) < _SECONDS_BELOW else value
        try:
            return moment_text(round(at_ms))
        except (OverflowError, ValueError):
            return value
    return value


def _tried(kind: Callable[[str], Any], text: str) -> Any:
    try:
        number = kind(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text
