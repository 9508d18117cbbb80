"""Parse wildcards and regular expressions of clients; `automaton` runs them, never a regex engine.

A pattern matches a whole value. Regular expressions have the syntax of Lucene:

    any character      .              (line ends too)
    sets               [abc] [^a-z]   \\d \\w \\s \\D \\W \\S  (ASCII), also inside [ ]
    repetition         ? * + {n} {n,} {n,m}
    choice, groups     a|b  (ab)  (?:ab)
    literal            \\x for any sign x; "..." for a stretch; \\n \\r \\t
    ^ and $            allowed at the very beginning and end, where they have no effect

Look-around, back references, lazy and possessive forms and named classes are refused. The further operators
of Lucene (~ & # @ < >) are ordinary characters.
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.query.language.automaton import (
    LAST_CHARACTER,
    Alternation,
    Automaton,
    CharSet,
    Pattern,
    Ranges,
    Repeat,
    Sequence,
    StepBudget,
    build_automaton,
)
from cluster.query.language.limits import MAX_GROUPS, MAX_POSITIONS
from cluster.query.language.syntax_errors import syntax_error

_ANY: Ranges = ((0, LAST_CHARACTER),)
_ANYTHING = Repeat(CharSet(_ANY), 0, None)
_DIGITS: Ranges = ((48, 57),)
_LETTERS: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
_BLANKS: Ranges = ((9, 13), (32, 32))
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}


def compile_wildcard(
    pattern: str, effort: StepBudget | None = None, *, fold: Callable[[str], str] | None = None
) -> Automaton:
    """Compile `gard*`: `*` is any run of characters, `?` exactly one, `\\` makes the next one ordinary.

    `fold` is applied to the literal parts.

    Errors:
        FilterSyntax: kind `pattern`, too long or too many states
    """
    parts: list[Pattern] = []
    stretch: list[str] = []

    def flush() -> None:
        text = "".join(stretch)
        # Folded as a whole: folding may turn one character into two, or depend on its neighbour.
        parts.extend(_one(char) for char in (fold(text) if fold else text))
        stretch.clear()

    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\" and at + 1 < len(pattern):
            at += 1
            stretch.append(pattern[at])
        elif char in "*?":
            flush()
            if char == "?":
                parts.append(CharSet(_ANY))
            # `**` is `*`: repeated ones would only cost states.
            elif not parts or parts[-1] is not _ANYTHING:
                parts.append(_ANYTHING)
        else:
            stretch.append(char)
        at += 1
    flush()
    return build_automaton(Sequence(tuple(parts)), effort or StepBudget())


def compile_regex(
    pattern: str, effort: StepBudget | None = None, *, fold: Callable[[str], str] | None = None
) -> Automaton:
    """Compile a regular expression; `fold` is applied to its literal characters.

    Errors:
        FilterSyntax: kind `pattern`; the position is within the pattern
    """
    return build_automaton(_Reader(pattern, fold or str).read(), effort or StepBudget())


def _one(char: str) -> CharSet:
    return CharSet(((ord(char), ord(char)),))


class _Group:
    """An open parenthesis: the alternatives before the last `|`, and the parts after it."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.options: list[Pattern] = []
        self.parts: list[Pattern] = []

    def closed(self) -> Pattern:
        options = [*self.options, Sequence(tuple(self.parts))]
        return options[0] if len(options) == 1 else Alternation(tuple(options))


class _Reader:
    """Parses one regular expression; open groups are in a list, not on the stack."""

    def __init__(self, pattern: str, fold: Callable[[str], str]) -> None:
        self._pattern = pattern
        self._fold = fold
        self._at = 0
        self._open = [_Group(0)]

    def read(self) -> Pattern:
        text = self._pattern
        # Before anything is parsed: the length bounds the work of everything below.
        if len(text) > MAX_POSITIONS * 2:
            raise syntax_error("pattern", 0, f"a pattern has at most {MAX_POSITIONS * 2} characters")
        self._at = 1 if text.startswith("^") else 0
        while self._at < len(text):
            self._step(text[self._at])
        if len(self._open) > 1:
            raise syntax_error("pattern", self._open[-1].position, "this ( is never closed")
        return self._open[0].closed()

    def _step(self, char: str) -> None:
        at = self._at
        group = self._open[-1]
        self._at += 1
        if char == "(":
            self._begin(at)
        elif char == ")":
            if len(self._open) == 1:
                raise syntax_error("pattern", at, "this ) closes nothing")
            self._open.pop()
            self._open[-1].parts.append(group.closed())
        elif char == "|":
            group.options.append(Sequence(tuple(group.parts)))
            group.parts = []
        elif char in "?*+{":
            self._repeat(char, at)
        elif char == "[":
            group.parts.append(CharSet(self._set(at)))
        elif char == '"':
            self._quoted(at)
        elif char == "\\":
            group.parts.append(CharSet(self._escape(at)))
        elif char == ".":
            group.parts.append(CharSet(_ANY))
        elif char == "$" and self._at == len(self._pattern) and len(self._open) == 1:
            # A pattern fits the whole value, so this sign changes nothing.
            pass
        elif char in "^$":
            raise syntax_error("pattern", at, f"{char} is only allowed at the outermost end; write \\{char}")
        else:
            group.parts.append(self._literal(char))

    def _begin(self, at: int) -> None:
        if self._pattern.startswith("?:", self._at):
            self._at += 2
        elif self._pattern.startswith("?", self._at):
            raise syntax_error("pattern", at, "groups that begin with (? are not supported")
        # Groups are a list here, but their patterns nest, and what walks a pattern later may recurse.
        if len(self._open) > MAX_GROUPS:
            raise syntax_error("pattern", at, f"groups stand at most {MAX_GROUPS} deep")
        self._open.append(_Group(at))

    def _repeat(self, char: str, at: int) -> None:
        parts = self._open[-1].parts
        if not parts:
            raise syntax_error("pattern", at, f"{char} has nothing before it to repeat")
        least, most = {"?": (0, 1), "*": (0, None), "+": (1, None)}.get(char) or self._counts(at)
        # Repetitions of repetitions would multiply the states beyond their bound.
        if self._pattern[self._at : self._at + 1] in ("?", "+", "*", "{"):
            raise syntax_error(
                "pattern", self._at, "one repetition sign is enough; lazy forms are not supported"
            )
        parts[-1] = Repeat(parts[-1], least, most)

    def _counts(self, at: int) -> tuple[int, int | None]:
        close = self._pattern.find("}", at)
        low, comma, high = self._pattern[at + 1 : max(close, at + 1)].partition(",")
        sizes = [part for part in (low, high) if part]
        if close < 0 or not low or not all(part.isdecimal() and part.isascii() for part in sizes):
            raise syntax_error("pattern", at, "a count is written {2}, {2,} or {2,5}; write \\{ for the sign")
        # The digits are counted first: `int` of a very long text takes quadratic time.
        if any(len(part) > 3 or int(part) > MAX_POSITIONS for part in sizes):
            raise syntax_error("pattern", at, f"counts go up to {MAX_POSITIONS}")
        self._at = close + 1
        least = int(low)
        most = least if not comma else (int(high) if high else None)
        if most is not None and most < least:
            raise syntax_error("pattern", at, "the second count is smaller than the first")
        return least, most

    def _quoted(self, at: int) -> None:
        close = self._pattern.find('"', at + 1)
        if close < 0:
            raise syntax_error("pattern", at, 'this quote is never closed; write \\" for the sign')
        self._open[-1].parts.append(self._literal(self._pattern[at + 1 : close]))
        self._at = close + 1

    def _literal(self, text: str) -> Pattern:
        return Sequence(tuple(map(_one, self._fold(text))))

    def _member(self, char: str) -> Ranges:
        folded = self._fold(char)
        # A set has single characters; one that folds to several stays as it is.
        return _one(folded if len(folded) == 1 else char).ranges

    def _escape(self, at: int) -> Ranges:
        """Parse the escape after the backslash at `at`."""
        if self._at >= len(self._pattern):
            raise syntax_error("pattern", at, "a backslash stands at the end")
        char = self._pattern[self._at]
        self._at += 1
        named = {"d": _DIGITS, "w": _LETTERS, "s": _BLANKS}.get(char.lower())
        if named is not None:
            return named if char.islower() else _without(named)
        if char in _CONTROLS:
            return _one(_CONTROLS[char]).ranges
        if char.isascii() and char.isalnum():
            raise syntax_error("pattern", at, f"\\{char} is not supported")
        return self._member(char)

    def _set(self, at: int) -> Ranges:
        text = self._pattern
        negated = text.startswith("^", self._at)
        self._at += negated
        ranges: list[tuple[int, int]] = []
        begin = self._at
        while self._at < len(text):
            # A ] right after the opening is an ordinary member, as in Lucene and POSIX.
            if text[self._at] == "]" and self._at > begin:
                self._at += 1
                merged = _merged(ranges)
                return _without(merged) if negated else merged
            low = self._set_member()
            if (
                len(low) == 1
                and text.startswith("-", self._at)
                and text[self._at + 1 : self._at + 2] not in ("]", "")
            ):
                self._at += 1
                high = self._set_member()
                if len(high) != 1 or high[0][0] != high[0][1] or low[0][0] != low[0][1] or high[0] < low[0]:
                    raise syntax_error("pattern", self._at - 1, "this is no range of characters")
                low = ((low[0][0], high[0][1]),)
            ranges.extend(low)
        raise syntax_error("pattern", at, "this [ is never closed")

    def _set_member(self) -> Ranges:
        at = self._at
        self._at += 1
        return self._escape(at) if self._pattern[at] == "\\" else self._member(self._pattern[at])


def _merged(ranges: list[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        # Adjacent ranges join too, so that the complement below has no empty ranges.
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def _without(ranges: Ranges) -> Ranges:
    rest: list[tuple[int, int]] = []
    begin = 0
    for low, high in ranges:
        if low > begin:
            rest.append((begin, low - 1))
        begin = high + 1
    if begin <= LAST_CHARACTER:
        rest.append((begin, LAST_CHARACTER))
    return tuple(rest)
