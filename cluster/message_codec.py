"""Messages between processes as named fields with a version, so that two releases can run side by side.

    {"version": 1, "type": "UserQuery", "fields": {"kind": "search", "filter": {"type": "Term", "fields": ...}, ...}}

A reader ignores fields that it does not know, and gives missing ones their defaults. No class path travels, so a
class may be renamed or moved while its name in the table stays. The bytes are a pickle of builtins: reading accepts
no other class than arrays and scalars of numpy, so a message can't run code.

    version      of the envelope; a reader refuses newer ones
    type         name in the reader's table; an unknown one is refused
"""

from __future__ import annotations

import dataclasses
import io
import pickle
from collections.abc import Callable, Iterable, Mapping
from itertools import compress
from operator import attrgetter, is_not
from typing import Any, cast, get_args, get_type_hints

from pydantic import BaseModel, ValidationError

from cluster.errors import Fault, NewerRelease

VERSION = 1
"Version of the envelope. Added fields do not change it."

_NUMPY = frozenset(
    {
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy.core.multiarray", "scalar"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "scalar"),
        ("numpy._core.numeric", "_frombuffer"),
        ("numpy.core.numeric", "_frombuffer"),
    }
)


class MessageCodec:
    """Encodes and decodes the messages of one table, `name on the wire -> class`.

    Classes are frozen dataclasses or pydantic models. Every message class inside another one is in the table.

    Errors:
        Fault: a field holds a message class that is not in the table, or a mapping of messages
    """

    def __init__(self, table: Mapping[str, type]) -> None:
        names = {kind: name for name, kind in table.items()}
        self._forms = {name: _Form(name, kind, names) for name, kind in table.items()}
        self._form_of = {form.kind: form for form in self._forms.values()}

    def encode(self, message: Any) -> bytes:
        """Return a message as bytes.

        Cost: 5 microseconds for a query
        """
        form = self._form_of[type(message)]
        envelope = {"version": VERSION, "type": form.name, "fields": self._fields(form, message)}
        return pickle.dumps(envelope, 5)

    def decode(self, payload: bytes) -> Any:
        """Return the message of `encode`, also of another release's.

        Errors:
            NewerRelease: only a newer release can read it
        """
        try:
            envelope = _PlainUnpickler(io.BytesIO(payload)).load()
            version = envelope["version"]
            if version > VERSION:
                raise NewerRelease(f"a message has version {version}, this release reads up to {VERSION}")
            return self._message(envelope)
        except NewerRelease:
            raise
        except Exception as error:
            raise NewerRelease(f"a message can't be read by this release ({type(error).__name__})") from error

    def to_plain(self, message: Any) -> dict[str, Any]:
        """Return a message as builtins with its name and fields, for a log in JSON."""
        form = self._form_of[type(message)]
        return {"type": form.name, "fields": self._fields(form, message)}

    def build_comparison(self, default: Any, left_out: Iterable[str] = ()) -> Callable[[Any], dict[str, Any]]:
        """Return a function that lists the fields of a message, as builtins, that differ from those of another one.

        `left_out` are fields that are not compared.

        Cost: a microsecond for a query that sets few fields
        """
        names = tuple(name for name in self._form_of[type(default)].order if name not in set(left_out))
        values_of = attrgetter(*names)
        defaults = values_of(default)

        def list_changes(message: Any) -> dict[str, Any]:
            values = values_of(message)
            # most values are the default itself, and identity costs less than equality
            others = compress(zip(names, values, defaults, strict=True), map(is_not, values, defaults))
            return {name: self._plain(value) for name, value, default in others if value != default}

        return list_changes

    def from_plain(self, written: Mapping[str, Any]) -> Any:
        """Return the message of `to_plain`, also after a way through JSON, which has lists only.

        Errors:
            NewerRelease: only a newer release can read it
        """
        try:
            return self._message(_tuples(written))
        except NewerRelease:
            raise
        except Exception as error:
            raise NewerRelease(f"a message can't be read by this release ({type(error).__name__})") from error

    def _fields(self, form: _Form, message: Any) -> dict[str, Any]:
        fields = form.read(message)
        for name in form.nested:
            value = fields[name]
            if value:
                fields[name] = self._plain(value)
        return fields

    def _plain(self, value: Any) -> Any:
        form = self._form_of.get(type(value))
        if form is not None:
            return {"type": form.name, "fields": self._fields(form, value)}
        if isinstance(value, tuple | list):
            return type(value)([self._plain(part) for part in value])
        return value

    def _message(self, written: Mapping[str, Any]) -> Any:
        form = self._forms.get(written["type"])
        if form is None:
            raise NewerRelease(f"a message of type {written['type']} is unknown to this release")
        fields = written["fields"]
        # A newer release may send fields that this one does not know.
        if not form.field_names.issuperset(fields):
            fields = {name: value for name, value in fields.items() if name in form.field_names}
        for name in form.nested:
            value = fields.get(name)
            if value:
                fields[name] = self._read(value)
        try:
            return form.build(fields)
        except (TypeError, ValidationError):
            raise NewerRelease(f"a message of type {form.name} lacks fields or has other ones") from None

    def _read(self, value: Any) -> Any:
        if type(value) is dict:
            return self._message(value)
        if isinstance(value, tuple | list):
            return type(value)([self._read(part) for part in value])
        return value


def _tuples(value: Any) -> Any:
    """Return tuples in place of lists in fields of messages. Other mappings are values of callers, and stay."""
    if isinstance(value, list):
        return tuple([_tuples(part) for part in value])
    if isinstance(value, dict) and value.keys() == {"type", "fields"}:
        fields = {name: _tuples(part) for name, part in value["fields"].items()}
        return {"type": value["type"], "fields": fields}
    return value


class _Form:
    """How the messages of one class are taken apart and built."""

    def __init__(self, name: str, kind: type, names: Mapping[type, str]) -> None:
        self.name = name
        self.kind = kind
        hints = get_type_hints(kind)
        if issubclass(kind, BaseModel):
            order = list(kind.model_fields)
            self.build: Callable[[dict[str, Any]], Any] = kind.model_validate
        else:
            order = [field.name for field in dataclasses.fields(cast(Any, kind))]
            self.build = lambda fields: kind(**fields)
        self.order = tuple(order)
        self.field_names = frozenset(order)
        self.nested = tuple(
            field_name
            for field_name in order
            if _holds_messages(hints[field_name], names, f"{name}.{field_name}")
        )
        self.read = _reader(order)


def _reader(order: list[str]) -> Callable[[Any], dict[str, Any]]:
    if len(order) > 1:
        values = attrgetter(*order)
        return lambda message: dict(zip(order, values(message), strict=True))
    return lambda message: {name: getattr(message, name) for name in order}


def _holds_messages(hint: Any, names: Mapping[type, str], place: str) -> bool:
    """Return whether values of a type can contain messages of the table."""
    if isinstance(hint, type) and (dataclasses.is_dataclass(hint) or issubclass(hint, BaseModel)):
        if hint not in names:
            raise Fault(f"{place} holds {hint.__name__}, which has no name in the table of messages")
        return True
    parts = [_holds_messages(part, names, place) for part in get_args(hint)]  # checks every part
    has_messages = True in parts
    if has_messages and getattr(hint, "__origin__", None) in (dict, Mapping):
        raise Fault(f"{place} is a mapping of messages; use a tuple")
    return has_messages


class _PlainUnpickler(pickle.Unpickler):
    """Reads builtins and numpy's values only."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _NUMPY:
            raise pickle.UnpicklingError(f"messages hold no {module}.{name}")
        return super().find_class(module, name)
