"""`fl`: which fields of a record a reply contains, compiled once for each request.

A name may contain `*` in any of its parts, where it matches any characters but dots: `custom_attributes.*`,
`*_price`, `i18n_*.title`. A dotted name selects from a nested object, or from each object of an array. Unknown names
select nothing, `product_id` is always included, and `attributes.` means `custom_attributes.`.

A list has budgets, so that the worst one costs about 30 ms. API replicas refuse lists beyond `MOST_NAMES`,
`MOST_LETTERS` and `MOST_WILDCARDS`; wildcards beyond the budget of preparation steps select nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cluster.errors import FilterSyntax
from cluster.query.language.automaton import Automaton, StepBudget
from cluster.query.language.field_values import canonical_field
from cluster.query.language.limits import MAX_FIELD, MAX_SEGMENTS
from cluster.query.language.patterns import compile_wildcard

MOST_NAMES = 1_000
MOST_LETTERS = 32_768
"Characters of all names."
MOST_WILDCARDS = 64
"Names with a `*` in them, except `*` itself."

_REMEMBERED = 4096


def exceeded_budget(fl: Sequence[str]) -> str:
    """Return which budget a list of names exceeds; empty when it exceeds none."""
    if len(fl) > MOST_NAMES:
        return f"at most {MOST_NAMES} fields can be asked for"
    letters = "".join(fl)
    if len(letters) > MOST_LETTERS:
        return f"the names of all fields together have at most {MOST_LETTERS} characters"
    if "*" in letters and sum("*" in name and name != "*" for name in fl) > MOST_WILDCARDS:
        return f"at most {MOST_WILDCARDS} fields may have a * in their names"
    return ""


class Projection:
    """Selects fields of records. Values are shared with the record, not copied.

    Cost:
        `[]` and `["*"]` 0.1 microseconds for each record; a few plain names 0.5; wildcards once for each name
    """

    __slots__ = ("_everything", "_plain", "_tree")

    def __init__(self, plain: tuple[str, ...], tree: _Branch | None, everything: bool) -> None:
        self._plain = plain
        self._tree = tree
        self._everything = everything

    @classmethod
    def of(cls, fl: Iterable[str]) -> Projection:
        """Compile a list of field names."""
        names: dict[str, None] = {}
        for name in fl:
            names[canonical_field(name) if name.startswith("attributes") else name] = None
        if "*" in names:
            return cls((), None, True)
        letters = "".join(names)
        # The usual case without a tree: one lookup for each name.
        if "." not in letters and "*" not in letters:
            names.pop("product_id", None)
            return cls(tuple(names), None, False)
        tree = _Branch(_Globs())
        for name in names:
            # Longer names select nothing.
            if len(name) <= MAX_FIELD and name.count(".") < MAX_SEGMENTS:
                tree.add(name)
        return cls((), tree, False)

    def __call__(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return the selected fields of one record as a new object, `product_id` first."""
        return self.select((record,))[0]

    def select(self, records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return the selected fields of each record as a new object, `product_id` first."""
        if self._everything:
            return [dict(record) for record in records]
        selected = []
        for record in records:
            product_id = record.get("product_id")
            picked = {} if product_id is None else {"product_id": product_id}
            if self._tree is not None:
                picked.update(self._tree.pick(record))
            # Names without a tree are plain.
            for name in self._plain:
                if name in record:
                    picked[name] = record[name]
            selected.append(picked)
        return selected


class _Globs:
    """The wildcards of one list, each prepared once, all within one budget."""

    def __init__(self) -> None:
        self._effort = StepBudget()
        self._made: dict[str, Automaton | None] = {}

    def of(self, glob: str) -> Automaton | None:
        """Return a prepared wildcard; None when it takes too many steps."""
        if glob not in self._made:
            try:
                # Only `*` has a meaning here, so the other special characters are escaped.
                self._made[glob] = compile_wildcard(
                    glob.replace("\\", "\\\\").replace("?", "\\?"), self._effort
                )
            except FilterSyntax:
                self._made[glob] = None
        return self._made[glob]


class _Branch:
    """The selection from one object: whole values by name, parts of values by name, and both by pattern."""

    def __init__(self, glob_cache: _Globs) -> None:
        self._glob_cache = glob_cache
        self._inner: dict[str, _Branch] = {}
        self._whole: set[str] = set()
        self._globs: list[tuple[Automaton | None, str]] = []
        self._decided: dict[str, _Selection] = {}

    def add(self, path: str) -> None:
        """Select the value at a path. A key that itself contains the dots of the path's rest counts too."""
        head, dot, rest = path.partition(".")
        if "*" in head:
            self._add_glob(head, rest)
        elif not dot:
            self._whole.add(head)
        else:
            self._inner.setdefault(head, _Branch(self._glob_cache)).add(rest)
            # A record may have the key `a.b` itself, beside the object `a` with `b`.
            if "*" not in path:
                self._whole.add(path)

    def _add_glob(self, head: str, rest: str) -> None:
        if head == "*":
            self._globs.append((None, rest))
        elif (automaton := self._glob_cache.of(head)) is not None:
            self._globs.append((automaton, rest))

    def pick(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Return the selected part of an object."""
        picked: dict[str, Any] = {}
        for key, value in record.items():
            # Decided once for each key: records of one app mostly have the same keys.
            selection = self._decided.get(key) or self._decide(key)
            if selection.whole:
                picked[key] = value
            elif selection.branch is not None:
                part = _part(selection.branch, value)
                if part is not None:
                    picked[key] = part
        return picked

    def _decide(self, key: str) -> _Selection:
        rests = [rest for glob, rest in self._globs if glob is None or glob.accepts(key)]
        branch = self._inner.get(key)
        if any(rests):
            joined = _Branch(self._glob_cache)
            if branch is not None:
                joined.merge(branch)
            for rest in rests:
                if rest:
                    joined.add(rest)
            branch = joined
        selection = _Selection(key in self._whole or "" in rests, branch)
        # Bounded: keys come from stored records, which may have any number of different ones.
        if len(self._decided) < _REMEMBERED:
            self._decided[key] = selection
        return selection

    def merge(self, other: _Branch) -> None:
        """Add the selection of another branch."""
        self._whole |= other._whole
        self._globs += other._globs
        for head, branch in other._inner.items():
            self._inner.setdefault(head, _Branch(self._glob_cache)).merge(branch)


class _Selection:
    __slots__ = ("branch", "whole")

    def __init__(self, whole: bool, branch: _Branch | None) -> None:
        self.whole = whole
        self.branch = branch


def _part(branch: _Branch, value: Any) -> Any:
    if isinstance(value, dict):
        return branch.pick(value) or None
    if isinstance(value, list):
        parts = [part for element in value if (part := _part(branch, element)) is not None]
        return parts or None
    return None
