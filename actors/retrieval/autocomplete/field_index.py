"""The texts of one product field as completions: an index of what was there when it was built, and what came since.

    base     most texts, out of a snapshot or built in one go in another thread, then swapped in
    later    thousands of rows that changed since: built in another thread, too
    fresh    rows that are as neither has them: a small index of their own, made again as they change

A text is admitted when a product that has it is; a product that changed no longer counts for its old text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.retrieval.autocomplete.field_values import field_fingerprint, values_of_field
from actors.retrieval.autocomplete.text_index import CompletionHit, RowTextIndex, TextIndex
from actors.vectors.types import Floats, Mask, Rows

_LITTLE = 1_000
_SHARE = 0.05
_AT_ONCE = 100
"So many changed rows are indexed whenever one more changes."
_SETTLE_MS = 600
"The longest that a change waits for the small index to be made again."

Popularity = Callable[[], Floats]
"Gives the popularity by row, as it is now."


class FieldIndex:
    """Completions of one field."""

    def __init__(self, name: str, language: str = "", *, only: bool = False) -> None:
        self.name = name
        self.language = language
        self._only = only
        self._base = _nothing()
        self._later = _nothing()
        self._fresh: RowTextIndex | None = None
        self._fresh_at_ms = 0
        self._fresh_stale = True
        self._changed: dict[int, tuple[int, tuple[str, ...]]] = {}
        "Rows that are not as the base has them, as they are now."
        self._left = 0
        "Rows that the base served and does not any more."
        self._again: dict[int, tuple[int, tuple[str, ...]]] | None = None
        "Rows that changed since the index being built was begun."
        self._whole = True
        "Does what is being built replace the base?"

    def __len__(self) -> int:
        """Count rows with a value."""
        return len(self._base) + len(self._later) + len(self._changed)

    @property
    def changed_count(self) -> int:
        """Count rows that changed since anything was built."""
        return len(self._changed)

    def record(self, row: int, product: Mapping[str, Any] | None, mark: int | None = None) -> None:
        """Learn that a product changed, or is gone; `mark` is that of its field when it is known."""
        values = () if product is None else values_of_field(product, self.name, self.language, self._only)
        mark = field_fingerprint(product, self.name) if mark is None else mark
        if self._again is not None:
            self._again[row] = mark, values
        self._settle(row, mark, values)

    @property
    def needs_rebuild(self) -> bool:
        """Has so much changed that an index should be built again?"""
        return len(self._changed) > _LITTLE or self._is_old(len(self._base))

    def plan_rebuild(self, popularity: Floats) -> Callable[[], RowTextIndex]:
        """Give the work of building an index again, for another thread; what changes meanwhile stays fresh.

        That is the base when much of it is old, else what came later.
        """
        served = len(self._base)
        self._again, self._whole = {}, not served or self._is_old(served)
        layers = [self._base, self._later] if self._whole else [self._later]
        changed = dict(self._changed)

        def build() -> RowTextIndex:
            # a row that left a layer meanwhile is in `_read_with_retry`
            values = {row: found for layer in layers for row, found in layer.values().items()}
            return RowTextIndex.of({**values, **changed}, popularity)

        return build

    def adopt(self, built: RowTextIndex) -> None:
        """Let serve what was built."""
        again, self._again = self._again or {}, None
        if self._whole:
            self._serve(built)
        else:
            self._later, self._changed, self._fresh_stale = built, {}, True
        for row, (mark, values) in again.items():
            self._settle(row, mark, values)

    def bind_rows(self, built: TextIndex, codes: Rows, aside: Mask) -> None:
        """Let an index out of a snapshot serve; rows aside are still to be noted.

        Shapes:
            codes: int64 [r], row -> holder of the index, -1 for none; aside: bool [r]
        """
        self._serve(RowTextIndex(built, codes, aside))

    def look_up(
        self, typed: str, wanted: int, page: int, rows: Mask, now_ms: int, popularity: Popularity
    ) -> list[CompletionHit]:
        """Find texts of admitted rows, best first; with `page` exact ones only those are looked for.

        Shapes:
            rows: bool [r], admitted rows
        """
        found = list(self._base.look_up(typed, wanted, page, rows))
        if not self._changed and not len(self._later.built):
            return found
        found += self._later.look_up(typed, wanted, page, rows)
        if self._changed:
            fresh = self._fresh_index(now_ms, popularity)
            found += self._without_changed(fresh.look_up(typed, wanted, page, rows))
        best: dict[str, CompletionHit] = {}
        for hit in sorted(found, key=lambda hit: hit.cost):
            other = best.setdefault(hit.text, hit)
            if other is not hit:
                rows_of_both = tuple(dict.fromkeys((*other.rows, *hit.rows)))
                best[hit.text] = CompletionHit(other.text, rows_of_both, other.edits, other.cost, other.place)
        return list(best.values())[:wanted]

    def _is_old(self, served: int) -> bool:
        """Does a base that serves so many rows know too little of what there is?"""
        return max(len(self._later) + len(self._changed), self._left) > rebuild_threshold(served)

    def _serve(self, base: RowTextIndex) -> None:
        self._base, self._later = base, _nothing()
        self._changed, self._left = {}, 0
        self._fresh_stale = True

    def _settle(self, row: int, mark: int, values: tuple[str, ...]) -> None:
        """Let a layer serve a row that is as it was then; else it counts as changed."""
        self._fresh_stale = True
        if values and self._base.restore(row, mark):
            self._later.remove(row)
            self._changed.pop(row, None)
            return
        self._left += self._base.remove(row)
        if values and self._later.restore(row, mark):
            self._changed.pop(row, None)
            return
        self._later.remove(row)
        if values:
            self._changed[row] = mark, values
        else:
            self._changed.pop(row, None)

    def _fresh_index(self, now_ms: int, popularity: Popularity) -> RowTextIndex:
        """Index what changed; the more that is, the less often, but within the second."""
        settle_ms = min(_SETTLE_MS, len(self._changed) // 2) if len(self._changed) > _AT_ONCE else 0
        soon = 0 <= now_ms - self._fresh_at_ms < settle_ms
        if self._fresh is None or (self._fresh_stale and not soon):
            self._fresh, self._fresh_at_ms = RowTextIndex.of(self._changed, popularity()), now_ms
            self._fresh_stale = False
        return self._fresh

    def _without_changed(self, hits: Iterator[CompletionHit]) -> Iterator[CompletionHit]:
        """Leave out what changed again since the small index was made."""
        changed = self._changed
        for hit in hits:
            rows = tuple(row for row in hit.rows if row in changed and hit.text in changed[row][1])
            if rows:
                yield (
                    hit if rows == hit.rows else CompletionHit(hit.text, rows, hit.edits, hit.cost, hit.place)
                )


def rebuild_threshold(served: int) -> float:
    """Say with how many changed rows an index of so many is worth building again."""
    return max(_LITTLE, _SHARE * served)


def _nothing() -> RowTextIndex:
    marks: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)
    return RowTextIndex(TextIndex.of([], marks, np.zeros(0)), np.zeros(0, np.int64))
