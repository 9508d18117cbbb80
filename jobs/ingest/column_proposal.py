"""Columns of a file: the kinds of their values, and the fields that they probably are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import orjson

from cluster.records.validation.schema import record_schema
from jobs.ingest.mapping import quote_column
from jobs.ingest.row import Row, UnreadableRow
from jobs.ingest.sources import PlainFiles, SourceFile, read_column_names

SAMPLED_ROWS = 200
SHOWN_SAMPLES = 3
MOST_COLUMNS = 300
_LONGEST_SAMPLE = 80
_MOSTLY = 0.8
"Share of the values that must have a kind."
NUMERIC = ("price", "original_price", "sale_price", "revenue", "margin")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_COMMA_NUMBER = re.compile(r"[+-]?\d{1,3}(?:[.\s]\d{3})*,\d+|[+-]?\d+,\d+")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d.*)?")
_WORDS = re.compile(r"[a-z]+|\d+")

_SYNONYMS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "product": {
        "product_id": ("id", "sku", "item", "itemid", "article", "articleid", "productid", "asin", "isbn", "productno"),
        "title": ("name", "productname", "itemname", "headline", "producttitle"),
        "description": ("desc", "body", "longdescription", "text"),
        "price": ("amount", "unitprice", "preis", "cost", "listprice"),
        "brand": ("manufacturer", "vendor", "marke", "make"),
        "url": ("link", "href", "producturl", "webaddress"),
        "cover_image": ("image", "imageurl", "picture", "photo", "thumbnail", "imagelink"),
        "categories": ("category", "productcategory", "categorypath", "breadcrumb", "producttype"),
        "tags": ("keywords", "labels"),
        "availability": ("stock", "instock", "available"),
        "created_at": ("created", "creationdate", "dateadded"),
        "published_at": ("published", "publicationdate", "pubdate", "releasedate"),
        "product_group_id": ("groupid", "itemgroupid", "parentsku"),
        "language": ("lang", "locale"),
    },
    "user": {
        "user_id": ("id", "user", "userid", "customer", "customerid", "customerno", "memberid", "uid"),
        "created_at": ("created", "since", "registered", "signupdate", "createdon"),
        "country": ("land", "countrycode"),
        "city": ("town", "ort"),
        "age": ("years",),
        "gender": ("sex",),
        "language": ("lang", "locale"),
    },
    "interaction": {
        "user_id": ("user", "userid", "customer", "customerid", "memberid", "uid"),
        "anonymous_id": ("visitor", "visitorid", "sessionid", "session", "cookieid", "deviceid", "clientid"),
        "product_ids": ("productid", "product", "item", "itemid", "sku", "articleid", "asin"),
        "type": ("event", "eventtype", "action", "behavior", "activity", "interaction"),
        "timestamp": ("time", "date", "datetime", "ts", "eventtime", "createdat", "invoicedate", "occurredat"),
        "quantities": ("quantity", "qty", "amount", "count"),
        "rating": ("stars", "score"),
        "duration": ("dwell", "seconds", "dwelltime"),
        "revenue": ("total", "sales", "value"),
    },
}  # fmt: skip
"Noun -> field -> names of columns in other systems, without signs."


@dataclass(frozen=True, slots=True)
class ColumnProposal:
    """One column and what to do with it."""

    name: str
    kind: str
    "integer, number, decimal comma, time, bool, list, object, text or empty."
    filled: int
    "Number of sampled rows with a value."
    samples: tuple[str, ...]
    field: str = ""
    "The proposed field; empty: leave the column out."
    rule: str = ""
    "The rule of the mapping, as `--map` takes it."

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


def propose_columns(source: SourceFile, files: PlainFiles, noun: str) -> list[ColumnProposal]:
    """Return the columns of a file with proposals, from its first rows.

    Errors:
        Invalid: the file does not have its format
    """
    names = read_column_names(source)
    rows = _sample_rows(source, files)
    if names is None:
        names = list(dict.fromkeys(name for row in rows for name in row))
    columns = [_describe(name, rows) for name in names[:MOST_COLUMNS] if name]
    return _propose(columns, noun)


def list_noun_fields(noun: Any) -> list[str]:
    """Return the fields of a noun, those that the schema requires first."""
    schema = record_schema(noun)["properties"]["data"]["items"]
    members = schema.get("oneOf") or schema.get("anyOf") or [schema]
    fields = dict.fromkeys(
        [name for member in members for name in member.get("required", ())]
        + [name for member in members for name in member.get("properties", {})]
    )
    return list(fields)


def build_rule(field: str, column: str, kind: str = "") -> str:
    """Return the rule that makes a column a field; the name of the column may be any text."""
    kind = kind if field in NUMERIC else ""
    suffix = {"decimal comma": ":number(,)"}.get(kind, "")
    return f"{field}={quote_column(column)}{suffix}"


def _sample_rows(source: SourceFile, files: PlainFiles) -> list[dict[str, Any]]:
    chunks = files.chunks(source, SAMPLED_ROWS)
    first: Sequence[Row] = next((rows for _, rows in islice(chunks, 1)), ())
    return [row for row in first if not isinstance(row, UnreadableRow)]


def _describe(name: str, rows: Sequence[Mapping[str, Any]]) -> ColumnProposal:
    values = [row[name] for row in rows if row.get(name) not in (None, "")]
    kinds = Counter(map(_kind_of, values))
    kind = _most_frequent_kind(kinds)
    samples = dict.fromkeys(_sample_text(value) for value in values[:50])
    return ColumnProposal(name, kind, len(values), tuple(islice(samples, SHOWN_SAMPLES)))


def _most_frequent_kind(kinds: Counter[str]) -> str:
    """Return the kind of most values: a few dirty ones must not decide. Integers fit into both forms of numbers."""
    if not kinds:
        return "empty"
    for wide in ("decimal comma", "number"):
        if kinds[wide] and kinds["integer"]:
            kinds[wide] += kinds.pop("integer")
    kind, count = kinds.most_common(1)[0]
    return kind if count >= _MOSTLY * sum(kinds.values()) else "text"


def _kind_of(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, list | tuple):
        return "list"
    if isinstance(value, Mapping):
        return "object"
    if not isinstance(value, str):
        return "time" if hasattr(value, "isoformat") else "text"
    text = value.strip()[:100]
    if text.isascii() and text.isdigit():
        return "integer"
    if _NUMBER.fullmatch(text):
        return "number"
    if _COMMA_NUMBER.fullmatch(text):
        return "decimal comma"
    if _MOMENT.fullmatch(text):
        return "time"
    return "bool" if text.lower() in ("true", "false", "yes", "no") else "text"


def _sample_text(value: Any) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    return text if len(text) <= _LONGEST_SAMPLE else text[: _LONGEST_SAMPLE - 1] + "…"


def _propose(columns: Sequence[ColumnProposal], noun: str) -> list[ColumnProposal]:
    """Give each column the field of its name or of a synonym; each field goes to one column."""
    fields = list_noun_fields(noun)
    exact = {_squeeze(field): field for field in fields}
    synonyms = {name: field for field, names in _SYNONYMS[noun].items() if field in fields for name in names}
    chosen: dict[str, str] = {}
    for table in (exact, synonyms):
        for column in columns:
            field = table.get(_squeeze(column.name), "")
            if field and field not in chosen.values() and column.name not in chosen:
                chosen[column.name] = field
    proposals = []
    for column in columns:
        field = chosen.get(column.name, "")
        rule = build_rule(field, column.name, column.kind) if field else ""
        proposals.append(ColumnProposal(column.name, column.kind, column.filled, column.samples, field, rule))
    return proposals


def _squeeze(name: str) -> str:
    return "".join(_WORDS.findall(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()))
