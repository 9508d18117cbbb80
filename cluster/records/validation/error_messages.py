"""From validation errors to upload messages: one string per bad record, in one grammar.

    data.<index>[.<path>] is invalid. <text>[ (and <n> more)]

Paths consist of field names, which callers choose. So they are cleaned (no blanks, only printable characters)
and shortened. Values never appear.

The public server SDK parses these strings. If one does not match the grammar, the SDK rejects the whole
batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import islice
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from cluster.records.field_types.fields import FAULT, IPV4, PRODUCT_ID, RECORD_ID, UUID, json_type, wrong_type

_MAX_ERRORS = 200
"Errors of one slice that are examined without pruning; beyond this number, records are pruned first."
_MAX_EFFORT = 60_000
"""Effort for explaining one upload: 1 for each error created, 5 more for each error examined. Bad records
beyond it are not reported; ten thousand with one fault each are."""
_MAX_UNKNOWN = 8
"Unknown names an object keeps when it is pruned."
_MOST_DETAILS = 5
"Errors of one record that a detailed message words."
MOST_LISTED = 20
"Messages of one record in `details`."
MOST_DETAILS = 1_000
"Messages of one upload in `details`; records behind them have their first message only."
# Characters of a field name in a path, and below it the levels of a path: callers choose both.
_MAX_STEP = 80
_MAX_STEPS = 8

_EXPECTED = {
    "string_type": "string",
    "int_type": "integer",
    "int_from_float": "integer",
    "float_type": "number",
    "bool_type": "boolean",
    "list_type": "array",
    "dict_type": "object",
    "model_type": "object",
    "model_attributes_type": "object",
}
_BOUNDS = {
    "greater_than_equal": ("ge", "greater than or equal to"),
    "greater_than": ("gt", "greater than"),
    "less_than_equal": ("le", "less than or equal to"),
    "less_than": ("lt", "less than"),
}
_FORMATS = {UUID: "uuid", IPV4: "ipv4"}
_RIGHT_NAMES: Mapping[str | int, str] = {"product_id": "product_ids", "product_group_id": "product_group_ids"}
"Common wrong names of an attribute of an interaction -> its correct name."
_TIMES = frozenset({"timestamp", "created_at", "updated_at", "published_at"})
_TIME_FORM = "A time is text: send seconds or milliseconds since 1970 as '2026-03-02T09:15:30Z'."
_TAGGED_FIELDS = {"location": ("one", "many")}


PathAndText = tuple[list[str | int], str]
"Path within a record, and the fault at this path."


class Explainer:
    """Explains why slices of an upload failed, and stops at a bound.

    `fields` are the field names of all objects a record may consist of. `tagged`: the records are members of a
    union, and errors name the member first. `is_detailed`: a message words several errors instead of counting them.
    """

    def __init__(
        self, adapter: TypeAdapter[Any], fields: Set[str], *, tagged: bool, is_detailed: bool = False
    ) -> None:
        self._adapter = adapter
        self._is_detailed = is_detailed
        self._fields = fields
        self._tagged = tagged
        self._effort = 0
        self.messages: list[str] = []
        "One for each bad record."
        self._details: list[dict[str, Any]] = []
        self._left = MOST_DETAILS

    @property
    def details(self) -> list[dict[str, Any]]:
        """Return all messages of each bad record: `{index, messages}`, `more` (how many are left out) and
        `hint`.

        Empty when no record has a second message or a hint, because `messages` is complete then.
        """
        has_more = any(len(entry["messages"]) > 1 or {"more", "hint"} & set(entry) for entry in self._details)
        return self._details if has_more else []

    @property
    def is_done(self) -> bool:
        """Return whether the bound for examined errors is reached."""
        return self._effort >= _MAX_EFFORT

    def explain(self, records: Sequence[Any], failure: ValidationError, start: int) -> None:
        """Add one message per bad record of a slice that begins at index `start`."""
        self._effort += failure.error_count()
        # `errors()` builds an object for each error; a record with a million unknown names would fill the
        # memory.
        if failure.error_count() > _MAX_ERRORS:
            self._explain_one_by_one(records, start)
            return
        by_record: dict[int, list[ErrorDetails]] = {}
        for error in failure.errors(include_url=False):
            by_record.setdefault(int(error["loc"][0]), []).append(error)
        for at, errors in sorted(by_record.items()):
            self._add(start + at, errors)

    def _explain_one_by_one(self, records: Sequence[Any], start: int) -> None:
        """Explain slices with very many errors: a record's own errors can't be bounded, so its width is."""
        for at, record in enumerate(records):
            # The whole record too, since pruning may have removed the very fault.
            failure = self._failure(self._prune(record)) or self._failure(record)
            if failure is not None:
                self._add(start + at, failure.errors(include_url=False))
                if self.is_done:
                    return

    def _failure(self, record: Any) -> ValidationError | None:
        try:
            self._adapter.validate_python([record])
        except ValidationError as failure:
            return failure
        return None

    def _prune(self, value: Any, depth: int = 4) -> Any:
        """Copy a record without most of its unknown names, as deep as the schema of any record goes."""
        if depth and type(value) is dict:
            unknown = islice((name for name in value if not self._is_schema_field(name)), _MAX_UNKNOWN)
            names = [*filter(self._is_schema_field, value), *unknown]
            return {name: self._prune(value[name], depth - 1) for name in names}
        if depth and type(value) is list and value and type(value[0]) is dict:
            return [self._prune(item, depth - 1) for item in value]
        return value

    def _is_schema_field(self, name: str) -> bool:
        return name in self._fields or (name.startswith("i18n_") and len(name) == 7)

    def _add(self, index: int, errors: Sequence[ErrorDetails]) -> None:
        self._effort += 5 * len(errors)
        # One error for each place, the first of it: a union reports a place once for every member.
        by_place = list({error["loc"]: error for error in reversed(errors)}.values())[::-1]
        worded = [explain_error(error, tagged=self._tagged) for error in by_place[:MOST_LISTED]]
        most = _MOST_DETAILS if self._is_detailed else 1
        self.messages.append(_message(index, worded[:most], len(by_place)))
        is_time = any(
            error["loc"][-1] in _TIMES and type(error["input"]) in (int, float) for error in by_place
        )
        self._list(index, worded, len(by_place), _TIME_FORM if is_time else "")

    def _list(self, index: int, worded: Sequence[PathAndText], count: int, hint: str) -> None:
        listed = worded[: self._left]
        if listed:
            self._left -= len(listed)
            entry: dict[str, Any] = {"index": index}
            entry["messages"] = [upload_message(index, path, text) for path, text in listed]
            if len(listed) < count:
                entry["more"] = count - len(listed)
            if hint:
                entry["hint"] = hint
            self._details.append(entry)


def _message(index: int, worded: Sequence[PathAndText], count: int) -> str:
    """Join the first errors of a record to one message with the number of all errors; `count`: all of
    them.
    """
    path, text = worded[0]
    others = [f"{'.'.join(map(_step, more[:_MAX_STEPS]))}: {words}" for more, words in worded[1:]]
    return upload_message(index, path, " ".join([text, *others]), more=count - len(worded))


def upload_message(index: int, path: Iterable[str | int], text: str, *, more: int = 0) -> str:
    """Write one message in the upload grammar."""
    place = ".".join(["data", str(index), *map(_step, list(path)[:_MAX_STEPS])])
    return f"{place} is invalid. {text}" + (f" (and {more} more)" if more > 0 else "")


def _step(step: str | int) -> str:
    """Make a field name fit for a path: something, without blanks, control characters or tricks of direction."""
    text = str(step)[:_MAX_STEP]
    if not text.isprintable() or " " in text:
        text = "".join(c if c.isprintable() and not c.isspace() else "_" for c in text)
    return text or "_"


def explain_error(error: ErrorDetails, *, tagged: bool) -> PathAndText:
    """Turn one pydantic error of a list of records into the path within its record and a text."""
    kind = error["type"]
    value = error.get("input")
    ctx = error.get("ctx", {})
    path = _path(error["loc"], tagged=tagged and not kind.startswith("union_tag_"))
    if kind == FAULT:
        return [*path, *ctx["path"]], ctx["text"]
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        return [*path, "type"], _type_text(value, ctx)
    if not path and kind in _EXPECTED:
        return path, f"The record expected to be of type 'object', but '{json_type(value)}' is given."
    if tagged and kind == "extra_forbidden" and path[-1] in _RIGHT_NAMES:
        return path, f"The attribute is not allowed; use '{_RIGHT_NAMES[path[-1]]}'."
    return path, _text(kind, value, ctx)


def _path(loc: Sequence[str | int], *, tagged: bool) -> list[str | int]:
    """Drop the record's index and the names of union members from a location."""
    path = list(loc[2 if tagged else 1 :])
    if len(path) > 1 and path[1] in _TAGGED_FIELDS.get(str(path[0]), ()):
        del path[1]
    return path


def _type_text(record: Any, ctx: Mapping[str, Any]) -> str:
    """Return the message for an invalid `type` of an interaction."""
    kind = record.get("type") if isinstance(record, dict) else None
    if kind is None:
        return "The attribute is required."
    if not isinstance(kind, str):
        return wrong_type("string", kind)
    return f"The attribute should be one of {', '.join(sorted(ctx['expected_tags'].split(', ')))}."


def _text(kind: str, value: Any, ctx: Mapping[str, Any]) -> str:
    """Return the text of one error."""
    if kind in _EXPECTED:
        return wrong_type(_EXPECTED[kind], value)
    if kind in _BOUNDS:
        limit, words = _BOUNDS[kind]
        return f"The attribute should be {words} {int(ctx[limit])}."
    if kind == "missing":
        return "The attribute is required."
    if kind == "extra_forbidden":
        return "The attribute is not allowed."
    if kind == "literal_error":
        if not isinstance(value, str):
            return wrong_type("string", value)
        return f"The attribute should be one of {ctx['expected'].replace(' or ', ', ')}."
    if kind == "string_pattern_mismatch":
        return _pattern_text(ctx["pattern"], value)
    if kind in ("string_too_short", "too_short"):
        return f"The attribute should have at least {ctx['min_length']} {_units(kind)}."
    if kind in ("string_too_long", "too_long"):
        return f"The attribute should have at most {ctx['max_length']} {_units(kind)}."
    if kind == "finite_number":
        return "The attribute should be a finite number."
    if kind == "string_unicode":
        return "The attribute should be valid Unicode."
    return "The attribute is not valid."


def _units(kind: str) -> str:
    return "characters" if kind.startswith("string") else "entries"


def _pattern_text(pattern: str, value: Any) -> str:
    """Return the rule of a pattern that the value breaks."""
    if pattern in _FORMATS:
        return f"The attribute should match '{_FORMATS[pattern]}' format."
    if pattern.startswith("^i18n_"):
        return "The attribute is not allowed."
    if pattern in (RECORD_ID, PRODUCT_ID) and str(value).startswith("_"):
        return "The attribute should not start with '_'."
    if pattern == PRODUCT_ID and "," in str(value):
        return "The attribute should not contain ','."
    return "The attribute should not contain control characters."
