"""Tables that fit their terminal: words wrap, no word is cut, and a pipe gets every row on one line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

SHORT_ID = 12
"How many characters of an id a narrow terminal shows."
_GAP = 2
"Blanks between two columns."


class ResponsiveTable:
    """A table without lines whose form depends on the width it is printed at.

    The widest form that fits is printed. The steps from wide to narrow: every cell on one line; cells wrap between
    words; columns of `droppable` are left out one by one; ids show their first characters. A table that is still
    too wide is printed anyway, and the terminal wraps its lines.
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
        """Draw the widest form that fits; where nobody looks at it, everything on one line a row."""
        if not console.is_terminal:
            table, width = self._draw(range(len(self._columns)), frozenset(), None)
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
        least, natural = [], []
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
    spare, needed = max(room - sum(least), 0), sum(natural) - sum(least)
    if spare >= needed:
        return list(natural)
    return [low + (high - low) * spare // needed for low, high in zip(least, natural, strict=True)]
