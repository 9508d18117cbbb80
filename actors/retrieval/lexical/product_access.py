"""The access of the products of an index, by row: what a user with some tiers searches, as if there were no others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from actors.retrieval.lexical.snapshot_format import SavedIndex
from actors.vectors.types import Mask, Rows, ensure_capacity
from cluster.access_tier import MOST_TIERS, may_read

EXCESS: Final = MOST_TIERS + 1
"Code of all accesses beyond the first 64, which nobody reads."


@dataclass(frozen=True, slots=True)
class ReadableProducts:
    """The products that a user may read, and what their number and lengths say about all words.

    Shapes:
        mask: bool [n], by row; norms: float64 [n], see `compute_length_norms`
    """

    mask: Mask
    products: int
    norms: npt.NDArray[np.float64]
    codes: frozenset[int]
    "Codes of the accesses that the user may read."
    languages: tuple[str, ...]
    "The main languages of most products."
    language_bits: int
    counts: dict[tuple[int, int, int], int] = field(default_factory=dict)
    "By segment, first and last posting: how many products have a frequent term."


class ProductAccess:
    """Follows puts and removals. Code 0 is an open product, or a row without one."""

    def __init__(self) -> None:
        self._codes = np.zeros(0, np.uint8)
        self._names = [""]
        self._locked = 0

    @property
    def has_locked(self) -> bool:
        """Return whether a product is locked for anybody."""
        return self._locked > 0

    def put(self, row: int, access: str) -> int:
        """Set the access of a row that has none, and return its code."""
        code = self._code(access)
        self._codes = ensure_capacity(self._codes, row + 1)
        self._codes[row] = code
        self._locked += code > 0
        return code

    def remove(self, row: int) -> None:
        """Remove the access of a row."""
        if row < len(self._codes):
            self._locked -= int(self._codes[row] > 0)
            self._codes[row] = 0

    def bind_rows(self, saved: SavedIndex, codes: Rows, rows: Rows) -> tuple[int, ...]:
        """Set the access of rows to that of products of a snapshot; return the codes of the accesses it has.

        Shapes:
            codes: int64 [m], products of the snapshot; rows: int64 [m], each once
        """
        self._codes = ensure_capacity(self._codes, int(rows.max(initial=-1)) + 1)
        saved_codes = tuple(map(self._code, saved.accesses))
        self._locked -= int(np.count_nonzero(self._codes[rows]))
        self._codes[rows] = np.array(saved_codes, np.uint8)[saved.access_codes[codes]]
        self._locked += int(np.count_nonzero(self._codes[rows]))
        return saved_codes

    def readable_codes(self, tiers: frozenset[str]) -> frozenset[int]:
        """Return the codes of the accesses that a user with these tiers may read."""
        return frozenset(code for code, name in enumerate(self._names) if may_read(name, tiers))

    def mask(self, codes: frozenset[int], rows: int) -> Mask:
        """Mark the first rows whose access is one of some codes.

        Shapes:
            returns: bool [rows]
        """
        is_readable = np.zeros(256, np.bool_)
        is_readable[list(codes)] = True
        marked: Mask = is_readable[self._codes[:rows]]
        return marked

    def _code(self, access: str) -> int:
        if access not in self._names:
            if len(self._names) > MOST_TIERS:
                return EXCESS
            self._names.append(access)
        return self._names.index(access)
