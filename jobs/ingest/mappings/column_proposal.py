"""Columns of a file: the kinds of their values, and the fields that they probably are.

A column gets a field by its name, which may be one of another system in seven languages (`column_names.toml`), or by
its content: image addresses, dates, ids. The proposal also says how to read the values: decimal commas, the order of
day and month, separators of lists, and values such as `ja` for `IN_STOCK`.
"""

from __future__ import annotations

import dataclasses
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from jobs.ingest.files.sources import PlainFiles, SourceFile, propose_source_encoding, read_column_names
from jobs.ingest.files.unreadable_row import Row, UnreadableRow
from jobs.ingest.mappings.dates import detect_date_orders, parse_written_date
from jobs.ingest.mappings.mapping import ORDER_ID, REFUND, RETURNS, SAME_USER_AND_TIME
from jobs.ingest.mappings.mapping_rules import FALSE_WORDS, TIME_FIELDS, TRUE_WORDS, quote_column
from jobs.ingest.mappings.record_fields import read_fields

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Few enough that a proposal appears while a person waits.
SAMPLED_ROWS = 200
SHOWN_SAMPLES = 3
MOST_COLUMNS = 300
MOST_VALUES = 20
"Distinct values of a column from which a table of values is no help."
_LONGEST_SAMPLE = 80
# Below 1, because real columns have a few values such as "n/a"; a column of two kinds stays text.
_MOSTLY = 0.8
"Share of the values that must have a kind."
_NAMES = Path(__file__).with_name("column_names.toml")

READINGS: Mapping[str, str] = {
    "decimal-comma": ":number(,)",
    "day-first": ":time(day-first)",
    "month-first": ":time(month-first)",
    "whole-number": ":integer",
    "comma-list": ",",
    "semicolon-list": ";",
    "slash-path": "|/",
}
"How values of a column are read -> the end of its rule."
NUMERIC = ("price", "original_price", "sale_price", "revenue", "margin", "rating", "duration", "quantities")
_LISTS = ("tags", "authors", "collections", "categories")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
# 1.234,56 or 1 234,56 with separators of thousands, or 1234,56 without.
_COMMA_NUMBER = re.compile(r"[+-]?\d{1,3}(?:[.\s]\d{3})*,\d+|[+-]?\d+,\d+")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d.*)?")
# With a digit, or each short word would be an id.
_ID = re.compile(r"(?=.*\d)[A-Za-z0-9][\w./-]{0,39}")
_IMAGE = re.compile(r"(?:https?://|/)?[^\s|;,]+\.(?:jpe?g|png|webp|gif|avif|svg)(?:\?\S*)?", re.IGNORECASE)
_ADDRESS = re.compile(r"https?://\S+", re.IGNORECASE)
_PIECES = re.compile(r"[a-z]+|\d+")
# Table programs write an integer column with a missing value as decimals: 17 becomes 17.0.
_FLOAT_ID = re.compile(r"\d+\.0")


@dataclass(frozen=True, slots=True)
class ColumnProposal:
    """One column and what to do with it."""

    name: str
    kind: str
    """id, integer, number, decimal comma, time, date (with the order of day and month), bool, list, object,
    image address, web address, text or empty."""
    filled: int
    "Number of sampled rows with a value."
    samples: tuple[str, ...]
    field: str = ""
    "The proposed field; empty: leave the column out."
    rule: str = ""
    "The rule of the mapping, as `--map` takes it."
    reading: str = ""
    "One of `READINGS`; empty: as the field needs it."
    values: tuple[str, ...] = ()
    "Distinct sampled values, if they are few."
    table: Mapping[str, str] = dataclasses.field(default_factory=dict)
    "Value of the column -> value of the field."

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def propose_columns(source: SourceFile, files: PlainFiles, noun: str) -> list[ColumnProposal]:
    """Return the columns of a file with proposals, from its first rows."""
    names = read_column_names(source)
    rows = _sample_rows(source, files)
    if names is None:
        names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [_describe(name, rows) for name in names[:MOST_COLUMNS] if name]
    chosen = _choose_fields(columns, noun)
    return [
        _with_field(column, chosen[column.name], noun) if column.name in chosen else column
        for column in columns
    ]


@dataclass(frozen=True, slots=True)
class MappingProposal:
    """A proposed mapping of a file."""

    columns: tuple[ColumnProposal, ...]
    rules: tuple[str, ...]
    encoding: str
    "Encoding that the text seems to have; empty: UTF-8, or the one that was named."


def propose_for_file(source: SourceFile, files: PlainFiles, noun: str) -> MappingProposal:
    """Return the proposal of a file; a text that is not UTF-8 is read in the encoding that it seems to have.

    Errors:
        Invalid: the file does not have its format
    """
    encoding = propose_source_encoding(source)
    if encoding:
        layout = replace(source.layout, encoding=encoding)
        files = replace(files, layout=layout)
        source = replace(source, layout=layout)
    columns = propose_columns(source, files, noun)
    return MappingProposal(tuple(columns), tuple(propose_mapping(columns, noun)), encoding)


def propose_mapping(columns: Sequence[ColumnProposal], noun: str) -> list[str]:
    """Return the rules of a proposal: those of the columns, and those about all rows.

    Rows with order numbers, quantities or revenues are purchases, and rows with ratings are ratings, if no column
    names a type. Rows of one order are joined. Negative quantities are returns.
    """
    rules = [column.rule for column in columns if column.rule]
    if noun != "interaction":
        return rules
    fields = {column.field: column for column in columns if column.field}
    is_purchase = not {ORDER_ID, "quantities", "revenue"}.isdisjoint(fields)
    if "type" not in fields and (is_purchase or "rating" in fields):
        rules.append("type:=checkout" if is_purchase else "type:=rate")
    if "type" not in fields and is_purchase and ORDER_ID not in fields and "timestamp" in fields:
        rules.append(f"{ORDER_ID}:={SAME_USER_AND_TIME}")
    if is_purchase and any(value.startswith("-") for value in _values_of(fields.get("quantities"))):
        rules.append(f"{RETURNS}:={REFUND}")
    return rules


def list_noun_fields(noun: Any) -> list[str]:
    """Return the fields of a noun, those that the schema requires first; interactions have `order_id` as well."""
    names = list(read_fields(noun).names)
    return [*names, ORDER_ID] if noun == "interaction" else names


def build_rule(field: str, column: str, reading: str = "", table: Mapping[str, str] | None = None) -> str:
    """Return the rule that makes a column a field; the name of the column may be any text.

    `reading` is a key of `READINGS`. Values that a table can't hold are left out of it.
    """
    pairs = ",".join(
        f"{value}:{becomes}" for value, becomes in (table or {}).items() if is_table_value(value)
    )
    return f"{field}={quote_column(column)}{READINGS.get(reading, '')}{'{' + pairs + '}' if pairs else ''}"


def is_table_value(value: str) -> bool:
    """Return true if a value can stand in the table of a rule."""
    return bool(value.strip()) and value == value.strip() and not set(value) & set(",:{}\n\r")


def _sample_rows(source: SourceFile, files: PlainFiles) -> list[dict[str, Any]]:
    chunks = files.chunks(source, SAMPLED_ROWS)
    first: Sequence[Row] = next((rows for _, rows in islice(chunks, 1)), ())
    return [row for row in first if not isinstance(row, UnreadableRow)]


def _describe(name: str, rows: Sequence[Mapping[str, Any]]) -> ColumnProposal:
    values = [row[name] for row in rows if row.get(name) not in (None, "")]
    kind = _most_frequent_kind(Counter(map(_kind_of, values)))
    reading = {"decimal comma": "decimal-comma"}.get(kind, "")
    if kind == "date":
        orders = detect_date_orders(value for value in values if _kind_of(value) == "date")
        kind = (
            f"date, {' or '.join(order.removesuffix('-first') for order in orders or ('day', 'month'))} first"
        )
        reading = orders[0] if orders else "day-first"
    distinct = dict.fromkeys(_sample_text(value) for value in values)
    return ColumnProposal(
        name,
        kind,
        len(values),
        _choose_samples(distinct),
        reading=reading,
        values=tuple(distinct) if len(distinct) <= MOST_VALUES else (),
    )


def _choose_samples(distinct: Iterable[str]) -> tuple[str, ...]:
    """Return the first values; a negative one is always among them, because it means a return."""
    values = list(distinct)
    negative = [value for value in values if value.startswith("-")][:1]
    first = [value for value in values if value not in negative][: SHOWN_SAMPLES - len(negative)]
    return (*first, *negative)


def _most_frequent_kind(kinds: Counter[str]) -> str:
    """Return the kind of most values: a few dirty ones must not decide. Integers fit into both forms of numbers."""
    if not kinds:
        return "empty"
    # Ids such as A17 and 17 in one column: a number among ids is an id, too.
    if kinds["id"] and kinds["id"] + kinds["integer"] >= _MOSTLY * kinds.total():
        return "id"
    for wide in ("decimal comma", "number"):
        if kinds[wide] and kinds["integer"]:
            kinds[wide] += kinds.pop("integer")
    kind, count = kinds.most_common(1)[0]
    return kind if count >= _MOSTLY * kinds.total() else "text"


def _kind_of(value: Any) -> str:
    if not isinstance(value, str):
        return _kind_of_json(value)
    # A bound for the patterns below, which look at each value from its beginning.
    text = value.strip()[:200]
    # The order matters: 2020 is a number and 04.05.2019 a date, although both look like ids.
    if _NUMBER.fullmatch(text):
        return "integer" if text.isascii() and text.lstrip("+-").isdigit() else "number"
    if _COMMA_NUMBER.fullmatch(text):
        return "decimal comma"
    if _MOMENT.fullmatch(text):
        return "time"
    if text.lower() in _BOOLEAN_WORDS:
        return "bool"
    if detect_date_orders([text]):
        return "date"
    if _IMAGE.fullmatch(text):
        return "image address"
    if _ADDRESS.fullmatch(text):
        return "web address"
    if _ID.fullmatch(text):
        return "id"
    return "time" if parse_written_date(text) is not None else "text"


_BOOLEAN_WORDS = frozenset((*TRUE_WORDS, *FALSE_WORDS)) - {"1", "0"}


def _kind_of_json(value: Any) -> str:
    # `bool` first, because a bool is an int in Python.
    for kind, types in (("bool", bool), ("integer", int), ("number", float), ("object", Mapping)):
        if isinstance(value, types):
            return kind
    if isinstance(value, list | tuple):
        return "list"
    return "time" if hasattr(value, "isoformat") else "text"


def _sample_text(value: Any) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    return text if len(text) <= _LONGEST_SAMPLE else text[: _LONGEST_SAMPLE - 1] + "…"


def _choose_fields(columns: Sequence[ColumnProposal], noun: str) -> dict[str, str]:
    """Return the field of each column by its name, its name in another system, or its content.

    Each field goes to one column.
    """
    fields = list_noun_fields(noun)
    exact = {_squeeze(field): field for field in fields}
    chosen: dict[str, str] = {}
    # All exact names first: they win over names of other systems, wherever the columns stand.
    for table in (exact, _synonyms(noun)):
        for column in columns:
            field = table.get(_squeeze(column.name), "")
            if field in fields and field not in chosen.values() and column.name not in chosen:
                chosen[column.name] = field
    for field, kinds in _CONTENTS[noun].items():
        free = [column for column in columns if column.name not in chosen and column.kind.startswith(kinds)]
        # two columns of dates: which of them is meant is a question for people
        if field not in chosen.values() and free and (len(free) == 1 or field not in TIME_FIELDS):
            chosen[free[0].name] = field
    return chosen


_CONTENTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "product": {"cover_image": ("image address",), "url": ("web address",), "product_id": ("id",)},
    "user": {"profile_image": ("image address",), "user_id": ("id",)},
    "interaction": {"timestamp": ("time", "date")},
}
"Noun -> field -> kinds of values of which its column probably is."


def _with_field(column: ColumnProposal, field: str, noun: str) -> ColumnProposal:
    """Return a column with its field, how its values are read, and its rule."""
    table: dict[str, str] = {}
    choices = read_fields(noun).choices.get(field, ())
    if choices:
        table = _propose_table(column.values, field, choices)
    reading = _reading_of(column, field)
    rule = build_rule(field, column.name, reading, table)
    return replace(column, field=field, reading=reading, table=table, rule=rule)


def _reading_of(column: ColumnProposal, field: str) -> str:
    """Return how the values of a column are read for a field."""
    if column.reading == "decimal-comma":
        return column.reading if field in NUMERIC else ""
    if column.reading:
        return column.reading if field in TIME_FIELDS else ""
    # pandas writes the whole numbers of a column with gaps as floats, such as 17.0.
    if (
        field in ("user_id", "product_id")
        and column.samples
        and all(map(_FLOAT_ID.fullmatch, column.samples))
    ):
        return "whole-number"
    samples = column.values or column.samples
    if field not in _LISTS or column.kind in ("list", "object") or any("|" in value for value in samples):
        return ""
    for sign, reading in ((";", "semicolon-list"), (",", "comma-list")):
        if any(sign in value for value in samples):
            return reading
    is_path = field == "categories" and any("/" in value for value in samples)
    return "slash-path" if is_path and not any(">" in value for value in samples) else ""


def _propose_table(values: Iterable[str], field: str, choices: Sequence[str]) -> dict[str, str]:
    """Return the values of a column that mean a value of the field and are written otherwise."""
    meanings = {_squeeze(choice): choice for choice in choices} | _value_synonyms(field)
    proposed = {value: meanings.get(_squeeze(value), "") for value in values}
    return {value: meant for value, meant in proposed.items() if meant in choices and meant != value}


def _values_of(column: ColumnProposal | None) -> tuple[str, ...]:
    return () if column is None else (*column.values, *column.samples)


@cache
def _read_names() -> dict[str, Any]:
    return tomllib.loads(_NAMES.read_text("utf-8"))


def _synonyms(noun: str) -> dict[str, str]:
    """Return names of columns in other systems with their fields."""
    return _meanings(_read_names()[noun])


def _value_synonyms(field: str) -> dict[str, str]:
    return _meanings(_read_names()["values"].get(field, {}))


def _meanings(names: Mapping[str, str]) -> dict[str, str]:
    meanings: dict[str, str] = {}
    for meaning, words in names.items():
        for word in words.split():
            meanings.setdefault(word, meaning)
    return meanings


def _squeeze(name: str) -> str:
    """Return the letters and digits of a name in small letters, without accents."""
    decomposed = unicodedata.normalize("NFKD", name.lower().replace("ß", "ss"))
    plain = "".join(letter for letter in decomposed if not unicodedata.combining(letter))
    return "".join(_PIECES.findall(plain))
