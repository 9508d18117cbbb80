"""Field types the uploaded nouns share. Everything is strict: a number is no text and a text is no number.

The compiled validators of pydantic check whatever they can. The few checks that need Python report through
`error_from_text`, whose text follows `is invalid.` in an upload message. Lists and free-form objects stop at their
first bad item, so that a hostile record can't cause hundreds of thousands of errors.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from cluster.records.field_types.attributes import MAX_ATTRIBUTES, MAX_TEXT, AttributeFault, check_attributes
from cluster.records.field_types.times import moment_ms, utc_text

MAX_ITEMS = 10_000
"Ids, quantities or texts in one list."
MAX_PATHS = 1_000
"Category paths of one record."
MAX_LEVELS = 32
"Levels of one category path: every prefix of a path is a category, so work grows with the square of its length."
MAX_RECORD_BYTES = 2_000_000
"Bytes of one record as JSON."
MAX_TITLE = 2_000
"Characters of a title."
MAX_CONTENT = 1_000_000
"Characters of a text that is content: a description, HTML, or one paragraph."

FAULT = "upload_fault"
"pydantic error type of `error_from_text`."

STRICT = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

_CONTROL = r"\x00-\x1f\x7f-\x9f"
RECORD_ID = rf"^[^_{_CONTROL}][^{_CONTROL}]*$"
PRODUCT_ID = rf"^[^_,{_CONTROL}][^,{_CONTROL}]*$"
NAMED_ID = rf"^[^{_CONTROL}]*$"
UUID = r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$"
IPV4 = r"^(?:(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])\.){3}(?:25[0-5]|2[0-4][0-9]|1?[0-9]?[0-9])$"


def error_from_text(text: str, *path: str | int) -> PydanticCustomError:
    """Return an error with a complete text, `path` steps below the validated value."""
    return PydanticCustomError(FAULT, "{text}", {"text": text, "path": path})


def json_type(value: object) -> str:
    """Return a value's type as in JSON schema."""
    return _JSON_TYPES.get(type(value), "object")


def wrong_type(expected: str, value: object) -> str:
    """Return the text of a type error."""
    return f"The attribute expected to be of type '{expected}', but '{json_type(value)}' is given."


_JSON_TYPES = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
    type(None): "null",
}

NOT_A_TIME = "The attribute should match 'date-time' format."


def _utc_text(value: str) -> str:
    try:
        return utc_text(value)
    except ValueError:
        raise error_from_text(NOT_A_TIME) from None


def _moment_ms(value: Any) -> int:
    if not isinstance(value, str):
        raise error_from_text(wrong_type("string", value))
    try:
        return moment_ms(value)
    except ValueError:
        raise error_from_text(NOT_A_TIME) from None


def _attributes(value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise error_from_text(wrong_type("object", value))
    try:
        check_attributes(value)
    except AttributeFault as error:
        raise error_from_text(error.text, *error.path) from None
    return value


def _positive_numbers(value: Any) -> Any:
    if not isinstance(value, list):
        text = _number_fault(value, "number or array")
        if text:
            raise error_from_text(text)
    elif len(value) > MAX_ITEMS:
        raise error_from_text(f"The attribute should have at most {MAX_ITEMS} entries.")
    elif not _NUMBERS.issuperset(map(type, value)) or (value and not 0 < min(value) <= max(value) < math.inf):
        # Only a wrong list comes here, to find the place of its fault.
        for at, item in enumerate(value):
            text = _number_fault(item, "number")
            if text:
                raise error_from_text(text, at)
    return value


_NUMBERS = frozenset((int, float))


def _number_fault(value: Any, expected: str) -> str:
    if type(value) not in _NUMBERS:
        return wrong_type(expected, value)
    return "" if 0 < value < math.inf else "The attribute should be greater than 0."


def _filters(value: Any) -> dict[str, list[str]]:
    if type(value) is not dict:
        raise error_from_text(wrong_type("object", value))
    for name, items in value.items():
        if type(items) is not list:
            raise error_from_text(wrong_type("array", items), name)
        if not _TEXT.issuperset(map(type, items)):
            at = next(at for at, item in enumerate(items) if type(item) is not str)
            raise error_from_text(wrong_type("string", items[at]), name, at)
        if items and max(map(len, items)) > MAX_TEXT:
            raise error_from_text(f"The items should have at most {MAX_TEXT} characters.", name)
    return value


_TEXT = frozenset((str,))


def _images(value: Any) -> list[Any]:
    if type(value) is not list:
        raise error_from_text(wrong_type("array", value))
    for at, item in enumerate(value):
        if type(item) is not str and type(item) is not dict:
            raise error_from_text(wrong_type("string or object", item), at)
    return value


Number = Annotated[float, Field(allow_inf_nan=False)]
ShortText = Annotated[str, Field(max_length=MAX_TEXT)]
Title = Annotated[str, Field(max_length=MAX_TITLE)]
Content = Annotated[str, Field(max_length=MAX_CONTENT)]
Texts = Annotated[list[ShortText], Field(fail_fast=True, max_length=MAX_ITEMS)]
Contents = Annotated[list[Content], Field(fail_fast=True, max_length=MAX_ITEMS)]
Paths = Annotated[
    list[Annotated[list[ShortText], Field(fail_fast=True, max_length=MAX_LEVELS)]],
    Field(fail_fast=True, max_length=MAX_PATHS),
]
"Category paths, each broad to narrow."
Address = Annotated[str, Field(max_length=65_536)]
Uri = Annotated[str, Field(min_length=1, max_length=65_536)]

UserId = Annotated[str, Field(min_length=1, max_length=512, pattern=RECORD_ID)]
ProductId = Annotated[str, Field(min_length=1, max_length=512, pattern=PRODUCT_ID)]
NamedId = Annotated[str, Field(min_length=1, max_length=512, pattern=NAMED_ID)]
"An id that only names an object: nothing is stored under it, so any printable text is valid."
NamedIds = Annotated[list[NamedId], Field(fail_fast=True, max_length=MAX_ITEMS)]
VisitorId = Annotated[str, Field(min_length=1, max_length=1024, pattern=NAMED_ID)]
EventId = Annotated[str, Field(min_length=1, max_length=64, pattern=NAMED_ID)]
Uuid = Annotated[str, Field(pattern=UUID)]
Ipv4 = Annotated[str, Field(pattern=IPV4)]

DayOrMoment = Annotated[
    str,
    AfterValidator(_utc_text),
    WithJsonSchema({"type": "string", "anyOf": [{"format": "date-time"}, {"format": "date"}]}),
]
"A day as sent, or a moment in UTC."
Moment = Annotated[int, PlainValidator(_moment_ms), WithJsonSchema({"type": "string", "format": "date-time"})]
"Milliseconds since 1970, read from text."

_TEXT_SCHEMA: dict[str, Any] = {"type": "string", "maxLength": MAX_TEXT}
_SCALARS: list[dict[str, Any]] = [{"type": "boolean"}, {"type": "number"}, _TEXT_SCHEMA, {"type": "null"}]
_FLAT = {"type": "object", "additionalProperties": {"anyOf": _SCALARS}}
_LISTS: list[dict[str, Any]] = [
    {"type": "array", "items": item} for item in ({"type": "number"}, _TEXT_SCHEMA, _FLAT)
]
Attributes = Annotated[
    dict[str, Any],
    PlainValidator(_attributes),
    WithJsonSchema(
        {
            "type": "object",
            "maxProperties": MAX_ATTRIBUTES,
            "propertyNames": {"minLength": 1, "maxLength": 256, "pattern": NAMED_ID},
            "additionalProperties": {"anyOf": [*_SCALARS, _FLAT, *_LISTS]},
        }
    ),
]
"Custom attributes: see `attributes`."

_POSITIVE = {"type": "number", "exclusiveMinimum": 0}
Quantities = Annotated[
    Any,
    PlainValidator(_positive_numbers),
    WithJsonSchema({"anyOf": [_POSITIVE, {"type": "array", "items": _POSITIVE}]}),
]
Images = Annotated[
    list[Any],
    PlainValidator(_images),
    WithJsonSchema({"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "object"}]}}),
]
"Accepted and returned untouched."
Filters = Annotated[
    dict[str, list[str]],
    PlainValidator(_filters),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "array", "items": _TEXT_SCHEMA}}),
]


class Strict(BaseModel):
    """Base of all uploaded objects: strict, closed, frozen. `None` means absence."""

    model_config = STRICT
