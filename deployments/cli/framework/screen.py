"""What commands print: results on standard output, progress and errors on standard error.

Texts are never read as markup: paths and messages may hold brackets.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from cluster.errors import KioskError
from cluster.log import redact
from deployments.operations.framework.result_table import ResultLines
from jobs.command_line import PARTLY as PARTLY
from jobs.command_line import exit_code_of as exit_code_of
from jobs.command_line import print_json as print_json


def out() -> Console:
    """Where results go."""
    return Console(highlight=False, soft_wrap=True, markup=False)


def err() -> Console:
    """Where progress and errors go."""
    return Console(stderr=True, highlight=False, soft_wrap=True, markup=False)


@contextmanager
def show_progress(what: str) -> Iterator[Callable[[str, int], None]]:
    """Show the current stage on a terminal and how much of it is done; elsewhere nothing."""
    if not sys.stderr.isatty():
        yield lambda stage, done: None
        return
    with err().status(what) as line:
        yield lambda stage, done: line.update(f"{what}: {done:,} {stage}")


def print_lines(*lines: str) -> None:
    """Print lines exactly as they are, so that they can be copied."""
    sys.stdout.write("\n".join(lines) + "\n")


def print_result(lines: ResultLines) -> None:
    """Print the lines and tables of a result."""
    for line in lines:
        if isinstance(line, str):
            out().print(quote_text(line))
        elif line.rows or not line.empty:
            table = build_table(*line.columns, title=line.title, ids=line.ids, droppable=line.droppable)
            for row in line.rows:
                table.add_row(*map(quote_text, row))
            out().print(table)
        else:
            out().print(line.empty)


def print_error(error: KioskError, *, as_json: bool) -> None:
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
    return Text(remove_controls(words))


def remove_controls(text: str) -> str:
    """Return a line of text whose control characters are blanks."""
    return "".join(char if char.isprintable() else " " for char in text)


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
    except KioskError as error:
        print_error(error, as_json=as_json)
        raise typer.Exit(exit_code_of(error)) from error
    except BrokenPipeError:
        # the reader closed the pipe; send what Python flushes at its end to nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(PARTLY) from None


PIPE_WIDTH = 100
"Columns of a line in a pipe or a file, unless the longest words need more."
SHORT_ID = 12
"How many characters of an id a narrow terminal shows."
_GAP = 2
"Blanks between two columns."


class ResponsiveTable:
    """A table without lines whose form depends on the width it is printed at.

    The widest form that fits is printed. The steps from wide to narrow: every cell on one line; cells wrap between
    words; columns of `droppable` are left out one by one; ids show their first characters. A table that is still
    too wide is printed anyway, and the terminal wraps its lines. A pipe or a file gets every column and every id
    whole; cells wrap between words where lines would be longer than `PIPE_WIDTH`.
    """

    def __init__(
        self,
        columns: Sequence[str],
        title: str = "",
        ids: frozenset[str] = frozenset(),
        droppable: Sequence[str] = (),
    ) -> None:
        self._columns = tuple(columns)
        self._title = title
        self._ids = ids
        self._droppable = tuple(droppable)
        self._rows: list[tuple[Text, ...]] = []

    def add_row(self, *cells: str | Text) -> None:
        """Add a row; missing cells at its end are empty."""
        row = [cell if isinstance(cell, Text) else Text(cell) for cell in cells]
        row += [Text("")] * (len(self._columns) - len(row))
        self._rows.append(tuple(row))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the widest form that fits; in a pipe, nothing is left out."""
        if not console.is_terminal:
            places: Sequence[int] = range(len(self._columns))
            table, width = self._draw(places, frozenset(), None)
            if width > PIPE_WIDTH:
                table, width = self._draw(places, frozenset(), PIPE_WIDTH)
            yield from console.render(table, options.update(width=max(width, cell_len(self._title), 1)))
            return
        for places, short in self._forms():
            table, width = self._draw(places, short, options.max_width)
            if width <= options.max_width:
                break
        yield from console.render(table, options.update(width=max(width, options.max_width)))

    def _forms(self) -> Iterator[tuple[Sequence[int], frozenset[str]]]:
        """List which columns are shown and which of them shortened, from wide to narrow."""
        shown = list(range(len(self._columns)))
        yield shown, frozenset()
        for name in self._droppable:
            shown = [place for place in shown if self._columns[place] != name]
            yield shown, frozenset()
        yield shown, self._ids

    def _draw(self, places: Sequence[int], short: frozenset[str], room: int | None) -> tuple[Table, int]:
        """Draw some columns in a room, or on one line a row; return the table and its width without cut words."""
        table = Table(
            title=Text(self._title) if self._title else None,
            box=None,
            pad_edge=False,
            title_justify="left",
            title_style="bold",
        )
        least = []
        natural = []
        for place in places:
            name = self._columns[place]
            texts = [name, *(self._cell(row[place], name in short).plain for row in self._rows)]
            natural.append(_longest(line for text in texts for line in text.splitlines()))
            least.append(_longest(word for text in texts for word in text.split()))
        gaps = _GAP * max(len(places) - 1, 0)
        widths = natural if room is None else _share_room(least, natural, room - gaps)
        for place, width in zip(places, widths, strict=True):
            table.add_column(Text(self._columns[place]), width=width, no_wrap=room is None, overflow="fold")
        for row in self._rows:
            table.add_row(*(self._cell(row[place], self._columns[place] in short) for place in places))
        return table, sum(widths) + gaps

    @staticmethod
    def _cell(text: Text, is_short: bool) -> Text:
        if not is_short or len(text.plain) <= SHORT_ID:
            return text
        return Text(text.plain[:SHORT_ID], style=text.style)


def _longest(parts: Iterable[str]) -> int:
    return max(map(cell_len, parts), default=0)


def _share_room(least: Sequence[int], natural: Sequence[int], room: int) -> list[int]:
    """Widen columns from their longest word towards their longest line, by what each still needs."""
    spare = max(room - sum(least), 0)
    needed = sum(natural) - sum(least)
    if spare >= needed:
        return list(natural)
    # Rounded down, so that the sum stays within the room.
    return [low + (high - low) * spare // needed for low, high in zip(least, natural, strict=True)]
