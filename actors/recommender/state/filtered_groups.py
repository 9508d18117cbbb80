"""The products of each group that pass a filter, computed once for a filter and shared by all queries with it.

The pages of a shop have few filters, and only the scores differ between users.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from actors.recommender.state.groups import Groups
from actors.vectors.types import Floats, Mask, Rows

_MOST = 32
# Bounds the listed rows of all entries: 16 MB at 8 bytes each.
_MOST_ROWS = 2_000_000


class FilteredGroups:
    """Rows that pass one filter, as a mask, by group, and counted by group.

    Shapes:
        allowed: bool [n], rows that pass the filter; available: bool [n], those of them in stock
    """

    def __init__(self, groups: Groups[Any], allowed: Mask, offered: Mask) -> None:
        self.allowed = allowed
        self.available: Mask = allowed & offered
        self.totals: Rows = groups.count_rows(allowed)
        "Number of products in every group that pass, in stock or not."
        self.available_totals: Rows = groups.count_rows(self.available)
        self.listed_rows = 0
        "Number of rows that `list_rows` has stored."
        self._groups = groups
        self._rows: dict[int, Rows] = {}

    def list_rows(self, code: int) -> Rows:
        """Return the available rows of a group.

        Shapes:
            returns: int64 [m]
        """
        rows = self._rows.get(code)
        if rows is None:
            rows = self._groups.rows_of(code)
            # The groups may have rows that are newer than the mask.
            rows = rows[rows < len(self.available)]
            rows = self._rows[code] = rows[self.available[rows]]
            self.listed_rows += len(rows)
        return rows


class FilteredGroupsCache:
    """A cache of recently used filtered groups. A change of a product clears it."""

    def __init__(self) -> None:
        # Weak: the column store drops and rebuilds groups, and their entries must go with them.
        self._of: WeakKeyDictionary[Groups[Any], OrderedDict[Hashable, FilteredGroups]] = WeakKeyDictionary()
        self._state: Hashable = None

    def get(
        self,
        groups: Groups[Any],
        filter_key: Hashable,
        state: Hashable,
        allowed: Callable[[], Mask],
        offered: Mask,
    ) -> FilteredGroups:
        """Return the filtered groups of a filter (`filter_key`). A new `state` clears the cache.

        Shapes:
            offered: bool [n]

        Cost:
            1 ms for 100,000 products the first time, then nothing
        """
        if state != self._state:
            self._of.clear()
            self._state = state
        kept = self._of.setdefault(groups, OrderedDict())
        filtered = kept.get(filter_key)
        # A value that is new since the entry was made has no count in it.
        if filtered is None or len(filtered.totals) != len(groups):
            filtered = kept[filter_key] = FilteredGroups(groups, allowed(), offered)
        kept.move_to_end(filter_key)
        # The filter of this query stays, however large it is.
        while len(kept) > 1 and (
            len(kept) > _MOST or sum(entry.listed_rows for entry in kept.values()) > _MOST_ROWS
        ):
            kept.popitem(last=False)
        return filtered


def sum_by_group(groups: Groups[Any], rows: Rows, weights: npt.NDArray[Any]) -> Floats:
    """Return the sum of the weights of rows for every group.

    Shapes:
        rows: int64 [m]; weights: float [m]
        returns: float64 [groups]
    """
    owner, codes = groups.codes_of_rows(rows)
    sums: Floats = np.bincount(codes, weights[owner], len(groups)).astype(np.float64)
    return sums
