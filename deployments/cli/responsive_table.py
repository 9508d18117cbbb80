"""Tables that fit their terminal: words wrap, no word is cut, and a pipe gets every row on one line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
            table, width = self._draw(range(len(self._columns)), frozenset(), wraps=False)
            yield from console.render(table, options.update(width=max(width, cell_len(self._title), 1)))
            return
        for places, short in self._forms():
            table, width = self._draw(places, short, wraps=True)
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

    def _draw(self, places: Sequence[int], short: frozenset[str], *, wraps: bool) -> tuple[Table, int]:
        """Draw some columns; return the table and the least width at which no word is cut."""
        table = Table(
            title=Text(self._title) if self._title else None,
            box=None,
            pad_edge=False,
            title_justify="left",
            title_style="bold",
        )
        least = _GAP * max(len(places) - 1, 0)
        for place in places:
            name = self._columns[place]
            texts = [name, *(self._cell(row[place], name in short).plain for row in self._rows)]
            unbroken = [part for text in texts for part in (text.split() if wraps else text.splitlines())]
            width = max(map(cell_len, unbroken), default=0)
            least += width
            table.add_column(Text(name), min_width=width, no_wrap=not wraps, overflow="fold")
        for row in self._rows:
            table.add_row(*(self._cell(row[place], self._columns[place] in short) for place in places))
        return table, least

    @staticmethod
    def _cell(text: Text, is_short: bool) -> Text:
        if not is_short or len(text.plain) <= SHORT_ID:
            return text
        return Text(text.plain[:SHORT_ID], style=text.style)
