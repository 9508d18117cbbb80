"""The distinct texts of a column, each with a code, and conditions evaluated once for each distinct text.

Texts are only ever added. Derived values (numbers, moments, order, characters for automata) are kept and
extended for new texts.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from cluster.query.columnar.arrays import GrowingArray
from cluster.query.language.automaton import Automaton
from cluster.query.language.scalars import Bounds, Measure, moment_of, number_of

Chosen = NDArray[np.bool_]
"One boolean for each distinct text, and a last one, false, for `no text` (code -1)."

_BLOCK = 8_192
# Characters between two looks whether all texts are decided.
_LOOK_EVERY = 4
# New texts that are matched one by one before the last block is built again.
_FEW = 256
# Entries of a table that is expanded to the characters of a block, which spares one look-up per character.
_WIDEST = 1 << 18


class TextDictionary:
    """Texts by code and codes by text."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._codes = _Codes(self._texts)
        self._numbers = _Derived(number_of)
        self._moments = _Derived(moment_of)
        self._order: list[int] = []
        self._sorted: list[str] = []
        self._blocks: list[_Block] = []
        self._rest = _Block([])

    def __len__(self) -> int:
        return len(self._texts)

    @property
    def nbytes(self) -> int:
        """Return the estimated memory in bytes."""
        return 200 * len(self._texts) + sum(block.nbytes for block in self._blocks)

    def add(self, text: str) -> int:
        """Return the code of a text; a new text gets the next one."""
        return self._codes[text]

    def add_all(self, texts: Iterable[str]) -> list[int]:
        return list(map(self._codes.__getitem__, texts))

    def find(self, text: str) -> int | None:
        """Return the code of a text, None for an unknown one."""
        return self._codes.get(text)

    def text(self, code: int) -> str:
        return self._texts[code]

    def moments(self) -> NDArray[np.float64]:
        """Return every text as a date or time: milliseconds since 1970, NaN for other texts.

        Shapes:
            float64 [texts]
        """
        return self._moments.of(self._texts)

    def read(self, *, moments: bool) -> None:
        """Parse new texts as numbers or moments, and build blocks for patterns, before the first query."""
        (self._moments if moments else self._numbers).of(self._texts)
        if len(self._texts) - len(self._blocks) * _BLOCK >= _BLOCK:
            self._build_blocks()

    def between(self, bounds: Bounds) -> Chosen | None:
        """Return the texts within the bounds; None when no text has that measure.

        Shapes:
            Chosen [texts + 1]
        """
        chosen = np.zeros(len(self._texts) + 1, dtype=np.bool_)
        if bounds.measure is Measure.TEXT:
            self._choose_texts(bounds, chosen)
            return chosen
        derived = self._numbers if bounds.measure is Measure.NUMBER else self._moments
        read = derived.of(self._texts)
        # No text of this column is a number or a moment: the range concerns numbers alone.
        if not derived.any:
            return None
        chosen[:-1] = mark_in_range(read, bounds)
        return chosen

    def like(self, pattern: Automaton) -> Chosen:
        """Return the texts that match a pattern as a whole.

        Shapes:
            Chosen [texts + 1]

        Cost:
            one table look-up per character; 100,000 texts of 20 characters 2 to 4 ms
        """
        # The last entry is for the code -1 of rows without a text; it is never chosen.
        chosen = np.zeros(len(self._texts) + 1, dtype=np.bool_)
        self._build_blocks()
        at = 0
        for block in (*self._blocks, self._rest):
            chosen[at : at + len(block)] = block.run(pattern)
            at += len(block)
        chosen[at:-1] = [pattern.accepts(text) for text in self._texts[at:]]
        return chosen

    def _build_blocks(self) -> None:
        """Build full blocks once, and rebuild one for the rest when it lags behind."""
        full = len(self._blocks) * _BLOCK
        while full + _BLOCK <= len(self._texts):
            self._blocks.append(_Block(self._texts[full : full + _BLOCK]))
            self._rest = _Block([])
            full += _BLOCK
        if len(self._texts) - full - len(self._rest) > _FEW:
            self._rest = _Block(self._texts[full:])

    def _choose_texts(self, bounds: Bounds, chosen: Chosen) -> None:
        sorted_count = len(self._sorted)
        # Sorted anew when an eighth is new; until then the new ones are compared one by one.
        if len(self._texts) > sorted_count + sorted_count // 8 + _FEW:
            self._order = sorted(range(len(self._texts)), key=self._texts.__getitem__)
            self._sorted = [self._texts[code] for code in self._order]
            sorted_count = len(self._sorted)
        begin = 0
        stop = sorted_count
        if isinstance(bounds.low, str):
            begin = (bisect_left if bounds.include_low else bisect_right)(self._sorted, bounds.low)
        if isinstance(bounds.high, str):
            stop = (bisect_right if bounds.include_high else bisect_left)(self._sorted, bounds.high)
        chosen[self._order[begin:stop]] = True
        chosen[sorted_count:-1] = [bounds.hold(text) for text in self._texts[sorted_count:]]


def mark_in_range(values: NDArray[np.float64], bounds: Bounds) -> NDArray[np.bool_]:
    """Return which values are within a range of numbers or moments; NaN never is.

    Shapes:
        values: float64 [n]
        returns: bool [n]
    """
    inside = np.isfinite(values) if bounds.low is None else _above(values, bounds)
    if bounds.high is not None:
        high = np.float64(bounds.high)
        inside &= values <= high if bounds.include_high else values < high
    return inside


def _above(values: NDArray[np.float64], bounds: Bounds) -> NDArray[np.bool_]:
    low = np.float64(bounds.low if bounds.low is not None else -np.inf)
    above: NDArray[np.bool_] = values >= low if bounds.include_low else values > low
    return above


class _Codes(dict[str, int]):
    """Codes of texts; a new text gets the next one."""

    def __init__(self, texts: list[str]) -> None:
        super().__init__()
        self._texts = texts

    def __missing__(self, text: str) -> int:
        code = self[text] = len(self._texts)
        self._texts.append(text)
        return code


class _Derived:
    """The numeric value of each text; NaN where it has none."""

    def __init__(self, read: Callable[[str], float | None]) -> None:
        self._read = read
        self._values = GrowingArray(np.float64, np.nan)
        self.any = False

    def of(self, texts: list[str]) -> NDArray[np.float64]:
        """Return the values of all texts; parse only new texts."""
        count = len(self._values)
        if len(texts) > count:
            read = [self._read(text) for text in texts[count:]]
            new = np.array([np.nan if value is None else value for value in read], dtype=np.float64)
            self._values.write(count, new)
            self.any = self.any or bool(np.isfinite(new).any())
        return self._values.filled


class _Block:
    """Texts in columns by character position, so that one step of an automaton is one array operation.

    The longest text is first, so the texts that go on are always a prefix. Characters are numbered within
    the block; in a small block the automaton's table is expanded over those numbers.
    """

    def __init__(self, texts: list[str]) -> None:
        lengths = np.array([len(text) for text in texts], dtype=np.int64)
        self._order = np.argsort(-lengths, kind="stable")
        # UTF-32: every character has four bytes, so positions are plain arithmetic.
        joined = "".join(texts[row] for row in self._order)
        # Texts may hold lone surrogates, which the strict encoder refuses.
        points = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        self._alphabet, numbers = _numbered(points)
        self._ended = len(self._alphabet)
        lengths = lengths[self._order]
        size = np.uint8 if self._ended < 256 else (np.uint16 if self._ended < 65_536 else np.uint32)
        starts = np.cumsum(lengths) - lengths
        self._columns: list[NDArray[np.unsignedinteger]] = []
        for at in range(int(lengths[0]) if len(lengths) else 0):
            # Lengths descend; negated they ascend, and the texts longer than `at` come first.
            longer = int(np.searchsorted(-lengths, -at, side="left"))
            self._columns.append(numbers[starts[:longer] + at].astype(size))

    def __len__(self) -> int:
        return len(self._order)

    @property
    def nbytes(self) -> int:
        return self._order.nbytes + sum(column.nbytes for column in self._columns)

    def run(self, pattern: Automaton) -> NDArray[np.bool_]:
        """Return which texts of the block match."""
        accepting, settled = pattern.final_states()
        kinds = pattern.kinds(self._alphabet)
        table = pattern.table()
        direct = len(table) * len(kinds) <= _WIDEST
        if direct:
            table = table[:, kinds]
        width = table.shape[1]
        # States are stored as offsets of their rows, so a step is one addition and one look-up.
        steps = (table * np.int32(width)).ravel()
        state = np.zeros(len(self._order), dtype=np.int32)
        for at, column in enumerate(self._columns):
            alive = state[: len(column)]
            # NumPy buffers `out` in the mode `raise`; the other modes write in place.
            np.take(steps, alive + (column if direct else kinds[column]), out=alive, mode="wrap")
            if at % _LOOK_EVERY == 0 and settled[alive // width].all():
                break
        verdict = np.empty(len(self._order), dtype=np.bool_)
        verdict[self._order] = accepting[state // width]
        return verdict


def _numbered(points: NDArray[np.uint32]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the distinct code points in order, and each point's position among them."""
    if not len(points):
        return points, points
    # Marking in place of sorting: code points are below 1,114,112.
    present = np.zeros(int(points.max()) + 1, dtype=np.bool_)
    present[points] = True
    alphabet = np.flatnonzero(present).astype(np.uint32)
    numbers = np.zeros(len(present), dtype=np.uint32)
    numbers[alphabet] = np.arange(len(alphabet), dtype=np.uint32)
    return alphabet, numbers[points]
