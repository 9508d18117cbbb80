"""Pattern trees to deterministic automata, which read a text once from left to right.

A text of n characters costs n steps for any pattern, without backtracking. Only the construction can explode, so it
has budgets: positions, states and steps (`cluster.query.language.limits`).

The construction is Glushkov's: every character class of the pattern is a position, a set of positions is a state, and
sets are Python integers. Characters are first grouped into the few classes that the pattern distinguishes.

Source:
    Glushkov 1961; Berry and Sethi 1986 (from regular expressions to deterministic automata)
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cluster.errors import FilterSyntax
from cluster.query.language.limits import MAX_EFFORT, MAX_POSITIONS, MAX_STATES
from cluster.query.language.syntax_errors import syntax_error

LAST_CHARACTER = 0x10FFFF

Ranges = tuple[tuple[int, int], ...]
"Characters as inclusive, sorted, disjoint ranges of code points."


@dataclass(frozen=True, slots=True)
class CharSet:
    """One character of a set."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Sequence:
    """Parts in sequence; no parts is the empty text."""

    parts: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    """One of several alternatives."""

    options: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`least` to `most` repetitions; None is unbounded."""

    part: Pattern
    least: int
    most: int | None


Pattern: TypeAlias = CharSet | Sequence | Alternation | Repeat


class StepBudget:
    """Remaining steps for building automata; shared by all patterns of one filter."""

    def __init__(self, steps: int = MAX_EFFORT) -> None:
        self.left = steps

    def spend(self, steps: int) -> None:
        """Use up steps.

        Errors:
            FilterSyntax: none are left
        """
        self.left -= steps
        if self.left < 0:
            raise _too_complex("it takes too many steps to prepare")


class Automaton:
    """Decides whether a whole text matches; state 0 is the start.

    Cost:
        one table look-up per character
    """

    def __init__(
        self, starts: list[int], classes: list[int], table: list[list[int]], accepting: list[bool]
    ) -> None:
        self._starts = starts
        self._classes = classes
        self._table = table
        self._accepting = accepting
        self._kind_of_char: dict[str, int] = {}
        # A state that leads only to itself decides at once, however long the text goes on.
        self._settled = [all(after == state for after in row) for state, row in enumerate(table)]

    @property
    def states(self) -> int:
        return len(self._table)

    def accepts(self, text: str) -> bool:
        """Return whether the whole text matches."""
        state = 0
        kind_of_char = self._kind_of_char
        table = self._table
        settled = self._settled
        for char in text:
            kind = kind_of_char.get(char)
            if kind is None:
                kind = self._kind(char)
            state = table[state][kind]
            if settled[state]:
                break
        return self._accepting[state]

    def _kind(self, char: str) -> int:
        kind = self._classes[bisect_right(self._starts, ord(char)) - 1]
        # A bound: texts of all alphabets have up to a million different characters.
        if len(self._kind_of_char) < 1024:
            self._kind_of_char[char] = kind
        return kind

    def kinds(self, characters: NDArray[np.uint32]) -> NDArray[np.int32]:
        """Return the class of each code point, which indexes the columns of `table`.

        Shapes:
            characters: uint32 [n]
            returns: int32 [n]
        """
        class_indexes = (
            np.searchsorted(np.asarray(self._starts, dtype=np.int64), characters, side="right") - 1
        )
        return np.asarray(self._classes, dtype=np.int32)[class_indexes]

    def table(self) -> NDArray[np.int32]:
        """Return the next state by state and class.

        Shapes:
            int32 [states, kinds]
        """
        return np.asarray(self._table, dtype=np.int32)

    def final_states(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return whether each state accepts, and whether no further character changes that.

        Shapes:
            bool [states] each
        """
        return np.asarray(self._accepting), np.asarray(self._settled)


def build_automaton(pattern: Pattern, effort: StepBudget) -> Automaton:
    """Return the automaton of a pattern.

    Errors:
        FilterSyntax: kind `pattern`; more than 512 positions or states, or no steps left
    """
    form = _Form(effort)
    nullable, first, last = form.add(pattern)
    # A position behind all others stands for the end of the text.
    end = 1 << len(form.sets)
    form.connect(last, end)
    start = first | (end if nullable else 0)
    starts, classes, members = _classify(form.sets, effort)
    table: list[list[int]] = []
    states = {start: 0}
    waiting = [start]
    for state in waiting:
        row = []
        for member in members:
            after = form.after(state & member)
            if after not in states:
                # Checked before the state is added: `.*a.{12}` needs 2^13 of them.
                if len(states) == MAX_STATES:
                    raise _too_complex(f"it needs more than {MAX_STATES} states")
                states[after] = len(states)
                waiting.append(after)
            row.append(states[after])
        effort.spend(len(row))
        table.append(row)
    return Automaton(starts, classes, table, [bool(state & end) for state in waiting])


def _too_complex(why: str) -> FilterSyntax:
    return syntax_error("pattern", 0, f"this pattern is too complex: {why}")


class _Form:
    """Positions of a pattern and which may follow which, as bit sets."""

    def __init__(self, effort: StepBudget) -> None:
        self.sets: list[Ranges] = []
        self._follow: list[int] = []
        self._effort = effort

    def connect(self, positions: int, following: int) -> None:
        while positions:
            # The lowest set bit; the loop takes one position after the other.
            low = positions & -positions
            self._follow[low.bit_length() - 1] |= following
            positions ^= low
            self._effort.spend(1)

    def after(self, positions: int) -> int:
        following = 0
        while positions:
            low = positions & -positions
            following |= self._follow[low.bit_length() - 1]
            positions ^= low
            self._effort.spend(1)
        return following

    def add(self, pattern: Pattern) -> tuple[bool, int, int]:
        """Add a part; return whether it may be empty, and its first and last positions."""
        self._effort.spend(1)
        if isinstance(pattern, CharSet):
            if len(self.sets) == MAX_POSITIONS:
                raise _too_complex(f"it is longer than {MAX_POSITIONS} characters when written out")
            bit = 1 << len(self.sets)
            self.sets.append(pattern.ranges)
            self._follow.append(0)
            return False, bit, bit
        if isinstance(pattern, Sequence):
            return self._sequence(list(pattern.parts))
        if isinstance(pattern, Alternation):
            added = [self.add(option) for option in pattern.options]
            return any(part[0] for part in added), _union(added, 1), _union(added, 2)
        return self._repeat(pattern)

    def _repeat(self, pattern: Repeat) -> tuple[bool, int, int]:
        if not _has_positions(pattern.part):
            return True, 0, 0
        if pattern.most is None:
            # x{2,} is x x+: the last repetition is the one that may go on.
            least = [pattern.part] * max(pattern.least - 1, 0)
            return self._sequence([*least, _Star(pattern.part, pattern.least == 0)])
        optional = [_Maybe(pattern.part)] * (pattern.most - pattern.least)
        return self._sequence([*([pattern.part] * pattern.least), *optional])

    def _sequence(self, parts: list[Pattern | _Star | _Maybe]) -> tuple[bool, int, int]:
        nullable = True
        first = 0
        last = 0
        for part in parts:
            inner = self.add(part) if not isinstance(part, (_Star, _Maybe)) else self.add(part.part)
            part_nullable, part_first, part_last = inner
            if isinstance(part, _Star):
                # After its last position a repeated part may begin again.
                self.connect(part_last, part_first)
                part_nullable = part_nullable or part.may_be_absent
            elif isinstance(part, _Maybe):
                part_nullable = True
            self.connect(last, part_first)
            # The part can begin the sequence only if all parts before it may be empty.
            first |= part_first if nullable else 0
            last = part_last | (last if part_nullable else 0)
            nullable = nullable and part_nullable
        return nullable, first, last


@dataclass(frozen=True, slots=True)
class _Star:
    part: Pattern
    may_be_absent: bool


@dataclass(frozen=True, slots=True)
class _Maybe:
    part: Pattern


def _union(added: list[tuple[bool, int, int]], which: int) -> int:
    union = 0
    for part in added:
        union |= part[which]
    return union


def _has_positions(pattern: Pattern) -> bool:
    if isinstance(pattern, CharSet):
        return True
    if isinstance(pattern, Repeat):
        return pattern.most != 0 and _has_positions(pattern.part)
    parts = pattern.parts if isinstance(pattern, Sequence) else pattern.options
    return any(_has_positions(part) for part in parts)


def _classify(sets: list[Ranges], effort: StepBudget) -> tuple[list[int], list[int], list[int]]:
    """Split the code points where any set begins or ends, and join the pieces that no set distinguishes.

    Returns the first code point of each piece, the class of each piece, and for each class its positions.
    """
    edges = {0}
    where: dict[Ranges, int] = {}
    for position, ranges in enumerate(sets):
        # Equal sets are handled once: `.{500}` has one set and 500 positions.
        where[ranges] = where.get(ranges, 0) | 1 << position
    for ranges in where:
        for low, high in ranges:
            edges.add(low)
            edges.add(high + 1)
    edges.discard(LAST_CHARACTER + 1)
    starts = sorted(edges)
    takes = [0] * len(starts)
    for ranges, positions in where.items():
        for low, high in ranges:
            begin = bisect_right(starts, low) - 1
            stop = bisect_right(starts, high)
            effort.spend(stop - begin)
            for piece in range(begin, stop):
                takes[piece] |= positions
    numbers: dict[int, int] = {}
    classes = [numbers.setdefault(positions, len(numbers)) for positions in takes]
    return starts, classes, list(numbers)
