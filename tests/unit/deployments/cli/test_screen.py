"""Tables at 80 columns, wider, and in a pipe."""

from __future__ import annotations

import io

from rich.console import Console

from deployments.cli.framework.screen import ResponsiveTable

RUNS = ("ordered", "app", "engine", "run", "status", "stage", "attempt", "by", "snapshot")
ROW = (
    "2026-11-22T09:04:26", "development", "default", "run-d0d5000119", "finished", "",
    "1", "kiosk train", "54bfbc836d5ab08e",
)  # fmt: skip


def _print(table: ResponsiveTable, width: int, *, is_terminal: bool = True) -> list[str]:
    console = Console(
        file=io.StringIO(), width=width, force_terminal=is_terminal, color_system=None, soft_wrap=True
    )
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def _runs() -> ResponsiveTable:
    table = ResponsiveTable(RUNS, "", frozenset({"run", "snapshot"}), ("attempt", "by", "engine"))
    table.add_row(*ROW)
    return table


def test_a_pipe_gets_every_column_and_cuts_no_id() -> None:
    lines = _print(_runs(), 80, is_terminal=False)
    assert lines[0].split() == list(RUNS)
    assert {word for line in lines[1:] for word in line.split()} == {
        word for cell in ROW for word in cell.split()
    }
    assert lines[1].split()[-1] == ROW[-1], "words wrap only where lines are too long"


def test_a_pipe_gets_narrow_lines() -> None:
    table = ResponsiveTable(("check", "", ""))
    advice = "prove_writers: anybody writes events as any user; " * 11
    table.add_row("app shop", "warning", advice)
    lines = _print(table, 500, is_terminal=False)
    assert len(advice) > 500
    assert max(map(len, lines)) <= 100
    assert " ".join(" ".join(line.split()) for line in lines[1:]).count("anybody writes") >= 10
    short = ResponsiveTable(("app", "keys"))
    short.add_row("shop", "two keys of one app")
    assert len(_print(short, 20, is_terminal=False)) == 2, "what fits stays on one line"


def test_a_wide_terminal_shows_every_column() -> None:
    assert all(cell in _print(_runs(), 160)[1] for cell in ROW)


def test_80_columns_cut_no_word() -> None:
    lines = _print(_runs(), 80)
    assert len(lines) == 2
    assert all(len(line) <= 80 for line in lines)
    assert lines[1].split() == [
        "2026-11-22T09:04:26",
        "development",
        "run-d0d50001",
        "finished",
        "54bfbc836d5a",
    ]
    assert "attempt" not in lines[0]


def test_words_wrap_between_blanks_only() -> None:
    table = ResponsiveTable(("check", "", ""))
    advice = "the disk of the service is 27 % full so that writes are refused until there is room again"
    table.add_row("disk", "warning", advice)
    lines = _print(table, 40)
    assert len(lines) > 2
    assert {word for line in lines[1:] for word in line.split()} == {"disk", "warning", *advice.split()}


def test_brackets_are_text() -> None:
    table = ResponsiveTable(("app",), title="[bold]files")
    table.add_row("[red]x[/red]")
    assert _print(table, 80) == ["[bold]files", "app", "[red]x[/red]"]
