"""The texts of product fields as completions: a main index of each field, and indexes of later changes.

    main     most texts: out of a snapshot, or built in another thread and swapped in
    later    thousands of rows that changed since, built in another thread, too
    fresh    rows that neither has as they are now: a small index that is built again as they change

A text is found if a product that has it is allowed. A changed product no longer counts for its old text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.retrieval.autocomplete.completed_values import field_fingerprint, values_of_field
from actors.retrieval.autocomplete.lookup import BYTES_A_CHARACTER
from actors.retrieval.autocomplete.text_index import (
    CompletionHit,
    RowTextIndex,
    RowValues,
    TextIndex,
    merge_hits,
)
from actors.vectors.types import Floats, Mask, Rows
from cluster.access_tier import access_of

_LITTLE = 1_000
STALE_SHARE = 0.05
"Share of changed rows that justifies a rebuild."
_AT_ONCE = 100
"Number of changed rows up to which the fresh index is built again after each change."
_SETTLE_MS = 600
"Longest time until a change is in the fresh index."

_JOINT = "\x00"
"Between accesses: the name of no tier has it."

COUNTED = 1_000.0
"Count of the most popular product, to which the counts of others are scaled."
Popularity = Callable[[], Floats]
"Returns the popularity by row, as it is now."


def join_accesses(accesses: Sequence[str]) -> str:
    """Return the access of an index of the products of several accesses."""
    return _JOINT.join(accesses)


def split_accesses(access: str) -> list[str]:
    """Return the accesses of `join_accesses`."""
    return access.split(_JOINT)


class FieldIndex:
    """Completions of one field, of all products or of those with some accesses."""

    def __init__(
        self, name: str, language: str = "", *, only: bool = False, access: str | None = None
    ) -> None:
        self.name = name
        self.access = access
        "Those of `join_accesses`, or None for all products."
        self.is_ready = True
        "False while a joined index is built."
        self.language = language
        self._accesses = None if access is None else frozenset(split_accesses(access))
        self._only = only
        self._main = _empty_index()
        self._later = _empty_index()
        self._fresh: RowTextIndex | None = None
        self._fresh_at_ms = 0
        self._fresh_stale = True
        self._changed: dict[int, tuple[int, tuple[str, ...]]] = {}
        "Row -> fingerprint and values, of rows that changed since the indexes were built."
        self._left_main = 0
        "Rows that the main index no longer serves."
        self._changed_meanwhile: dict[int, tuple[int, tuple[str, ...]]] | None = None
        "Rows that changed since the running rebuild began; None if there is none."
        self._replaces_main = True
        "Whether the running rebuild replaces the main index."

    def __len__(self) -> int:
        """Count rows with a value."""
        return len(self._main) + len(self._later) + len(self._changed)

    @property
    def nbytes(self) -> int:
        return self._main.nbytes + self._later.nbytes + sum(map(self.changed_bytes, self._changed))

    def changed_bytes(self, row: int) -> int:
        """Return the memory that a changed row takes in an index, in bytes."""
        _, texts = self._changed.get(row, (0, ()))
        return BYTES_A_CHARACTER * sum(map(len, texts))

    @property
    def _largest(self) -> float:
        """The popularity of the most popular product of some accesses; 0: as it is.

        Otherwise the most popular locked product would scale that of open ones, so that their order would show it.
        """
        return 0.0 if self._accesses is None else COUNTED

    @property
    def changed_count(self) -> int:
        """Count rows that changed since an index was built."""
        return len(self._changed)

    def record(self, row: int, product: Mapping[str, Any] | None, mark: int | None = None) -> None:
        """Record that a product changed, or was removed (None); `mark` is the fingerprint of its field, if known."""
        values: tuple[str, ...] = ()
        if product is not None and (self._accesses is None or access_of(product) in self._accesses):
            values = values_of_field(product, self.name, self.language, self._only)
        mark = field_fingerprint(product, self.name) if mark is None else mark
        if self._changed_meanwhile is not None:
            # Also for `adopt`: the running rebuild works on a copy that lacks this change.
            self._changed_meanwhile[row] = mark, values
        self._assign_row(row, mark, values)

    @property
    def needs_rebuild(self) -> bool:
        """Return whether an index should be built again because of changed rows."""
        return self.is_ready and (len(self._changed) > _LITTLE or self._is_old(len(self._main)))

    def plan_rebuild(self, popularity: Floats) -> Callable[[], RowTextIndex]:
        """Return a function that builds an index again in another thread; rows that change meanwhile stay fresh.

        That is the main index if much of it is stale, else the later index.

        Shapes:
            popularity float [n], one for each row of the catalog
        """
        served = len(self._main)
        self._changed_meanwhile = {}
        self._replaces_main = not served or self._is_old(served)
        layers = [self._main, self._later] if self._replaces_main else [self._later]
        return _plan_build(layers, dict(self._changed), popularity, self._largest)

    @classmethod
    def join(
        cls, parts: Sequence[FieldIndex], popularity: Floats
    ) -> tuple[FieldIndex, Callable[[], RowTextIndex]]:
        """Return an index of the rows of several, and a function that builds it in another thread.

        It takes changes at once, and completes when it has adopted the result.

        Shapes:
            popularity float [n], one for each row of the catalog
        """
        first = parts[0]
        access = join_accesses([part.access or "" for part in parts])
        joined = cls(first.name, first.language, only=first._only, access=access)
        joined.is_ready = False
        joined._changed_meanwhile = {}
        layers = [layer for part in parts for layer in (part._main, part._later)]
        changed = {row: entry for part in parts for row, entry in part._changed.items()}
        return joined, _plan_build(layers, changed, popularity, joined._largest)

    def adopt(self, built: RowTextIndex) -> None:
        """Serve an index that was built."""
        again = self._changed_meanwhile or {}
        self._changed_meanwhile = None
        self.is_ready = True
        if self._replaces_main:
            self._serve(built)
        else:
            self._later = built
            self._changed = {}
            self._fresh_stale = True
        for row, (mark, values) in again.items():
            self._assign_row(row, mark, values)

    def bind_rows(self, built: TextIndex, codes: Rows, aside: Mask) -> None:
        """Serve an index out of a snapshot; the caller records the changed rows afterwards.

        Shapes:
            codes: int64 [r], row -> holder of the index, -1 for none; aside: bool [r], changed rows
        """
        self._serve(RowTextIndex(built, codes, aside))

    def copy_of_open(self) -> FieldIndex:
        """Return an index of open products from one of all products, while none is locked."""
        index = FieldIndex(self.name, self.language, only=self._only, access="")
        index._main = self._main.copy()
        index._later = self._later.copy()
        index._changed = dict(self._changed)
        index._left_main = self._left_main
        return index

    def look_up(
        self, typed: str, limit: int, page: int, rows: Mask, now_ms: int, popularity: Popularity
    ) -> list[CompletionHit]:
        """Find texts of allowed rows, best first; if there are `page` exact ones, near ones are not looked for.

        Shapes:
            rows: bool [r], allowed rows
        """
        hits = list(self._main.look_up(typed, limit, page, rows))
        if not self._changed and not len(self._later.built):
            return hits
        hits += self._later.look_up(typed, limit, page, rows)
        if self._changed:
            fresh = self._fresh_index(now_ms, popularity)
            hits += self._without_changed(fresh.look_up(typed, limit, page, rows))
        return merge_hits(hits, limit)

    def _is_old(self, served: int) -> bool:
        """Return whether a main index that serves so many rows is too stale."""
        return max(len(self._later) + len(self._changed), self._left_main) > rebuild_threshold(served)

    def _serve(self, main: RowTextIndex) -> None:
        self._main = main
        self._later = _empty_index()
        self._changed = {}
        self._left_main = 0
        self._fresh_stale = True

    def _assign_row(self, row: int, mark: int, values: tuple[str, ...]) -> None:
        """Serve a row from an index that has it unchanged; else count it as changed."""
        self._fresh_stale = True
        # A value came back that the main index has: it serves the row again, and nothing is built.
        if values and self._main.restore(row, mark):
            self._later.remove(row)
            self._changed.pop(row, None)
            return
        self._left_main += self._main.remove(row)
        if values and self._later.restore(row, mark):
            self._changed.pop(row, None)
            return
        self._later.remove(row)
        if values:
            self._changed[row] = mark, values
        else:
            self._changed.pop(row, None)

    def _fresh_index(self, now_ms: int, popularity: Popularity) -> RowTextIndex:
        """Index the changed rows; the more there are, the less often, but within a second."""
        # Half a millisecond of pause for each row, so that an import does not build the index for each
        # look-up.
        settle_ms = min(_SETTLE_MS, len(self._changed) // 2) if len(self._changed) > _AT_ONCE else 0
        # Not below 0: a clock that was set back must not keep an old index alive.
        soon = 0 <= now_ms - self._fresh_at_ms < settle_ms
        if self._fresh is None or (self._fresh_stale and not soon):
            self._fresh = RowTextIndex.of(self._changed, popularity(), self._largest)
            self._fresh_at_ms = now_ms
            self._fresh_stale = False
        return self._fresh

    def _without_changed(self, hits: Iterator[CompletionHit]) -> Iterator[CompletionHit]:
        """Leave out rows that changed again since the fresh index was built."""
        changed = self._changed
        for hit in hits:
            rows = tuple(row for row in hit.rows if row in changed and hit.text in changed[row][1])
            if rows:
                yield (
                    hit if rows == hit.rows else CompletionHit(hit.text, rows, hit.edits, hit.cost, hit.place)
                )


def _plan_build(
    layers: Sequence[RowTextIndex], changed: RowValues, popularity: Floats, largest: float
) -> Callable[[], RowTextIndex]:
    def build() -> RowTextIndex:
        # a row that left a layer meanwhile is in `_changed_meanwhile`
        values = {row: entry for layer in layers for row, entry in layer.values().items()}
        return RowTextIndex.of({**values, **changed}, popularity, largest)

    return build


def rebuild_threshold(served: int) -> float:
    """Return how many changed rows justify a rebuild, for an index that serves so many rows."""
    # A share: the cost of a rebuild is spread over as many changes as it has rows to read.
    return max(_LITTLE, STALE_SHARE * served)


def _empty_index() -> RowTextIndex:
    marks: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)
    return RowTextIndex(TextIndex.of([], marks, np.zeros(0)), np.zeros(0, np.int64))
