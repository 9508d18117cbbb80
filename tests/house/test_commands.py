"""Every command performs an operation of the administration, or the guide tells why it can't."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from typing import Any

import typer

from deployments.cli.command_line import command_line
from deployments.operations.all_operations import OPERATIONS
from tests.house.tree import ROOT

GUIDE = ROOT / "docs" / "guides" / "administration.md"
_ROW = re.compile(r"^\| `([a-z -]+)` \| (.+?) \| (.+?) \|$", re.MULTILINE)


def commands() -> dict[str, Any]:
    """Return every command of `kiosk` with its function."""

    def walk(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        for word, child in getattr(command, "commands", {}).items():
            yield from walk(child, (*words, word.split(" ")[0]))
        if not getattr(command, "commands", {}):
            yield " ".join(words), inspect.unwrap(command.callback)

    return {
        name.removesuffix(" URI"): call for name, call in walk(typer.main.get_command(command_line()), ())
    }


def guide_rows() -> dict[str, tuple[str, str]]:
    """Return the rows of the guide's table: command or group -> operations in its place, reason."""
    part = GUIDE.read_text("utf-8").partition("## What only a command does")[2].partition("\n## ")[0]
    return {name: (instead, why) for name, instead, why in _ROW.findall(part)}


def operations_of(call: Any) -> set[str]:
    """Return the operations that a function names, itself or in functions of its module that it uses."""
    if hasattr(call, "operations"):  # a generated command
        return set(call.operations)
    module = sys.modules[call.__module__]
    tree = ast.parse(inspect.getsource(module))
    functions = {
        node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    seen, waiting, operations = set[str](), [call.__name__], set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in functions:
            continue
        seen.add(name)
        for node in ast.walk(functions[name]):
            if isinstance(node, ast.Name):
                waiting.append(node.id)
            elif isinstance(node, ast.Constant) and node.value in OPERATIONS:
                operations.add(node.value)
            elif isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
                start = str(node.values[0].value)
                operations |= {
                    operation
                    for operation in OPERATIONS
                    if start.endswith(".") and operation.startswith(start)
                }
    return operations


def test_a_command_performs_an_operation_or_the_guide_tells_why_not() -> None:
    rows = guide_rows()
    silent = {
        name
        for name, call in commands().items()
        if not operations_of(call) and name not in rows and name.split(" ")[0] not in rows
    }
    assert sorted(silent) == [], f"perform an operation, or add a row to {GUIDE.name}"


def test_the_table_of_the_guide_is_true() -> None:
    by_name, rows = commands(), guide_rows()
    assert rows
    for name, (instead, why) in rows.items():
        matching = [command for command in by_name if command == name or command.startswith(f"{name} ")]
        assert matching, f"there is no command {name}"
        for command in matching:
            assert not operations_of(by_name[command]), f"{command} performs an operation"
        assert set(re.findall(r"`([a-z_]+\.[a-z_]+)`", instead)) <= set(OPERATIONS), name
        assert why.endswith("."), name
