"""The indexes of completions of one app, by field: out of a snapshot, or made when a field is first asked for.

Whatever a snapshot says of a product counts only while the product's mark is the same; the rest is followed here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from actors.retrieval.autocomplete.field_index import FieldIndex, rebuild_threshold
from actors.retrieval.autocomplete.field_values import FieldFingerprints, field_fingerprint
from actors.retrieval.autocomplete.snapshot_format import CompletionSnapshot, SavedFieldIndexes
from actors.retrieval.autocomplete.text_index import RowTextIndex
from actors.retrieval.product_rows import ProductRows
from actors.vectors.types import Floats, Mask, Rows

MOST_FIELDS = 32
"Fields whose completions are held at a time."

ALWAYS = "title"
"The field that is marked from the start, for nearly everybody completes it."

FieldKey = tuple[str, str, bool]
"Name, language, and whether only that language counts."


class FieldIndexes:
    """The completions of one app: indexes by field and language, followed from then on."""

    def __init__(self) -> None:
        self._fields: dict[FieldKey, FieldIndex] = {}
        self._marks: dict[str, FieldFingerprints] = {ALWAYS: FieldFingerprints()}
        self._saved: CompletionSnapshot | None = None

    def record(self, row: int, product: Mapping[str, Any] | None) -> None:
        """Learn that a product changed, or is gone."""
        for name, marks in self._marks.items():
            mark = field_fingerprint(product, name)
            if marks.put(row, mark):
                for key, field in self._fields.items():
                    if key[0] == name:
                        field.record(row, product, mark)

    def has_field(self, key: FieldKey) -> bool:
        """Is there an index of a field already?"""
        return key in self._fields

    @property
    def version(self) -> str:
        """The snapshot whose indexes serve; empty when all were made here."""
        return "" if self._saved is None else self._saved.version

    def adopt(self, saved: CompletionSnapshot, catalog: ProductRows) -> None:
        """Let the indexes of a snapshot serve from now on, where they are not older than what serves."""
        if self._saved is not None and self._saved.version == saved.version:
            return
        self._saved = saved
        for key in list(self._fields):
            found = saved.fields.get(key[0])
            if found is not None and found.get(*key[1:]) is not None and self._is_fit(found, catalog):
                del self._fields[key]

    def get_field(self, key: FieldKey, catalog: ProductRows, popularity: Callable[[], Floats]) -> FieldIndex:
        """Give the texts of a field; without a snapshot every product is read the first time.

        Cost:
            the first call for a field: 2 ms for 100,000 products of a snapshot, 3 s without; then nothing
        """
        found = self._fields.pop(key, None)
        if found is None:
            found = self._bind_rows(key, catalog) or self._build_field(key, catalog, popularity)
            while len(self._fields) >= MOST_FIELDS:
                del self._fields[next(iter(self._fields))]
        self._fields[key] = found
        return found

    def plan_rebuild(
        self, popularity: Callable[[], Floats]
    ) -> tuple[FieldIndex, Callable[[], RowTextIndex]] | None:
        """Give the work of building one index again that has changed much; None when there is none."""
        for field in self._fields.values():
            if field.needs_rebuild:
                return field, field.plan_rebuild(popularity())
        return None

    def _bind_rows(self, key: FieldKey, catalog: ProductRows) -> FieldIndex | None:
        """Lay the snapshot's index over the catalog; None when there is none, or it knows too little of it."""
        name, language, only = key
        saved = None if self._saved is None else self._saved.fields.get(name)
        built = None if saved is None else saved.get(language, only)
        if saved is None or built is None or not self._is_fit(saved, catalog):
            return None
        found = FieldIndex(name, language, only=only)
        codes, aside = self._compare_rows(saved, catalog)
        found.bind_rows(built, codes, aside)
        marks = self._marks[name]
        for row in np.flatnonzero(aside & catalog.present).tolist():
            found.record(row, catalog.record(row), marks.get(row))
        return found

    def _build_field(
        self, key: FieldKey, catalog: ProductRows, popularity: Callable[[], Floats]
    ) -> FieldIndex:
        name, language, only = key
        marks = self._field_fingerprints(name, catalog)
        found = FieldIndex(name, language, only=only)
        for row in np.flatnonzero(catalog.present).tolist():
            found.record(row, catalog.record(row), marks.get(row))
        found.adopt(found.plan_rebuild(popularity())())
        return found

    def _field_fingerprints(self, name: str, catalog: ProductRows) -> FieldFingerprints:
        """Give the marks of a field; the first time every product is read."""
        marks = self._marks.get(name)
        if marks is None:
            marks = self._marks[name] = FieldFingerprints()
            for row in np.flatnonzero(catalog.present).tolist():
                marks.put(row, field_fingerprint(catalog.record(row), name))
        return marks

    def _is_fit(self, saved: SavedFieldIndexes, catalog: ProductRows) -> bool:
        """Does a snapshot know nearly all products as they are?"""
        _, aside = self._compare_rows(saved, catalog)
        present = int(np.count_nonzero(catalog.present))
        return int(np.count_nonzero(aside & catalog.present)) <= rebuild_threshold(present)

    def _compare_rows(self, saved: SavedFieldIndexes, catalog: ProductRows) -> tuple[Rows, Mask]:
        """Find each row's product in the snapshot, and the rows that are not as it has them.

        Shapes:
            returns: int64 [r], -1 where it has none, and bool [r]
        """
        assert self._saved is not None
        count = len(catalog)
        codes = np.full(count, -1, np.int64)
        known = min(count, len(self._saved.codes))
        codes[:known] = self._saved.codes[:known]
        marks = self._field_fingerprints(saved.name, catalog).first(count)
        theirs = saved.fingerprints[codes] if len(saved.fingerprints) else np.zeros(count, np.uint64)
        aside: Mask = (marks != theirs) | (codes < 0)
        # a product with nothing under the field needs no index
        aside &= (marks != 0) | (codes >= 0)
        aside |= ~catalog.present
        return codes, aside
