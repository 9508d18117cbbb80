"""The access of the products of an index, by row, and the part of the index that has the products of one access.

A user searches the parts with something to read for him. So what is locked changes neither his hits nor their cost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from actors.retrieval.lexical.index_segments import IndexSegments
from actors.retrieval.lexical.snapshot_format import SavedIndex
from actors.retrieval.lexical.spell_dictionary import ProductVocabulary
from actors.vectors.types import Rows, ensure_capacity
from cluster.access_tier import MOST_TIERS, may_read

EXCESS: Final = MOST_TIERS + 1
"Code of all accesses beyond the first 64, which nobody reads."


@dataclass(slots=True)
class IndexPart:
    """The products of one access: postings, words, and the sum of their lengths."""

    segments: IndexSegments
    vocabulary: ProductVocabulary = field(default_factory=ProductVocabulary)
    length: float = 0.0


class ProductAccess:
    """The codes of accesses. Code 0 is an open product, or a row without one."""

    def __init__(self) -> None:
        # One byte a row: the largest code is EXCESS, far below 256.
        self._codes = np.zeros(0, np.uint8)
        self._names = [""]

    def code_of(self, row: int) -> int:
        return int(self._codes[row]) if row < len(self._codes) else 0

    def codes_of(self, rows: Rows) -> npt.NDArray[np.uint8]:
        """Return the codes of rows.

        Shapes:
            rows: int64 [m]; returns: uint8 [m]
        """
        self._codes = ensure_capacity(self._codes, int(rows.max(initial=-1)) + 1)
        return self._codes[rows]

    def put(self, row: int, access: str) -> int:
        """Set the access of a row, and return its code."""
        code = self._code(access)
        self._codes = ensure_capacity(self._codes, row + 1)
        self._codes[row] = code
        return code

    def remove(self, row: int) -> None:
        if row < len(self._codes):
            self._codes[row] = 0

    def bind_rows(self, saved: SavedIndex, codes: Rows, rows: Rows) -> tuple[int, ...]:
        """Set the access of rows to that of products of a snapshot; return the codes of the accesses it has.

        Shapes:
            codes: int64 [m], products of the snapshot; rows: int64 [m], each once
        """
        self._codes = ensure_capacity(self._codes, int(rows.max(initial=-1)) + 1)
        saved_codes = tuple(map(self._code, saved.accesses))
        self._codes[rows] = np.array(saved_codes, np.uint8)[saved.access_codes[codes]]
        return saved_codes

    def is_readable(self, code: int, tiers: frozenset[str]) -> bool:
        """Return whether a user with these tiers may read products of an access."""
        # EXCESS has no name, so nobody reads its products.
        return code < len(self._names) and may_read(self._names[code], tiers)

    def _code(self, access: str) -> int:
        if access not in self._names:
            if len(self._names) > MOST_TIERS:
                return EXCESS
            self._names.append(access)
        return self._names.index(access)
