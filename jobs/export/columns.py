"""The columns of an export, and the conversion of stored records to tables.

Columns have the names of the record's fields. Fields without a fixed form (`custom_attributes`, `children`, `images`,
`location`, translations, the context of an interaction) are JSON text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, get_args

import orjson
import pyarrow as pa

from cluster.artifacts.logs import call_log, outcomes, query_log, served_log
from cluster.records.field_types.times import moment_ms
from cluster.records.intake import Noun

Subject = Literal["users", "products", "interactions", "queries", "served", "outcomes", "calls"]
SUBJECTS: Final[tuple[Subject, ...]] = get_args(Subject)
NOUN_OF: Final[Mapping[str, Noun]] = {"users": "user", "products": "product", "interactions": "interaction"}

_TEXT = pa.string()
_NUMBER = pa.float64()
_FLAG = pa.bool_()
_TEXTS = pa.list_(_TEXT)
_NUMBERS = pa.list_(_NUMBER)
_PATHS = pa.list_(pa.list_(_TEXT))
_TIME: Final = pa.timestamp("ms", "UTC")
_ORIGIN: Final = b',"_origin":"'
"""`cluster.records.validation.upload.ORIGIN`: 16 hex digits of a keyed hash of an address, for counting only,
always written last.
It never leaves the installation."""
_ORIGIN_LENGTH: Final = len(_ORIGIN) + 16 + len(b'"}')


def _build_schema(names: str, **others: Any) -> Any:
    """Return a schema; columns are texts unless `others` has their type."""
    return pa.schema([(name, others.get(name, _TEXT)) for name in names.split()])


SCHEMAS: Final[Mapping[str, Any]] = {
    "users": _build_schema(
        "user_id created_at updated_at name profile_image age gender city state country group_id description "
        "custom_attributes written_at",
        age=pa.int64(),
        written_at=_TIME,
    ),
    "products": _build_schema(
        "product_id product_group_id parent_id related_ids type title subtitle description short_description html "
        "headers paragraphs anchors children language created_at published_at updated_at categories tags authors "
        "publishers collections url cover_image images price original_price sale_price margin size color material "
        "brand condition availability rating location enable_question_answering access corrected_at "
        "correction_note custom_attributes translations written_at",
        **dict.fromkeys(
            [
                "related_ids",
                "headers",
                "paragraphs",
                "anchors",
                "tags",
                "authors",
                "publishers",
                "collections",
            ],
            _TEXTS,
        ),
        **dict.fromkeys(["price", "original_price", "sale_price", "margin", "rating"], _NUMBER),
        categories=_PATHS,
        enable_question_answering=_FLAG,
        written_at=_TIME,
    ),
    "interactions": _build_schema(
        "user_id anonymous_id type timestamp product_ids product_group_ids quantities duration revenue rating "
        "custom_action_name category search question_id result_type value service_id event_id context "
        "written_at",
        **dict.fromkeys(["product_ids", "product_group_ids", "category"], _TEXTS),
        **dict.fromkeys(["duration", "revenue", "rating"], _NUMBER),
        quantities=_NUMBERS,
        timestamp=_TIME,
        written_at=_TIME,
    ),
    # `origin` is a digest of an address, so it is not exported.
    "queries": pa.schema(
        [pa.field("at", _TIME), *[field for field in query_log.COLUMNS if field.name not in ("at", "origin")]]
    ),
    "served": pa.schema(
        [pa.field("at", _TIME), *[field for field in served_log.COLUMNS if field.name != "at"]]
    ),
    "calls": pa.schema([pa.field("at", _TIME), *[field for field in call_log.COLUMNS if field.name != "at"]]),
    "outcomes": pa.schema(
        [pa.field("at", _TIME), *[field for field in outcomes.COLUMNS if field.name != "at"]]
    ),
}


def ingest_record_from_stored(stored: bytes) -> bytes:
    """Return a stored record in the form that `kiosk ingest` accepts."""
    # Always the last field, so no JSON is parsed.
    begins = len(stored) - _ORIGIN_LENGTH
    return stored[:begins] + b"}" if stored.startswith(_ORIGIN, max(begins, 0)) else stored


def table_from_records(subject: Subject, jsons: Sequence[bytes], offsets: Sequence[str]) -> Any:
    """Return a table of stored records with the columns of their subject.

    Shapes:
        offsets: change-log offset of each record; its milliseconds become `written_at`
    """
    schema = SCHEMAS[subject]
    records = [_prepare_record(orjson.loads(record)) for record in jsons]
    columns = []
    values: list[Any]
    for field in schema:
        if field.name == "written_at":
            values = [int(offset.partition("-")[0]) for offset in offsets]
        else:
            convert = _column_converter(field.type)
            values = [
                None if (value := record.get(field.name)) is None else convert(value) for record in records
            ]
        columns.append(pa.array(values, field.type))
    return pa.table(columns, schema=schema)


def table_from_log(subject: Subject, table: Any) -> Any:
    """Return rows of a log with the columns of an export."""
    at = table.schema.get_field_index("at")
    return table.set_column(at, "at", table["at"].cast(_TIME)).select(SCHEMAS[subject].names)


def _prepare_record(record: dict[str, Any]) -> dict[str, Any]:
    translations = {name: value for name, value in record.items() if name.startswith("i18n_")}
    if translations:
        record["translations"] = translations
    return record


def _column_converter(kind: Any) -> Callable[[Any], Any]:
    if kind == _TIME:
        return moment_ms
    if kind == _NUMBER:
        return float
    if kind == _NUMBERS:
        return _parse_numbers
    if kind == _TEXT:
        return _parse_text
    return lambda value: value


def _parse_numbers(value: Any) -> list[float]:
    """Return the quantities; a single number applies to all products."""
    return [float(number) for number in value] if isinstance(value, list) else [float(value)]


def _parse_text(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
