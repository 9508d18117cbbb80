"""Commands that are generated from operations: arguments, options, `--json`, and the lines of the result."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer

from cluster.errors import Invalid, Malformed
from cluster.records.validation.json_limits import load_json
from deployments.cli.frame import screen
from deployments.cli.frame.installation import Installation
from deployments.operations.frame.administration import parse_arguments
from deployments.operations.frame.argument_fields import ArgumentField, list_fields
from deployments.operations.frame.operation import Operation, list_operations, result_to_json

_TYPES = {"integer": int, "number": float, "share": float, "flag": bool}
"Kinds that the command line reads itself; the others are texts."
_WRITTEN = {
    "moment": "2026-12-01T08:00:00+01:00, without an offset in UTC",
    "weights": "blue=2",
    "pair": "0,0.5",
}
"How a text of a kind is written."
_METAVARS = {"app_id": "APP", "engine_id": "ENGINE"}


@dataclass(frozen=True, slots=True)
class OperationCommand:
    """How the command line names an operation and its arguments, where not by their own names."""

    word: str
    operation: str
    epilog: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    "Argument -> name of its option, as `--until`; in capitals, it is an argument of the command; empty: neither."
    old_names: Mapping[str, str] = field(default_factory=dict)
    "Key of an earlier release -> key of the result that has its value; `--json` prints both."
    defaults: Mapping[str, Any] = field(default_factory=dict)
    "Required argument of the operation -> what the command takes where it is absent."
    for_all: str = ""
    "The operation for all apps, performed where no app is named."


def add_commands(app: typer.Typer, commands: Iterable[OperationCommand], *modules: ModuleType) -> None:
    """Add commands to a group, generated from the operations of modules."""
    by_name = {operation.name: operation for operation in list_operations(*modules)}
    for command in commands:
        call = build_command(command, by_name[command.operation])
        app.command(command.word, epilog=command.epilog)(call)


def build_command(command: OperationCommand, operation: Operation[Any, Any]) -> Callable[..., None]:
    """Return the function of a command: it parses, performs the operation, and prints the result."""
    fields = {
        part.name: replace(part, default=command.defaults[part.name], is_required=False)
        if part.name in command.defaults
        else part
        for part in list_fields(operation.arguments)
        if command.options.get(part.name) != ""
    }
    places = [name for name in operation.path_fields if not command.options.get(name, "").startswith("--")]
    places += [name for name, option in command.options.items() if option.isupper() and name not in places]
    ordered = [
        *(fields[name] for name in places),
        *(part for name, part in fields.items() if name not in places),
    ]
    names = {part.name: _option_name(part, command, part.name in places) for part in ordered}

    def perform(as_json: bool, **entered: Any) -> None:
        given = {
            name: _parse(fields[name], names[name], value)
            for name, value in entered.items()
            if value is not None and value not in ("", [""])
        }
        performed = operation.name
        if command.for_all and "app_id" not in given:
            performed = command.for_all
        else:
            arguments = parse_arguments(operation, given)
            if operation.check is not None:
                operation.check(arguments)
        print_result(Installation().perform(performed, **given), as_json, command, given)

    parameters = [_parameter(part, names[part.name], is_optional=bool(command.for_all)) for part in ordered]
    as_json = inspect.Parameter(
        "as_json",
        inspect.Parameter.KEYWORD_ONLY,
        default=False,
        annotation=Annotated[bool, typer.Option("--json", help="One JSON object.")],
    )
    perform.__name__ = command.word
    perform.__doc__ = operation.summary
    perform.__annotations__ = {}
    perform.__dict__["__signature__"] = inspect.Signature([*parameters, as_json])
    perform.__dict__["operations"] = {operation.name, command.for_all} - {""}
    return perform


def print_result(
    result: Any,
    as_json: bool,
    command: OperationCommand | None = None,
    given: Mapping[str, Any] | None = None,
) -> None:
    """Print the result of an operation: its lines for people, or one JSON object."""
    if not as_json:
        screen.print_result(result.to_lines())
        return
    document = result_to_json(result)
    app_id = (given or {}).get("app_id")
    old = {} if command is None else {name: document[key] for name, key in command.old_names.items()}
    screen.print_json({**({"app_id": app_id} if app_id else {}), **document, **old})


def read_json_items(file: str, noun: str) -> list[Any]:
    """Return the items of a JSON file, `-` for standard input: one, an array, or an object with `noun`.

    Errors:
        Invalid: the file can't be read, is not JSON, or has no items
    """
    try:
        items = load_json(_read_bytes(file), refuse_duplicates=True)
    except Malformed as error:
        reason = error.facts["detail"][0]["msg"]
        raise Invalid(f"{file} is not what JSON should be: {reason}") from error
    if isinstance(items, dict):
        items = items[noun] if noun in items and "name" not in items else [items]
    if not isinstance(items, list) or not items:
        raise Invalid(f'there are no {noun} in the file: one, an array of them, or {{"{noun}": [...]}}')
    return items


def _read_bytes(file: str) -> bytes:
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise Invalid(f"{file} can't be read: {error.strerror}") from error


def _option_name(part: ArgumentField, command: OperationCommand, is_place: bool) -> str:
    name = command.options.get(part.name, "")
    if is_place:
        return name or _METAVARS.get(part.name, part.name.upper())
    return name or f"--{part.name.replace('_', '-')}"


def _parse(part: ArgumentField, name: str, value: Any) -> Any:
    if part.kind == "items":
        return read_json_items(value, part.name)
    if part.kind == "words" and name.isupper():
        return value
    if part.kind in ("moment", "pair", "words", "weights"):
        return part.parse(value if isinstance(value, list) else [value], name)
    return value


def _parameter(part: ArgumentField, name: str, *, is_optional: bool) -> inspect.Parameter:
    """Return an argument or an option of a command as Typer reads it from a signature."""
    kind: Any = _TYPES.get(part.kind, str)
    if part.kind in ("words", "weights"):
        kind = list[str]
    default = part.default if part.kind not in ("words", "weights") or part.default else None
    is_required = part.is_required and not (is_optional and part.name == "app_id")
    info: Any
    if name.isupper():
        text = "JSON file; - for standard input." if part.kind == "items" else part.description
        info = typer.Argument(metavar=name, help=text)
    else:
        bounds: dict[str, Any] = (
            {"min": part.minimum, "max": part.maximum} if part.kind in ("integer", "number") else {}
        )
        switch = f"{name}/--no-{name[2:]}" if part.kind == "flag" and default is not False else name
        written = f" Written as {_WRITTEN[part.kind]}." if part.kind in _WRITTEN else ""
        info = typer.Option(switch, help=part.description + written, **bounds)
    annotation = kind if is_required or default is not None else kind | None
    return inspect.Parameter(
        part.name,
        inspect.Parameter.KEYWORD_ONLY,
        annotation=Annotated[annotation, info],
        default=inspect.Parameter.empty if is_required else default,
    )
