"""The indexes of completions of one app, by field: out of a snapshot, or made when a field is first asked for.

Whatever a snapshot says of a product counts only while the product's mark is the same; the rest is followed here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from actors.recommender.state.catalog import Catalog
from actors.retrieval.autocomplete.field_index import FieldTexts, enough_changed
from actors.retrieval.autocomplete.field_values import Marks, mark_of
from actors.retrieval.autocomplete.snapshot_format import SavedField, SavedTexts
from actors.retrieval.autocomplete.text_index import Laid
from actors.vectors.types import Floats, Mask, Rows

MOST_FIELDS = 32
"Fields whose completions are held at a time."

ALWAYS = "title"
"The field that is marked from the start, for nearly everybody completes it."

Field = tuple[str, str, bool]
"Name, language, and whether only that language counts."


class Completions:
    """The completions of one app: indexes by field and language, followed from then on."""

    def __init__(self) -> None:
        self._fields: dict[Field, FieldTexts] = {}
        self._marks: dict[str, Marks] = {ALWAYS: Marks()}
        self._saved: SavedTexts | None = None

    def note(self, row: int, product: Mapping[str, Any] | None) -> None:
        """Learn that a product changed, or is gone."""
        for name, marks in self._marks.items():
            mark = mark_of(product, name)
            if marks.put(row, mark):
                for key, field in self._fields.items():
                    if key[0] == name:
                        field.note(row, product, mark)

    def knows(self, key: Field) -> bool:
        """Is there an index of a field already?"""
        return key in self._fields

    @property
    def version(self) -> str:
        """The snapshot whose indexes serve; empty when all were made here."""
        return "" if self._saved is None else self._saved.version

    def adopt(self, saved: SavedTexts, catalog: Catalog) -> None:
        """Let the indexes of a snapshot serve from now on, where they are not older than what serves."""
        if self._saved is not None and self._saved.version == saved.version:
            return
        self._saved = saved
        for key in list(self._fields):
            found = saved.fields.get(key[0])
            if found is not None and found.of(*key[1:]) is not None and self._is_fit(found, catalog):
                del self._fields[key]

    def of(self, key: Field, catalog: Catalog, popularity: Callable[[], Floats]) -> FieldTexts:
        """Give the texts of a field; without a snapshot every product is read the first time.

        Cost:
            the first call for a field: 2 ms for 100,000 products of a snapshot, 3 s without; then nothing
        """
        found = self._fields.pop(key, None)
        if found is None:
            found = self._laid(key, catalog) or self._made(key, catalog, popularity)
            while len(self._fields) >= MOST_FIELDS:
                del self._fields[next(iter(self._fields))]
        self._fields[key] = found
        return found

    def rebuilding(self, popularity: Callable[[], Floats]) -> tuple[FieldTexts, Callable[[], Laid]] | None:
        """Give the work of building one index again that has changed much; None when there is none."""
        for field in self._fields.values():
            if field.wants_rebuild:
                return field, field.rebuilding(popularity())
        return None

    def _laid(self, key: Field, catalog: Catalog) -> FieldTexts | None:
        """Lay the snapshot's index over the catalog; None when there is none, or it knows too little of it."""
        name, language, only = key
        saved = None if self._saved is None else self._saved.fields.get(name)
        built = None if saved is None else saved.of(language, only)
        if saved is None or built is None or not self._is_fit(saved, catalog):
            return None
        found = FieldTexts(name, language, only=only)
        codes, aside = self._compared(saved, catalog)
        found.lay(built, codes, aside)
        marks = self._marks[name]
        for row in np.flatnonzero(aside & catalog.present).tolist():
            found.note(row, catalog.record(row), marks.of(row))
        return found

    def _made(self, key: Field, catalog: Catalog, popularity: Callable[[], Floats]) -> FieldTexts:
        name, language, only = key
        marks = self._marked(name, catalog)
        found = FieldTexts(name, language, only=only)
        for row in np.flatnonzero(catalog.present).tolist():
            found.note(row, catalog.record(row), marks.of(row))
        found.adopt(found.rebuilding(popularity())())
        return found

    def _marked(self, name: str, catalog: Catalog) -> Marks:
        """Give the marks of a field; the first time every product is read."""
        marks = self._marks.get(name)
        if marks is None:
            marks = self._marks[name] = Marks()
            for row in np.flatnonzero(catalog.present).tolist():
                marks.put(row, mark_of(catalog.record(row), name))
        return marks

    def _is_fit(self, saved: SavedField, catalog: Catalog) -> bool:
        """Does a snapshot know nearly all products as they are?"""
        _, aside = self._compared(saved, catalog)
        present = int(np.count_nonzero(catalog.present))
        return int(np.count_nonzero(aside & catalog.present)) <= enough_changed(present)

    def _compared(self, saved: SavedField, catalog: Catalog) -> tuple[Rows, Mask]:
        """Find each row's product in the snapshot, and the rows that are not as it has them.

        Shapes:
            returns: int64 [r], -1 where it has none, and bool [r]
        """
        assert self._saved is not None
        count = len(catalog)
        codes = np.full(count, -1, np.int64)
        known = min(count, len(self._saved.codes))
        codes[:known] = self._saved.codes[:known]
        marks = self._marked(saved.name, catalog).upto(count)
        theirs = saved.marks[codes] if len(saved.marks) else np.zeros(count, np.uint64)
        aside: Mask = (marks != theirs) | (codes < 0)
        # a product with nothing under the field needs no index
        aside &= (marks != 0) | (codes >= 0)
        aside |= ~catalog.present
        return codes, aside
