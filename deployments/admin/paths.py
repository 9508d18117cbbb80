"""Finds the operation of a path and a method."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from deployments.operations.frame.operation import Operation

PREFIX = "/v1/admin"
_LONGEST_VALUE = 512
_ANY = "{}"

AnyOperation = Operation[Any, Any]


@dataclass(frozen=True, slots=True)
class AdminPath:
    """A path with its operations by method, and the values of its placeholders from left to right."""

    operations: dict[str, AnyOperation]
    values: tuple[str, ...]

    @property
    def allowed(self) -> tuple[str, ...]:
        """Return the methods that the path answers."""
        head = ("HEAD",) if "GET" in self.operations else ()
        return (*sorted(self.operations), *head, "OPTIONS")


class AdminPaths:
    """All paths of the administration."""

    def __init__(self, operations: Iterable[AnyOperation]) -> None:
        self._by_length: dict[int, list[tuple[tuple[str, ...], dict[str, AnyOperation]]]] = {}
        by_shape: dict[tuple[str, ...], dict[str, AnyOperation]] = {}
        for operation in operations:
            shape = tuple(
                _ANY if part.startswith("{") else part for part in operation.path.strip("/").split("/")
            )
            by_shape.setdefault(shape, {})[operation.method] = operation
        # Literal parts first: `/audit/verify` before `/audit/{row_id}`.
        for shape in sorted(by_shape, key=lambda shape: tuple(part == _ANY for part in shape)):
            self._by_length.setdefault(len(shape), []).append((shape, by_shape[shape]))

    def find(self, raw_path: bytes) -> AdminPath | None:
        """Return the match of a path below `PREFIX` as the client sent it; a slash in a value is `%2F`."""
        sent = raw_path.decode("latin-1").removeprefix(PREFIX).strip("/").split("/")
        for shape, operations in self._by_length.get(len(sent), ()):
            values = _match(shape, sent)
            if values is not None:
                return AdminPath(operations, values)
        return None


def _match(shape: tuple[str, ...], sent: list[str]) -> tuple[str, ...] | None:
    values = []
    for part, given in zip(shape, sent, strict=True):
        if part == _ANY:
            value = unquote(given, errors="replace")
            if not value or len(value) > _LONGEST_VALUE or not value.isprintable():
                return None
            values.append(value)
        elif part != given:
            return None
    return tuple(values)
