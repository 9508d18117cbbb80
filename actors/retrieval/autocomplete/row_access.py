"""The rows of locked products by access: which accesses there are, and when one begins."""

from __future__ import annotations

from collections import Counter

import numpy as np

from actors.vectors.types import Rows
from cluster.access_tier import MOST_TIERS


class RowAccess:
    """Follows changes of products. Products of accesses beyond the first 64 count as open ones that nobody reads."""

    def __init__(self) -> None:
        self._accesses: dict[int, str] = {}
        self._products: Counter[str] = Counter()
        "By access."
        self._had_excess = False
        self._excess: set[int] = set()
        "Rows of accesses that nobody reads."

    def __len__(self) -> int:
        return len(self._accesses)

    def has_hidden(self, tiers: frozenset[str]) -> bool:
        """Return whether there is a product that a user with these tiers may not read."""
        return bool(self._excess) or not tiers.issuperset(self._products)

    def hidden_rows(self, tiers: frozenset[str]) -> Rows:
        """Return the rows of products that a user with these tiers may not read.

        Shapes:
            returns: int64 [h]
        """
        hidden = [row for row, access in self._accesses.items() if access not in tiers]
        return np.array([*hidden, *self._excess], np.int64)

    def readable(self, tiers: frozenset[str]) -> list[str]:
        """Return the accesses with products that a user with these tiers may read, open ones left out."""
        return sorted(tiers & self._products.keys())

    def record(self, row: int, access: str) -> bool:
        """Set the access of a row; return whether it begins: no product had it before this one."""
        self._excess.discard(row)
        before = self._accesses.pop(row, "")
        if before:
            self._products[before] -= 1
            if not self._products[before]:
                del self._products[before]
        if not access:
            return False
        is_first = access not in self._products
        # Callers name the tiers, so their number needs a bound; what is beyond it nobody may read.
        if is_first and len(self._products) == MOST_TIERS:
            self._had_excess = True
            self._excess.add(row)
            return False
        self._accesses[row] = access
        self._products[access] += 1
        return is_first and not self._had_excess
