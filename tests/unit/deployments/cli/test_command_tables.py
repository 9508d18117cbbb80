"""Every table of the command line at 80 and 140 columns: no word is cut, and a wide terminal shows more."""

from __future__ import annotations

import ast
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from deployments import cli, operations
from deployments.cli.framework import screen
from deployments.cli.framework.screen import SHORT_ID, ResponsiveTable

FOLDERS = (Path(cli.__file__).parent, Path(operations.__file__).parent)
ID = "54bfbc836d5ab08e0fc2a1b2"
WORDS = "finished playground 2026-11-22"


def build_tables() -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...], tuple[str, ...]]]:
    """Read the columns, ids and droppable columns of every table from the code of the commands and of the results."""
    for path in sorted(path for folder in FOLDERS for path in folder.rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            kind = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if not isinstance(node, ast.Call) or kind not in ("screen.build_table", "ResultTable"):
                continue
            texts = node.args
            if kind == "ResultTable":
                assert isinstance(node.args[0], ast.Tuple), (
                    f"{path}: write the columns of a ResultTable in its call"
                )
                texts = node.args[0].elts
            columns = tuple(text.value for text in texts if isinstance(text, ast.Constant))
            more = {
                word.arg: tuple(ast.literal_eval(word.value))
                for word in node.keywords
                if word.arg in ("ids", "droppable")
            }
            yield f"{path.stem}:{node.lineno}", columns, more.get("ids", ()), more.get("droppable", ())


TABLES = list(build_tables())


def render(table: ResponsiveTable, width: int) -> str:
    """Print a table on a terminal of a width."""
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None, soft_wrap=True)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_tables_of_the_commands_are_listed() -> None:
    assert len(TABLES) > 30


@pytest.mark.parametrize(("name", "columns", "ids", "droppable"), TABLES, ids=[case[0] for case in TABLES])
def test_no_word_is_cut_at_80_and_at_140_columns(
    name: str, columns: tuple[str, ...], ids: tuple[str, ...], droppable: tuple[str, ...]
) -> None:
    table = screen.build_table(*columns, ids=ids, droppable=droppable)
    # tables of seven and more columns without ids hold numbers
    words = WORDS if ids or len(columns) < 7 else "12,345.6 95.2%"
    table.add_row(*(ID if column in ids else words for column in columns))
    wide, narrow = render(table, 140), render(table, 80)
    for shown in (wide, narrow):
        assert set(shown.split()) <= {*" ".join(columns).split(), *words.split(), ID, ID[:SHORT_ID]}
    assert set(narrow.split()) - {ID[:SHORT_ID]} <= set(wide.split()), (
        "a wide terminal shows at least as much"
    )
    assert max(map(len, map(str.rstrip, wide.splitlines()))) <= 140
    assert max(map(len, map(str.rstrip, narrow.splitlines()))) <= 80
