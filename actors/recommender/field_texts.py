"""The texts of one product field as completions: an index of what was there when it was built, and what came since.

    base     thousands of texts, built in one go in another thread, then swapped in
    fresh    rows that changed since: a small index of their own, made again when it is asked for

A text is admitted when a product that has it is; a product that changed no longer counts for its old text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from actors.search.completions.build import build
from actors.search.completions.lookup import Found, Index
from actors.vectors.types import Floats, Mask, Rows
from cluster.query.values import leaves_of

LONGEST = 300
"Characters of a value that are completed; longer ones are texts, nobody types them."
MOST_VALUES = 50
"Values of one product that are completed."
_LITTLE = 1_000
_SHARE = 0.05
_SETTLE_MS = 250

Popularity = Callable[[], Floats]
"Gives the popularity by row, as it is now."


@dataclass(frozen=True, slots=True)
class Built:
    """An index and whose texts they are.

    Shapes:
        starts: int64 [n + 1]; rows: int64 [m], ascending per text
    """

    index: Index
    texts: list[str]
    starts: Rows
    rows: Rows

    @classmethod
    def of(cls, values: Mapping[int, tuple[str, ...]], popularity: Floats) -> Built:
        """Index the values of rows; a text is as popular as the most popular product that has it.

        Cost:
            100,000 titles: 1.5 s
        """
        numbers: dict[str, int] = {}
        pairs = [
            (numbers.setdefault(text, len(numbers)), row) for row, texts in values.items() for text in texts
        ]
        together = np.array(sorted(pairs), np.int64).reshape(-1, 2)
        starts = np.searchsorted(together[:, 0], np.arange(len(numbers) + 1)).astype(np.int64)
        known = np.zeros(max(int(together[:, 1].max(initial=-1)) + 1, len(popularity)))
        known[: len(popularity)] = popularity
        worth = np.zeros(len(numbers))
        np.maximum.at(worth, together[:, 0], known[together[:, 1]])
        return cls(build(list(numbers), worth), list(numbers), starts, together[:, 1])

    def allowed(self, rows: Mask) -> Mask:
        """Mark the texts of marked rows.

        Shapes:
            rows: bool [r], at least as long as the largest row; returns: bool [n]
        """
        if not len(self.texts):
            return np.zeros(0, np.bool_)
        found: Mask = np.logical_or.reduceat(rows[self.rows], self.starts[:-1])
        return found

    def rows_of(self, text: int) -> Rows:
        """Give the rows that have a text."""
        found: Rows = self.rows[self.starts[text] : self.starts[text + 1]]
        return found


@dataclass(frozen=True, slots=True)
class Hit:
    """One text that could be meant."""

    text: str
    rows: tuple[int, ...]
    "Admitted rows that have it."
    edits: int
    cost: float
    place: tuple[int, int]
    "Where in the folded text the likeness begins and ends; (-1, 0) when only its words are in it, in another order."


class FieldTexts:
    """Completions of one field."""

    def __init__(self, name: str, language: str = "", *, only: bool = False) -> None:
        self.name = name
        self.language = language
        self._only = only
        self._values: dict[int, tuple[str, ...]] = {}
        self._base = Built.of({}, np.zeros(0))
        self._fresh: Built | None = None
        self._fresh_at_ms = 0
        self._fresh_stale = True
        self._changed: dict[int, None] = {}
        "Rows that are not as the base has them."
        self._again: dict[int, None] = {}
        "Those of them that changed since the base being built was begun."
        self._alive: tuple[int, Mask] | None = None

    def __len__(self) -> int:
        """Count rows with a value."""
        return len(self._values)

    def note(self, row: int, product: Mapping[str, Any] | None) -> None:
        """Learn that a product changed, or is gone."""
        values = () if product is None else _values(product, self.name, self.language, self._only)
        if values == self._values.get(row, ()):
            return
        if values:
            self._values[row] = values
        else:
            self._values.pop(row, None)
        self._changed[row] = self._again[row] = None
        self._fresh_stale = True

    @property
    def wants_rebuild(self) -> bool:
        """Has so much changed that the base should be built again?"""
        return len(self._changed) > max(_LITTLE, _SHARE * len(self._values))

    def rebuilding(self, popularity: Floats) -> Callable[[], Built]:
        """Give the work of building the base again, for another thread; what changes meanwhile stays fresh."""
        values = dict(self._values)
        self._again = {}
        return lambda: Built.of(values, popularity)

    def adopt(self, built: Built) -> None:
        """Let a built base serve."""
        self._base, self._alive = built, None
        self._changed, self._again = self._again, {}
        self._fresh_stale = True

    def look_up(
        self, typed: str, wanted: int, rows: Mask, version: int, now_ms: int, popularity: Popularity
    ) -> list[Hit]:
        """Find texts of admitted rows, best first.

        Shapes:
            rows: bool [r], admitted rows; `version` names the mask: equal versions are equal masks, -1 is never equal
        """
        if not self._changed:
            allowed = self._allowed(rows, version)
            return list(_hits(self._base, self._base.index.look_up(typed, wanted, allowed), rows))
        kept = rows.copy()
        kept[[row for row in self._changed if row < len(kept)]] = False
        found = _hits(self._base, self._base.index.look_up(typed, wanted, self._base.allowed(kept)), kept)
        fresh = self._fresh_index(now_ms, popularity)
        new = _hits(fresh, fresh.index.look_up(typed, wanted, fresh.allowed(rows)), rows)
        # a change since the small index was made counts as soon as it is made again
        new = (hit for hit in new if hit.text in self._values.get(hit.rows[0], ()))
        best: dict[str, Hit] = {}
        for hit in sorted((*found, *new), key=lambda hit: hit.cost):
            best.setdefault(hit.text, hit)
        return list(best.values())[:wanted]

    def _allowed(self, rows: Mask, version: int) -> Mask:
        alive = self._alive
        if version >= 0 and alive is not None and alive[0] == version:
            return alive[1]
        allowed = self._base.allowed(rows)
        if version >= 0:
            self._alive = (version, allowed)
        return allowed

    def _fresh_index(self, now_ms: int, popularity: Popularity) -> Built:
        """Index what changed; while much changes, not more often than a few times a second."""
        soon = len(self._changed) > _LITTLE and now_ms - self._fresh_at_ms < _SETTLE_MS
        if self._fresh is None or (self._fresh_stale and not soon):
            values = {row: self._values[row] for row in self._changed if row in self._values}
            self._fresh, self._fresh_at_ms = Built.of(values, popularity()), now_ms
            self._fresh_stale = False
        return self._fresh


def _values(product: Mapping[str, Any], field: str, language: str, only: bool) -> tuple[str, ...]:
    """Read the texts of a field, each once: the translation if there is one, else the field itself.

    With `only` products that say they are in another language have none.
    """
    leaves = leaves_of(product, f"i18n_{language}.{field}") if language else []
    if not leaves and not (only and product.get("language") not in (None, language)):
        leaves = leaves_of(product, field)
    found: dict[str, None] = {}
    for value in leaves:
        if isinstance(value, str) and 0 < len(value) <= LONGEST:
            found[value] = None
            if len(found) == MOST_VALUES:
                break
    return tuple(found)


def _hits(built: Built, found: Found, rows: Mask) -> Iterator[Hit]:
    columns = (found.texts, found.edits, found.cost, found.place, found.cut)
    for text, edits, cost, place, cut in zip(*(column.tolist() for column in columns), strict=True):
        having = built.rows_of(text)
        kept = tuple(having[rows[having]].tolist())
        if kept:
            begin = place - int(built.index.texts.starts[text]) - 1 if place >= 0 else -1
            yield Hit(built.texts[text], kept, edits, cost, (begin, begin + cut if begin >= 0 else 0))
