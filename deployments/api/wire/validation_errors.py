"""The faults of a body in the wording of the interface: `{loc, msg, type}`, `loc` beginning with `body`.

The wording is that of the published examples. A fault repeats no value of the client except shortened field names,
and whole numbers that should be text.

Published in `docs/reference/errors.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from cluster.errors import FilterSyntax, Unprocessable
from cluster.records.field_types.fields import FAULT

B = TypeVar("B", bound=BaseModel)

_WORDS: dict[str, tuple[str, str]] = {
    "missing": ("field required", "value_error.missing"),
    "extra_forbidden": ("extra fields not permitted", "value_error.extra"),
    "string_type": ("str type expected", "type_error.str"),
    "int_type": ("value is not a valid integer", "type_error.integer"),
    "int_parsing": ("value is not a valid integer", "type_error.integer"),
    "int_parsing_size": ("value is not a valid integer", "type_error.integer"),
    "int_from_float": ("value is not a valid integer", "type_error.integer"),
    "float_type": ("value is not a valid float", "type_error.float"),
    "float_parsing": ("value is not a valid float", "type_error.float"),
    "finite_number": ("value is not a valid float", "type_error.float"),
    "bool_type": ("value could not be parsed to a boolean", "type_error.bool"),
    "bool_parsing": ("value could not be parsed to a boolean", "type_error.bool"),
    "list_type": ("value is not a valid list", "type_error.list"),
    "dict_type": ("value is not a valid dict", "type_error.dict"),
    "model_type": ("value is not a valid dict", "type_error.dict"),
    "model_attributes_type": ("value is not a valid dict", "type_error.dict"),
    "string_pattern_mismatch": ("string does not match the expected form", "value_error.str.regex"),
    "greater_than_equal": ("ensure this value is greater than or equal to {ge}", "value_error.number.not_ge"),
    "greater_than": ("ensure this value is greater than {gt}", "value_error.number.not_gt"),
    "less_than_equal": ("ensure this value is less than or equal to {le}", "value_error.number.not_le"),
    "string_too_long": (
        "ensure this value has at most {max_length} characters",
        "value_error.any_str.max_length",
    ),
    "string_too_short": (
        "ensure this value has at least {min_length} characters",
        "value_error.any_str.min_length",
    ),
    "too_long": ("ensure this value has at most {max_length} items", "value_error.list.max_items"),
    "too_short": ("ensure this value has at least {min_length} items", "value_error.list.min_items"),
    "literal_error": ("unexpected value; permitted: {expected}", "value_error.const"),
    FAULT: ("invalid datetime format", "value_error.datetime"),
}
"Error type of pydantic -> our message and type."

_FORMS = {
    "^[A-Za-z]{2}$": "expected the two letters of an ISO 639-1 language code, for example en",
}
"Pattern of a field -> the sentence that describes the form."

_MOST = 100
"Maximum faults reported for one body."
_LONGEST_NAME = 128
_LARGEST_SHOWN = 10**18
"Largest number that a message repeats."


def build_error(msg: str, kind: str = "value_error") -> PydanticCustomError:
    """Return an error for a custom validator, in the wording of the interface."""
    return PydanticCustomError(kind, "{msg}", {"msg": msg})


def validate_body(model: type[B], values: Any, within: str = "body") -> B:
    """Return the body that values are; each `loc` of a fault begins with `within`.

    Errors:
        Unprocessable: the values are invalid
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise unprocessable_from(error, within, model) from error


def unprocessable_from(error: ValidationError, within: str, model: type[BaseModel]) -> Unprocessable:
    """Return the error reply for a validation error; the message of an unknown field names a similar field."""
    faults = error.errors(include_url=False)[:_MOST]
    return Unprocessable("request schema error", detail=[_entry(entry, within, model) for entry in faults])


def refuse(msg: str, *path: str | int, kind: str = "value_error", within: str = "body") -> NoReturn:
    """Refuse a request for one reason.

    Errors:
        Unprocessable: always
    """
    raise Unprocessable(msg, detail=[{"loc": [within, *path], "msg": msg, "type": kind}])


def refuse_filter(error: FilterSyntax, *path: str | int, within: str = "body") -> NoReturn:
    """Refuse a filter that does not parse, with the name of its parameter.

    Errors:
        FilterSyntax: always
    """
    entry = {"loc": [within, *path], "msg": error.message, "type": "value_error.filter"}
    raise FilterSyntax(error.message, **{**error.facts, "detail": [entry]}) from error


def _entry(entry: ErrorDetails, within: str, model: type[BaseModel]) -> dict[str, Any]:
    context = entry.get("ctx", {})
    kind = entry["type"]
    place = [within, *(_short(part) for part in entry["loc"])]
    ours = kind.startswith(("value_error", "type_error"))
    msg, error_type = _WORDS.get(
        kind, (entry["msg"] if ours else "value is not valid", kind if ours else "value_error")
    )
    form = _FORMS.get(context.get("pattern", ""))
    msg = form or (msg.format_map(context) if kind in _WORDS else msg)
    if kind == "extra_forbidden":
        msg += _suggest_field(entry["loc"], model)
    elif kind == "string_type" and type(entry["input"]) is int and abs(entry["input"]) < _LARGEST_SHOWN:
        msg += f'; send it as text: "{entry["input"]}"'
    return {"loc": place, "msg": msg, "type": error_type}


def _suggest_field(place: tuple[str | int, ...], model: type[BaseModel]) -> str:
    """Return a hint at the field of the same object that an unknown name resembles; empty if there is none."""
    models = [model]
    for part in place[:-1]:
        if isinstance(part, str):
            fields = [owner.model_fields[part].annotation for owner in models if part in owner.model_fields]
            models = [inner for annotation in fields for inner in _models_of(annotation)]
    names = [name for owner in models for name in owner.model_fields]
    # The comparison takes quadratic time, so a long name is cut.
    matches = get_close_matches(str(place[-1])[:_LONGEST_NAME], names, 1, 0.7)
    return f"; did you mean {matches[0]}?" if matches else ""


def _models_of(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models_of(part)


def _short(part: str | int) -> str | int:
    return part[:_LONGEST_NAME] if isinstance(part, str) else part
