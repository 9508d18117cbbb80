"""The values of a field of a product that are completed, and a fingerprint that changes with them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import mmh3
import numpy as np
import numpy.typing as npt
import orjson

from actors.vectors.types import Rows, ensure_capacity
from cluster.access_tier import access_of
from cluster.query.language.field_values import collect_scalars

LONGEST = 300
"Characters of a value that is completed; longer values are texts that no user types."
MOST_VALUES = 50
"Values of one product that are completed."

_TRANSLATION = re.compile(r"i18n_([A-Za-z]{2})\Z")
_NOTHING = 0


class FieldFingerprints:
    """The fingerprint of one field by row; 0 for no values.

    Cost:
        8 bytes a row
    """

    def __init__(self) -> None:
        self._fingerprints: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._count = 0

    def put(self, row: int, fingerprint: int) -> bool:
        """Set the fingerprint of a row; return whether it changed."""
        if row >= self._count:
            self._fingerprints = ensure_capacity(self._fingerprints, row + 1)
            self._count = row + 1
        if int(self._fingerprints[row]) == fingerprint:
            return False
        self._fingerprints[row] = fingerprint
        return True

    def get(self, row: int) -> int:
        return int(self._fingerprints[row]) if row < self._count else _NOTHING

    def first(self, count: int) -> npt.NDArray[np.uint64]:
        """Return the fingerprints of the first rows.

        Shapes:
            returns: uint64 [count]
        """
        self._fingerprints = ensure_capacity(self._fingerprints, count)
        return self._fingerprints[:count]


def field_fingerprint(product: Mapping[str, Any] | None, field: str) -> int:
    """Hash all values of a field of a product, in all languages, and its lock to 63 bits; 0 for no values.

    Cost:
        2 us
    """
    if product is None:
        return _NOTHING
    scalars: list[Any] = [collect_scalars(product, field)]
    for key in product:
        if key.startswith("i18n_"):
            scalars += [key, collect_scalars(product, f"{key}.{field}")]
    # Every second entry is a list of values; the names of the translations stand between them.
    if not any(scalars[0::2]):
        return _NOTHING
    access = access_of(product)
    lock = [access] if access else []
    data = orjson.dumps([product.get("language"), *scalars, *lock], default=str)
    # 63 bits plus 1: never 0, which means "no values".
    return (mmh3.hash64(data, 29, signed=False)[0] >> 1) + 1


def values_of_field(product: Mapping[str, Any], field: str, language: str, only: bool) -> tuple[str, ...]:
    """Read the texts of a field, each once: the translation if there is one, else the field itself.

    With `only`, products whose `language` is another one have none.
    """
    leaves = collect_scalars(product, f"i18n_{language}.{field}") if language else []
    if not leaves and not (only and product.get("language") not in (None, language)):
        leaves = collect_scalars(product, field)
    values: dict[str, None] = {}
    for value in leaves:
        if isinstance(value, str) and 0 < len(value) <= LONGEST:
            values[value] = None
            if len(values) == MOST_VALUES:
                break
    return tuple(values)


def languages_of(product: Mapping[str, Any], field: str) -> set[str]:
    """Return the languages in which a product has values of a field that others lack."""
    languages = {
        match[1].lower()
        for key in product
        if (match := _TRANSLATION.match(key)) and collect_scalars(product, f"{key}.{field}")
    }
    language = product.get("language")
    return {*languages, language} if isinstance(language, str) and language else languages


def rows_by_code(codes: Rows, count: int) -> Rows:
    """Invert row -> code.

    Shapes:
        codes: int64 [r], -1 for none; returns: int64 [count], -1 for none
    """
    rows = np.full(count, -1, np.int64)
    coded_rows = np.flatnonzero(codes >= 0)
    rows[codes[coded_rows]] = coded_rows
    return rows
