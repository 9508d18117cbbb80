"""Which products of each group pass a filter: worked out once for a filter, then shared by all who ask the same.

A shop's pages ask with few filters, and readers differ in their scores only.
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
_MOST_ROWS = 2_000_000


class FilteredGroups:
    """Rows that pass one filter, as a mask, by group, and counted by group.

    Shapes:
        allowed: bool [n], rows with a product that passes; open: bool [n], those of them that are offered
    """

    def __init__(self, groups: Groups[Any], allowed: Mask, offered: Mask) -> None:
        self.allowed = allowed
        self.available: Mask = allowed & offered
        self.totals: Rows = groups.count_rows(allowed)
        "Products of every group that pass, out of stock or not."
        self.available_totals: Rows = groups.count_rows(self.available)
        self.listed_rows = 0
        "Rows that are listed by group."
        self._groups = groups
        self._rows: dict[int, Rows] = {}

    def list_rows(self, code: int) -> Rows:
        """List the open rows of a group."""
        rows = self._rows.get(code)
        if rows is None:
            rows = self._groups.rows_of(code)
            rows = rows[rows < len(self.available)]
            rows = self._rows[code] = rows[self.available[rows]]
            self.listed_rows += len(rows)
        return rows


class FilteredGroupsCache:
    """The sections that were asked for lately; all are forgotten when a product changes."""

    def __init__(self) -> None:
        self._of: WeakKeyDictionary[Groups[Any], OrderedDict[Hashable, FilteredGroups]] = WeakKeyDictionary()
        self._state: Hashable = None

    def get(
        self,
        groups: Groups[Any],
        asked: Hashable,
        state: Hashable,
        allowed: Callable[[], Mask],
        offered: Mask,
    ) -> FilteredGroups:
        """Find the section of what is asked; `state` says when what was found before does not hold any more.

        Cost:
            1 ms for 100,000 products the first time, then nothing
        """
        if state != self._state:
            self._of.clear()
            self._state = state
        kept = self._of.setdefault(groups, OrderedDict())
        section = kept.get(asked)
        if section is None or len(section.totals) != len(groups):
            section = kept[asked] = FilteredGroups(groups, allowed(), offered)
        kept.move_to_end(asked)
        while len(kept) > 1 and (
            len(kept) > _MOST or sum(one.listed_rows for one in kept.values()) > _MOST_ROWS
        ):
            kept.popitem(last=False)
        return section


def sum_by_group(groups: Groups[Any], rows: Rows, weights: npt.NDArray[Any]) -> Floats:
    """Add up the weights of some rows for every group they stand in.

    Shapes:
        rows: int64 [m]; weights: float [m]
        returns: float64 [groups]
    """
    owner, codes = groups.codes_of_rows(rows)
    sums: Floats = np.bincount(codes, weights[owner], len(groups)).astype(np.float64)
    return sums
