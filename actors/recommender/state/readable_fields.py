"""The field names of products by access: warnings must not name a field that only locked products have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cluster.access_tier import MOST_TIERS, access_of
from cluster.query.language.field_names import FieldNames
from cluster.query.language.field_values import list_paths

_MOST_COMBINED = 64
"Sets of accesses whose names are in memory together."


class FieldAccess:
    """Follows the products of a catalog, from the first locked one on. Names are never removed."""

    def __init__(self, every: FieldNames) -> None:
        self._every = every
        self._names: dict[str, set[str]] = {}
        "By access, empty for open products; no entry while no product was locked."
        self._combined: dict[frozenset[str], tuple[int, FieldNames]] = {}

    def record_field_names(self, product: Mapping[str, Any]) -> None:
        """Record the names of a product before the catalog has them.

        Cost:
            0.1 microseconds while no product was locked
        """
        access = access_of(product)
        if not self._names:
            if not access:
                return
            self._names[""] = self._every.copy_names()
        # Names of further accesses are nobody's, as their products are.
        if access in self._names or len(self._names) <= MOST_TIERS:
            self._names.setdefault(access, set()).update(list_paths(product))

    def find_readable(self, tiers: frozenset[str] | None) -> FieldNames:
        """Return the names of the products that a user with these tiers may read; None: of all products."""
        if tiers is None or not self._names:
            return self._every
        accesses = frozenset(access for access in self._names if not access or access in tiers)
        count = sum(len(self._names[access]) for access in accesses)
        combined = self._combined.get(accesses)
        if combined is None or combined[0] != count:
            if len(self._combined) >= _MOST_COMBINED:
                self._combined.clear()
            names = FieldNames(set().union(*(self._names[access] for access in accesses)))
            combined = self._combined[accesses] = count, names
        return combined[1]
