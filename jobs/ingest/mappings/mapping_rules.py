"""Rules of a mapping: their text, and the conversion of values; `jobs.ingest.mappings.mapping` describes the forms."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from cluster.errors import Invalid
from cluster.records.field_types.times import is_stored_moment, moment_text
from jobs.ingest.mappings.dates import DATE_ORDERS, parse_date, parse_written_date
from jobs.ingest.mappings.record_fields import propose_name

_KINDS = {
    **dict.fromkeys(
        ("price", "original_price", "sale_price", "margin", "rating", "revenue", "duration"), "number"
    ),
    **dict.fromkeys(("lat", "lon"), "number"),
    **dict.fromkeys(("tags", "authors", "publishers", "collections", "related_ids", "images"), "list"),
    **dict.fromkeys(
        ("headers", "paragraphs", "anchors", "product_ids", "product_group_ids", "category"), "list"
    ),
    **dict.fromkeys(("created_at", "updated_at", "published_at", "corrected_at", "timestamp"), "time"),
    **dict.fromkeys(
        ("user_id", "anonymous_id", "product_id", "product_group_id", "parent_id", "group_id"), "text"
    ),
    "quantities": "numbers",
    "categories": "paths",
    "age": "integer",
    "enable_question_answering": "bool",
}
_NAMED = re.compile(r"(?P<column>.+?):(?P<kind>[a-z]+)(?:\((?P<option>.*)\))?", re.DOTALL)
_TABLED = re.compile(r"(?P<column>[^{]+)\{(?P<table>.*)\}", re.DOTALL)
_QUOTED = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_PLACE = "q"
"Stands for a quoted column while the rest of its rule is read."
_SPLIT = ("list", "numbers", "paths")
TIME_FIELDS = tuple(name for name, kind in _KINDS.items() if kind == "time")
KINDS = tuple(sorted({*_KINDS.values()}))
"Target types of a conversion."
_SECONDS_BELOW = 100_000_000_000
_DIGITS = {8: "%Y%m%d", 14: "%Y%m%d%H%M%S"}
_CENTURIES = ("19", "20")
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MS = timedelta(milliseconds=1)
TRUE_WORDS = ("true", "1", "yes", "ja", "oui", "si", "sí", "sì", "sim", "wahr", "vrai")
FALSE_WORDS = ("false", "0", "no", "nein", "non", "nee", "não", "nao", "falsch", "faux")
_BOOLEANS = {**dict.fromkeys(TRUE_WORDS, True), **dict.fromkeys(FALSE_WORDS, False)}


@dataclass(frozen=True, slots=True)
class MappingRule:
    """A rule: the target field, its source column and the conversion."""

    target: tuple[str, ...]
    column: str = ""
    constant: str | None = None
    kind: str = ""
    option: str = ""
    "Format of a time, or decimal sign of a number."
    table: Mapping[str, str] = field(default_factory=dict)
    "Value in the file -> value of the field."
    item_separator: str = "|"
    level_separator: str = ">"


def parse_rule(text: str) -> MappingRule:
    """Return the rule of a text such as `price=Preis:number(,)`.

    Errors:
        Invalid: the text is no rule
    """
    # `:=` first, because it holds `=` as well; with a `=` in front of it, it belongs to a column's name.
    target, constant, value = text.partition(":=")
    if constant and target and "=" not in target:
        return MappingRule(parse_path(target), constant=value, kind=target_kind(target))
    target, equals, column = text.partition("=")
    if not (target.strip(":") and equals and column):
        raise Invalid(f"mapping {text!r} is neither field=column nor field:=value")
    table: Mapping[str, str] = {}
    # The quoted name is replaced by a letter, so that signs inside it are read neither as kind nor as
    # separator.
    quoted, column = split_quoted(column)
    if tabled := _TABLED.fullmatch(column):
        column = tabled["column"]
        table = _parse_value_table(tabled["table"], text)
    named = _NAMED.fullmatch(column)
    bare = column
    kind = target_kind(target)
    option = ""
    # A colon may belong to the column's name: only a known kind behind it is one.
    if named is not None and named["kind"] in KINDS:
        bare = named["column"]
        kind = named["kind"]
        option = named["option"] or ""
    elif named is not None and named["option"] is not None:
        hint = propose_name(named["kind"], KINDS)
        raise Invalid(
            f"mapping {text!r}: there is no kind {named['kind']!r}{hint}; there are {', '.join(KINDS)}"
        )
    _check_option(kind, option, text)
    separators = ""
    if kind in _SPLIT:
        # `or bare`: a column whose name consists of such signs only.
        column = bare.rstrip("|>;,/") or bare
        separators = bare[len(column) :]
        bare = column
    if len(separators) > 2 or len(set(separators)) < len(separators):
        raise Invalid(
            f"mapping {text!r}: after the column stand at most two different signs, the one between items "
            "and the one inside a path, for example categories=cat|>"
        )
    # One sign given: it separates items, and levels keep their default.
    filled = separators + "|>"[len(separators) :]
    if quoted is not None:
        if bare != _PLACE:
            raise Invalid(f"mapping {text!r}: behind a quoted column stand separators, a kind or a table")
        bare = quoted
    return MappingRule(
        parse_path(target),
        bare,
        kind=kind,
        option=option,
        table=table,
        item_separator=filled[0],
        level_separator=filled[1],
    )


def quote_column(name: str) -> str:
    """Return a column name for a rule: as JSON text, if signs of rules stand in it."""
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if plain else json.dumps(name)


def split_quoted(column: str) -> tuple[str | None, str]:
    """Return the name of a column in quotes, and the rest behind a name that stands for it."""
    match = _QUOTED.match(column)
    if match is None:
        return None, column
    try:
        name = json.loads(match.group())
    except ValueError:
        return None, column
    return name, _PLACE + column[match.end() :]


def _parse_value_table(text: str, rule: str) -> dict[str, str]:
    """Return the value table of a text such as `ja:IN_STOCK,nein:OUT_OF_STOCK`."""
    table: dict[str, str] = {}
    for pair in text.split(","):
        value, colon, becomes = pair.strip().partition(":")
        if not (value and colon and becomes):
            raise Invalid(f"mapping {rule!r}: a table of values looks like {{ja:IN_STOCK,nein:OUT_OF_STOCK}}")
        table[value] = becomes
    return table


def _check_option(kind: str, option: str, rule: str) -> None:
    if not option:
        return
    if kind == "number" and option not in (",", "."):
        raise Invalid(f"mapping {rule!r}: a number's decimal sign is a comma or a point: number(,)")
    if kind == "time" and "%" not in option and option not in DATE_ORDERS:
        raise Invalid(
            f"mapping {rule!r}: the form of a time looks like time(%d.%m.%Y %H:%M), time(day-first) or "
            "time(month-first)"
        )
    if kind not in ("number", "time"):
        raise Invalid(f"mapping {rule!r}: only number and time take something in brackets")


def join_names(names: Sequence[str], most: int = 20) -> str:
    """Return names in quotes for a message, at most `most` of them."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more


def rule_from_name(name: str) -> MappingRule:
    """Return the rule that makes a column the field of its name."""
    return MappingRule(parse_path(name), name, kind=target_kind(name))


def parse_path(name: str) -> tuple[str, ...]:
    """Return the steps of a dotted name."""
    return tuple(name.split("."))


def target_kind(target: str) -> str:
    """Return the kind of value that a field takes; empty if any text is one."""
    return "" if target.startswith("custom_attributes.") else _KINDS.get(target.rpartition(".")[2], "")


def read_value(row: Mapping[str, Any], column: str) -> Any:
    """Return the value of a column, or of a path into objects."""
    if column in row:
        return row[column]
    value: Any = row
    for step in column.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(step)
    return value


def set_value(record: dict[str, Any], rule: MappingRule, value: Any) -> None:
    """Convert a value and set it in a record; an empty value changes nothing."""
    value = _to_json_value(value)
    if value is None or value == "":
        return
    for step in rule.target[:-1]:
        inner = record.setdefault(step, {})
        if not isinstance(inner, dict):
            return
        record = inner
    record[rule.target[-1]] = _convert_value(rule, value)


def _to_json_value(value: Any) -> Any:
    """Convert a Parquet value to a JSON value."""
    # First, since nearly all values are these; bool is an int.
    if isinstance(value, (str, int)) or value is None:
        return value
    if value.__class__ is list:
        return [inner if inner.__class__ is str else _to_json_value(inner) for inner in value]
    if isinstance(value, float):
        # JSON has neither NaN nor infinity; Parquet tables use NaN for "no value".
        return value if math.isfinite(value) else None
    if isinstance(value, datetime):
        return _moment_text(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return _to_json_value(float(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Mapping):
        # Parquet has every field of a struct in each row; those without a value are not part of the record.
        return {str(name): _to_json_value(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, (list, tuple)):
        return [_to_json_value(inner) for inner in value]
    # A length of time in seconds; what is left are UUIDs and times of a day.
    return value.total_seconds() if isinstance(value, timedelta) else str(value)


def _convert_value(rule: MappingRule, value: Any) -> Any:
    kind = rule.kind
    if rule.table:
        value = rule.table.get(value if isinstance(value, str) else str(value), value)
    if kind == "time":
        return _parse_time_format(value, rule.option) if rule.option else parse_time(value)
    if kind == "integer":
        number = _parse_number(value) if isinstance(value, str) else value
        whole = isinstance(number, float) and number.is_integer()
        value = int(number) if whole else value
        natural = target_kind(rule.target[-1])
        return str(value) if whole and natural == "text" else _convert_id(rule, value)
    if not isinstance(value, str):
        return _convert_id(rule, value)
    if kind == "number":
        return _parse_number(_decimal_point(value) if rule.option == "," else value)
    if kind == "bool":
        return _BOOLEANS.get(value.lower(), value)
    if kind not in _SPLIT:
        return value
    items = [item.strip() for item in value.split(rule.item_separator) if item.strip()]
    if kind == "numbers":
        return [_parse_number(item) for item in items]
    if kind == "paths":
        return [[level.strip() for level in item.split(rule.level_separator)] for item in items]
    return items


def _convert_id(rule: MappingRule, value: Any) -> Any:
    """Convert whole numbers to text in id fields, because many tables have numeric ids."""
    if rule.target[0] == "custom_attributes":
        return value
    if type(value) is int:
        return str(value) if rule.kind == "text" else [str(value)] if rule.kind == "list" else value
    if rule.kind == "list" and isinstance(value, list):
        return [str(item) if type(item) is int else item for item in value]
    return value


def parse_time(value: Any) -> Any:
    """Return a moment as text from seconds, milliseconds or a written date; other values unchanged."""
    if value.__class__ is str and is_stored_moment(value):
        return value
    if (day := _parse_digits(value)) is not None:
        return _moment_text(day)
    number = _parse_number(value) if isinstance(value, str) and len(value) > 8 else value
    if isinstance(number, str):
        at = None if number[:4].isdigit() else parse_written_date(number)
        return value if at is None else _moment_text(at)
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return value
    # Below 100 billion it counts seconds: as milliseconds this would be before March 1973, as seconds up to
    # the year 5138.
    at_ms = number * 1000 if abs(number) < _SECONDS_BELOW else number
    try:
        return moment_text(round(at_ms))
    except (OverflowError, ValueError):
        return value


def _parse_time_format(value: Any, form: str) -> Any:
    if not isinstance(value, str):
        return parse_time(value)
    if form in DATE_ORDERS:
        date_at = parse_date(value, DATE_ORDERS[form != DATE_ORDERS[0]])
        return parse_time(value) if date_at is None else _moment_text(date_at)
    try:
        # An offset may lead out of the years 1 to 9999.
        return _moment_text(datetime.strptime(value.strip(), form))  # noqa: DTZ007 - no offset means UTC
    except (ValueError, OverflowError):
        return value


def _parse_digits(value: Any) -> datetime | None:
    """Return the moment of digits such as `20240131` or `20240131235959`, None of anything else.

    As seconds they would be days of August 1970, as milliseconds years behind 2570.
    """
    text = str(value) if value.__class__ is int else value
    if text.__class__ is not str or len(text) not in _DIGITS or not text.isascii() or not text.isdigit():
        return None
    try:
        return datetime.strptime(text, _DIGITS[len(text)]) if text[:2] in _CENTURIES else None  # noqa: DTZ007
    except ValueError:
        return None


def _moment_text(at: datetime) -> str:
    """Return a moment in the stored form; without a zone it is UTC, wherever the ingest runs.

    Microseconds are cut: rounded up, the last moment of the year 9999, which tables use for "no end", is none.
    """
    aware = at if at.tzinfo else at.replace(tzinfo=timezone.utc)
    return moment_text((aware - _EPOCH) // _MS)


def _decimal_point(text: str) -> str:
    """Convert a decimal comma to a point and remove thousands separators (points and blanks)."""
    # One comma only: a second one leaves a text that is no number, and the validation reports it.
    return re.sub(r"[.\s']", "", text).replace(",", ".", 1)


def _parse_number(text: str) -> float | str:
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


def squeeze_name(name: str) -> str:
    """Return the letters and digits of a name in lower case, so that `Product-ID` equals `product_id`."""
    return "".join(filter(str.isalnum, name.lower()))
