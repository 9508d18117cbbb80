"""Vocabularies: external ids of items or users, and their codes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.vectors.types import Rows


class Vocabulary:
    """Distinct names in ascending order; the position of a name is its code.

    Codes depend only on the names, not on the order in which rows were read. The same data give the same artifact.
    """

    def __init__(self, names: Any) -> None:
        self._names = names

    @classmethod
    def from_names(cls, names: Iterable[str] | Any) -> Vocabulary:
        """Build a vocabulary of the distinct names in an iterable or Arrow array, without nulls."""
        distinct = pc.unique(_string_array(names)).drop_null()
        return cls(distinct.take(pc.sort_indices(distinct)))

    def __len__(self) -> int:
        return len(self._names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and bool(self._names.equals(other._names))

    __hash__ = None  # type: ignore[assignment]

    @property
    def names(self) -> Any:
        """Return the names as a pyarrow string array."""
        return self._names

    def name(self, code: int) -> str:
        name: str = self._names[code].as_py()
        return name

    @property
    def is_ordered(self) -> bool:
        """Tell whether the names ascend without duplicates. Look-ups need this."""
        return bool(pc.all(pc.less(self._names[:-1], self._names[1:]), min_count=0).as_py())

    def code(self, name: str) -> int:
        """Return the code of one name; -1 when it is unknown.

        Cost:
            20 us among 100,000, without a table
        """
        first = 0
        last = len(self._names)
        while first < last:
            middle = (first + last) // 2
            if self._names[middle].as_py() < name:
                first = middle + 1
            else:
                last = middle
        return first if first < len(self._names) and self._names[first].as_py() == name else -1

    def codes(self, names: Iterable[str] | Any) -> Rows:
        """Return the codes of many names.

        Shapes:
            returns: int64 [m], -1 where a name is unknown
        Cost:
            10 ms among 100,000, also for few names
        """
        positions = pc.index_in(_string_array(names), value_set=self._names).fill_null(-1)
        codes: Rows = positions.to_numpy(zero_copy_only=False).astype(np.int64)
        return codes


def _string_array(names: Iterable[str] | Any) -> Any:
    if isinstance(names, pa.ChunkedArray):
        names = names.combine_chunks()
    if not isinstance(names, pa.Array):
        return pa.array(list(names), pa.string())
    return names.cast(pa.string())
