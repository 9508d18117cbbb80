"""The indexes of completions of one app, by field: made when a field is first asked for, followed from then on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from actors.recommender.field_texts import Built, FieldTexts
from actors.vectors.types import Floats

MOST_FIELDS = 32
"Fields whose completions are held at a time."

Field = tuple[str, str, bool]
"Name, language, and whether only that language counts."


class Completions:
    """The completions of one app: indexes by field, made when a field is first asked for."""

    def __init__(self) -> None:
        self._fields: dict[Field, FieldTexts] = {}

    def note(self, row: int, product: Mapping[str, Any] | None) -> None:
        """Learn that a product changed, or is gone."""
        for field in self._fields.values():
            field.note(row, product)

    def knows(self, key: Field) -> bool:
        """Is there an index of a field already?"""
        return key in self._fields

    def of(
        self,
        key: Field,
        records: Callable[[], Iterable[tuple[int, Mapping[str, Any]]]],
        popularity: Callable[[], Floats],
    ) -> FieldTexts:
        """Give the texts of a field; the first time every product is read.

        Cost:
            the first call for a field: 3 s for 100,000 products; then nothing
        """
        found = self._fields.pop(key, None)
        if found is None:
            name, language, only = key
            found = FieldTexts(name, language, only=only)
            for row, product in records():
                found.note(row, product)
            found.adopt(found.rebuilding(popularity())())
            while len(self._fields) >= MOST_FIELDS:
                del self._fields[next(iter(self._fields))]
        self._fields[key] = found
        return found

    def rebuilding(self, popularity: Callable[[], Floats]) -> tuple[FieldTexts, Callable[[], Built]] | None:
        """Give the work of building one index again that has changed much; None when there is none."""
        for field in self._fields.values():
            if field.wants_rebuild:
                return field, field.rebuilding(popularity())
        return None
