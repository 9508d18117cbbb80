"""What commands print: results on standard output, progress and errors on standard error.

Texts are never read as markup: paths and messages may hold brackets.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.text import Text

from cluster.errors import HouseError
from cluster.log import redact
from deployments.cli.responsive_table import ResponsiveTable
from jobs.command_line import PARTLY as PARTLY
from jobs.command_line import exit_code_of as exit_code_of
from jobs.command_line import print_json as print_json


def out() -> Console:
    """Where results go."""
    return Console(highlight=False, soft_wrap=True, markup=False)


def err() -> Console:
    """Where progress and errors go."""
    return Console(stderr=True, highlight=False, soft_wrap=True, markup=False)


def print_lines(*lines: str) -> None:
    """Print lines exactly as they are, so that they can be copied."""
    sys.stdout.write("\n".join(lines) + "\n")


def print_error(error: HouseError, *, as_json: bool) -> None:
    """Print an error: a sentence for people, an object for programs."""
    if as_json:
        print_json({"error": {"code": error.code, "message": error.message}})
    err().print(style_text("error:", "bold red", f" {redact(error.message)}"))


def print_ignored_settings(settings: Sequence[str]) -> None:
    """Say which settings of this shell the running installation does not go by."""
    if settings:
        err().print(
            f"{', '.join(settings)} of this shell is not what the installation runs with and counts for nothing; "
            "`kiosk down`, then `kiosk up` takes it over."
        )


def style_text(word: str, style: str, rest: str = "") -> Text:
    """Colour a word; the rest is shown exactly as it is, brackets included."""
    return Text.assemble((word, style), rest)


def quote_text(words: str) -> Text:
    """Show a stranger's words: no control characters, so that they can't steer the terminal."""
    return Text("".join(char if char.isprintable() else " " for char in words))


def build_table(
    *columns: str, title: str = "", ids: Collection[str] = (), droppable: Sequence[str] = ()
) -> ResponsiveTable:
    """Begin a plain table.

    Args:
        columns: the headings
        title: a line above, in bold
        ids: columns of ids; a narrow terminal shows their start, which commands accept in place of the whole
        droppable: columns that a narrow terminal leaves out, the first one first
    """
    return ResponsiveTable(columns, title, frozenset(ids), tuple(droppable))


@contextmanager
def exit_on_error(*, as_json: bool) -> Iterator[None]:
    """Print an error of ours and end the command with its code."""
    try:
        yield
    except HouseError as error:
        print_error(error, as_json=as_json)
        raise typer.Exit(exit_code_of(error)) from error
    except BrokenPipeError:
        # whoever read our output has enough; what Python would flush at its end goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(PARTLY) from None
