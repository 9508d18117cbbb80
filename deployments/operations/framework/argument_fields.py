"""The fields of arguments as people enter them: options of commands and inputs of forms."""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Le, MaxLen
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from cluster.errors import Invalid
from cluster.records.field_types.times import moment_ms
from cluster.records.field_types.units import Unit

Kind = Literal[
    "text",
    "integer",
    "number",
    "share",
    "moment",
    "flag",
    "words",
    "pair",
    "pairs",
    "range",
    "weights",
    "items",
    "other",
]

_KINDS: dict[Any, Kind] = {str: "text", int: "integer", float: "number", bool: "flag"}
_GENERIC: dict[str, Kind] = {
    "list[str]": "words",
    "tuple[str, ...]": "words",
    "tuple[float, float]": "pair",
    "dict[str, float]": "weights",
    "list[typing.Any]": "items",
}
_NAMES = {
    "app_id": "The app.",
    "engine_id": "The engine.",
    "username": "The name of an account.",
    "limit": "Entries at most.",
    "cursor": "The `next` of the answer before.",
    "key_id": "Id of a key.",
    "token_id": "Id of a token.",
    "product_id": "Id of a product.",
    "import_id": "Id of an import.",
    "run_id": "The run as `kiosk runs list` names it, or its start.",
    "erasure_id": "Id of an erasure.",
    "question_id": "Id of a question.",
    "user_id": "Id of a user.",
    "anonymous_id": "Id of a visitor.",
    "offset": "Entries to leave out before the first.",
    "mapping": "Rules as `kiosk ingest --map` takes them.",
    "fq": "A filter.",
    "variants": "One or two bodies, as the endpoint of the API takes them.",
}
"Descriptions of arguments that many operations share."


@dataclass(frozen=True, slots=True)
class ArgumentField:
    """One field of arguments."""

    name: str
    kind: Kind
    title: str
    "A label."
    description: str
    default: Any
    "None: absent, or required."
    is_required: bool
    minimum: float | None = None
    maximum: float | None = None
    max_length: int | None = None

    def parse(self, texts: Sequence[str], label: str) -> Any:
        """Return the value that somebody entered as one or several texts.

        Errors:
            Invalid: a text is no value of this kind; the message shows one that is
        """
        if self.kind == "weights":
            return dict(_parse_weight(text, label) for text in texts)
        if self.kind == "pairs":
            return dict(_parse_name_and_value(text, label) for text in texts)
        if self.kind == "words":
            return tuple(word.strip() for text in texts for word in text.split(",") if word.strip())
        text = texts[0].strip()
        if self.kind == "moment":
            return _parse_moment(text, label)
        if self.kind == "range":
            return _parse_range(text, label)
        if self.kind == "pair":
            return _parse_pair(text, label)
        if self.kind in ("integer", "number", "share"):
            number = parse_number(text, label)
            return int(number) if self.kind == "integer" and number.is_integer() else number
        return texts[0]


def describe_argument(name: str) -> str:
    """Return the description of an argument that has none."""
    return _NAMES.get(name) or f"The {name.replace('_', ' ')}."


def list_fields(model: type[BaseModel]) -> tuple[ArgumentField, ...]:
    """Return the fields of arguments, in the order of the model."""
    fields = []
    for name, info in model.model_fields.items():
        annotation, metadata = _unwrap(info.annotation)
        metadata = [*info.metadata, *metadata]
        unit = next((part.name for part in metadata if isinstance(part, Unit)), None)
        default = info.get_default(call_default_factory=True)
        fields.append(
            ArgumentField(
                name=name,
                kind=unit
                or _KINDS.get(annotation)
                or _GENERIC.get(str(annotation))
                or _other_kind(annotation),
                title=info.title or name.replace("_", " ").capitalize(),
                description=info.description or describe_argument(name),
                default=None if default is PydanticUndefined or default == {} else default,
                is_required=info.is_required(),
                minimum=_find(metadata, Ge, "ge"),
                maximum=_find(metadata, Le, "le"),
                max_length=_find(metadata, MaxLen, "max_length"),
            )
        )
    return tuple(fields)


def parse_number(text: str, label: str) -> float:
    """Return a finite number, also one with a percent sign.

    Errors:
        Invalid: the text is no number
    """
    try:
        value = float(text[:40].replace("%", ""))
    except ValueError:
        value = float("nan")
    if not isfinite(value):
        raise Invalid(f"{label}: {text[:40]!r} is no number")
    return value


def _find(metadata: Sequence[Any], kind: type, attribute: str) -> Any:
    return next((getattr(part, attribute) for part in metadata if isinstance(part, kind)), None)


def _unwrap(annotation: Any) -> tuple[Any, list[Any]]:
    """Return a type without `None` and `Annotated`, and the metadata that it had."""
    metadata: list[Any] = []
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *more = get_args(annotation)
            # A `Field` of pydantic keeps its bounds in a list of its own.
            metadata += [part for item in more for part in (item, *getattr(item, "metadata", ()))]
        elif get_origin(annotation) in (Union, types.UnionType):
            options = [option for option in get_args(annotation) if option is not type(None)]
            if len(options) > 1:
                return annotation, metadata
            annotation = options[0]
        else:
            return annotation, metadata


def _other_kind(annotation: Any) -> Kind:
    return "pairs" if get_origin(annotation) is dict else "other"


def _parse_moment(text: str, label: str) -> int:
    try:
        return moment_ms(text[:40])
    except ValueError:
        raise Invalid(f"{label}: {text[:40]!r} is no moment; write it as 2026-12-01T08:00:00Z") from None


def _parse_weight(text: str, label: str) -> tuple[str, float]:
    # The last `=`: a name may contain one, a number can't.
    name, mark, weight = text.rpartition("=")
    if not mark:
        raise Invalid(f"{label}: {text!r} is no name and its weight; write it as blue=2")
    return name, parse_number(weight, label)


def _parse_name_and_value(text: str, label: str) -> tuple[str, str]:
    # The first `=`: a value may contain one, a name can't.
    name, mark, value = (part.strip() for part in text.partition("="))
    if not mark or not name:
        raise Invalid(f"{label}: {text!r} is no name and its value; write it as NAME=VALUE")
    return name, value


def _parse_range(text: str, label: str) -> tuple[int, int]:
    low, _, high = text.partition(":")
    # isdecimal, since isdigit takes a superscript two, which int refuses.
    if not low.isdecimal() or not (high or low).isdecimal():
        raise Invalid(f"{label} is MIN:MAX, for example 1:4, or one number; not {text!r}")
    return int(low), int(high or low)


def _parse_pair(text: str, label: str) -> tuple[float, float]:
    first, mark, last = text.partition(",")
    if not mark:
        raise Invalid(f"{label}: {text!r} is no pair of numbers; write it as 0,0.5")
    return parse_number(first, label), parse_number(last, label)
