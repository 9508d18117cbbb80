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
from deployments.cli.framework import screen
from deployments.cli.framework.installation import Installation
from deployments.operations.framework.argument_fields import ArgumentField, list_fields
from deployments.operations.framework.operation import Operation, list_operations, result_to_json
from deployments.operations.framework.operation_executor import parse_arguments

_TYPES = {"integer": int, "number": float, "share": float, "flag": bool}
"Kinds that the command line reads itself; the others are texts."
_WRITTEN = {
    "moment": "2026-12-01T08:00:00+01:00, without an offset in UTC",
    "weights": "blue=2",
    "pairs": "NAME=VALUE",
    "range": "MIN:MAX, as 1:4, or one number",
    "pair": "0,0.5",
}
"How a text of a kind is written."
_REPEATED = ("words", "weights", "pairs")
"Kinds whose option or argument can be repeated."
_WAIT = (
    inspect.Parameter(
        "wait",
        inspect.Parameter.KEYWORD_ONLY,
        default=True,
        annotation=Annotated[bool, typer.Option(help="Come back when it is done, not when it is asked for.")],
    ),
)
_AS_JSON = inspect.Parameter(
    "as_json",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, typer.Option("--json", help="One JSON object.")],
)
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
    app_from: str = ""
    """The operation whose result names the app where the command line names none. Is the app an argument before
    another one, a single word is the other one."""
    shows: str = ""
    "The operation that is performed where the command line names nothing to change."
    view: Callable[[Any], Any] | None = None
    "Returns what the command prints: of the result of `shows` if there is one, else of the operation."
    wait: Callable[[Installation, str, Mapping[str, Any]], Any] | None = None
    "Performs the operation with arguments and waits until it is brought about; `--no-wait` only performs it."
    ranges: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    "Name of an option that is written MIN:MAX -> the arguments that it gives."


def add_commands(
    app: typer.Typer, commands: Iterable[OperationCommand], *modules: ModuleType, names_app: bool = True
) -> None:
    """Add commands to a group, generated from the operations of modules.

    With `names_app`, their JSON begins with the app that was given.
    """
    by_name = {operation.name: operation for operation in list_operations(*modules)}
    for command in commands:
        call = build_command(command, by_name, names_app=names_app)
        app.command(command.word, epilog=command.epilog)(call)


def build_command(
    command: OperationCommand, operations: Mapping[str, Operation[Any, Any]], *, names_app: bool
) -> Callable[..., None]:
    """Return the function of a command: it parses, performs one of the operations, and prints the result."""
    operation = operations[command.operation]
    fields = _list_command_fields(command, operation)
    places = [
        name
        for name in operation.path_fields
        if name in fields and not command.options.get(name, "").startswith("--")
    ]
    places += [name for name, option in command.options.items() if option.isupper() and name not in places]
    fields = {name: fields[name] for name in (*places, *fields)}
    names = {name: _option_name(part, command, name in places) for name, part in fields.items()}
    word = places[1] if command.app_from and places[:1] == ["app_id"] else ""
    if word:
        names |= {"app_id": f"[APP] {names[word]}", word: ""}
        fields["app_id"] = replace(fields["app_id"], description="The app may be left out.")
        fields[word] = replace(fields[word], is_required=False)

    def perform(as_json: bool, wait: bool = False, **entered: Any) -> None:
        if word and not entered[word]:
            entered[word] = entered.pop("app_id")
        given = _read_arguments(command, fields, names, entered)
        installation = Installation()
        performed = operation.name
        view: Callable[[Any], Any] = (not command.shows and command.view) or _as_it_is
        if "app_id" not in given and command.app_from:
            finding = {word: given[word]} if word else {}
            given["app_id"] = result_to_json(installation.perform(command.app_from, operations, **finding))[
                "app_id"
            ]
        if "app_id" not in given and command.for_all:
            performed = command.for_all
        elif command.shows and given.keys() <= set(operation.path_fields):
            performed = command.shows
            view = command.view or _as_it_is
        else:
            # Before the stores are opened, so that wrong arguments are named also where nothing runs.
            arguments = parse_arguments(operation, given)
            if operation.check is not None:
                operation.check(arguments)
        if command.wait is not None and wait:
            result = command.wait(installation, performed, given)
        else:
            result = installation.perform(performed, operations, **given)
        print_result(view(result), as_json, command, given if names_app else {})

    is_optional = bool(command.for_all or command.app_from) and not word
    parameters = [
        _parameter(part, names[name], name in places, is_optional=is_optional)
        for name, part in fields.items()
    ]
    parameters += _WAIT if command.wait is not None else ()
    _describe(perform, command, operation.summary, parameters)
    return perform


def _describe(
    perform: Callable[..., None],
    command: OperationCommand,
    summary: str,
    parameters: list[inspect.Parameter],
) -> None:
    """Set the attributes of a function from which Typer reads the command."""
    perform.__name__ = command.word
    perform.__doc__ = summary + (" Without a change, show what holds." if command.shows else "")
    perform.__annotations__ = {}
    perform.__dict__["__signature__"] = inspect.Signature([*parameters, _AS_JSON])
    names = {command.operation, command.for_all, command.app_from, command.shows}
    perform.__dict__["operations"] = names - {""}


def _read_arguments(
    command: OperationCommand,
    fields: Mapping[str, ArgumentField],
    names: Mapping[str, str],
    entered: Mapping[str, Any],
) -> dict[str, Any]:
    given = {
        name: _parse(fields[name], names[name], value)
        for name, value in entered.items()
        if value is not None and value not in ("", [""]) and (value or not _is_stdin(names[name]))
    }
    for name, bounds in command.ranges.items():
        given.update(zip(bounds, given.pop(name, ()), strict=False))
    return given


def _list_command_fields(
    command: OperationCommand, operation: Operation[Any, Any]
) -> dict[str, ArgumentField]:
    fields = {
        part.name: replace(part, default=command.defaults[part.name], is_required=False)
        if part.name in command.defaults
        else part
        for part in list_fields(operation.arguments)
        if command.options.get(part.name) != ""
    }
    for name, (low, high) in command.ranges.items():
        about = fields.pop(low).description + " " + fields.pop(high).description
        fields[name] = ArgumentField(name, "range", name, about, None, is_required=False)
    return fields


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


def _as_it_is(result: Any) -> Any:
    return result


def _is_stdin(name: str) -> bool:
    return name.endswith("-stdin")


def _parse(part: ArgumentField, name: str, value: Any) -> Any:
    if _is_stdin(name):
        return _read_line(part.name)
    if part.kind == "items":
        return read_json_items(value, part.name)
    if part.kind == "words" and name.isupper():
        return value
    if part.kind in ("moment", "pair", "pairs", "range", "words", "weights"):
        return part.parse(value if isinstance(value, list) else [value], name)
    return value


def _read_line(noun: str) -> str:
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise Invalid(f"no {noun} came on standard input")
    return line


def _parameter(part: ArgumentField, name: str, is_argument: bool, *, is_optional: bool) -> inspect.Parameter:
    """Return an argument or an option of a command as Typer reads it from a signature."""
    kind: Any = _TYPES.get(part.kind, str)
    if part.kind in _REPEATED:
        kind = list[str]
    default = part.default if part.kind not in _REPEATED or part.default else None
    is_required = part.is_required and not (is_optional and part.name == "app_id")
    info: Any
    if is_argument:
        text = "JSON file; - for standard input." if part.kind == "items" else part.description
        info = typer.Argument(metavar=name, help=text, show_default=bool(default))
    elif _is_stdin(name):
        kind = bool
        default = False
        info = typer.Option(name, help=f"Read the {part.name} from the first line of standard input.")
    else:
        bounds: dict[str, Any] = (
            {"min": part.minimum, "max": part.maximum} if part.kind in ("integer", "number") else {}
        )
        switch = f"{name}/--no-{name[2:]}" if part.kind == "flag" and default is not False else name
        written = f" Written as {_WRITTEN[part.kind]}." if part.kind in _WRITTEN else ""
        info = typer.Option(*switch.split(), help=part.description + written, **bounds)
    annotation = kind if is_required or default is not None else kind | None
    return inspect.Parameter(
        part.name,
        inspect.Parameter.KEYWORD_ONLY,
        annotation=Annotated[annotation, info],
        default=inspect.Parameter.empty if is_required else default,
    )
