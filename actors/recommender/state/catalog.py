"""The catalog: rows and ids of products, their columns, and masks over rows.

A row is a position that a product keeps for the life of the catalog. A removed product keeps its row, and a product
with an interaction before its upload already has one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from actors.recommender.messages import Circle
from actors.recommender.state.groups import AttributeColumnSource, Groups
from actors.recommender.state.readable_fields import FieldAccess
from actors.vectors.types import Codes, Mask, Rows, ensure_capacity
from cluster.compact_json import dump_compact
from cluster.query.columnar.column_store import ColumnStore
from cluster.query.language.tree import Node
from cluster.records.validation.recent_events import GROUP

ATTRIBUTE = "attribute"
"The kind of column that groups products by the values of a field."
_ROW_BYTES = 600
"Estimated bytes of a row for ids in lists and dictionaries, groups and categories."
_OUT_OF_STOCK = "OUT_OF_STOCK"
_RELATED = "related_ids"


ChangeListener = Callable[[int, Mapping[str, Any] | None], None]
"Called with the row and record of every changed product; the record is None after a removal."


class Catalog:
    """The products of one app, by row."""

    # Interactions may name ids that are never uploaded: a bound keeps invented ids from filling the memory.
    def __init__(self, most_unknown: int = 50_000) -> None:
        self.product_ids: list[str] = []
        self.columns = ColumnStore(kinds={ATTRIBUTE: AttributeColumnSource})
        self.field_access = FieldAccess(self.columns.fields)
        self.categories: Groups[tuple[str, ...]] = Groups()
        self.version = 0
        "Increases with every change of a product."
        self.row_by_id: dict[str, int] = {}
        "Rows of product ids. Only the catalog changes it."
        self._present: Mask = np.zeros(0, np.bool_)
        self._offered: Mask = np.zeros(0, np.bool_)
        self._groups = np.zeros(0, np.int32)
        self._types = np.zeros(0, np.int32)
        self._parents = np.zeros(0, np.int32)
        self._group_codes: dict[str, int] = {}
        self._members: dict[int, list[int]] = {}
        self._siblings: dict[int, list[int]] = {}
        self._type_codes: dict[str, int] = {}
        self._sizes = np.zeros(0, np.int32)
        self._changed = np.zeros(0, np.int64)
        "Version of the last change of each row."
        self._most_unknown = most_unknown
        self._unknown = 0
        "Number of rows whose product was never uploaded; removed products do not count."
        self._listeners: list[ChangeListener] = []
        self.products = 0
        "Number of products, including those that are out of stock."

    def __len__(self) -> int:
        """Return the number of rows, including rows without a product."""
        return len(self.product_ids)

    @property
    def unused(self) -> int:
        """Return the number of rows without a product: removed, or not yet uploaded."""
        return len(self) - self.products

    @property
    def nbytes(self) -> int:
        return self.columns.nbytes + int(self._sizes.sum()) + len(self) * _ROW_BYTES

    def row_of(self, name: str) -> int:
        """Return the row of a product, or of the first variant of a group (`group:<id>`); -1 when there is none."""
        row = self.row_by_id.get(name, -1)
        if row < 0 and name.startswith(GROUP):
            row = next(iter(self.rows_of_group(name.removeprefix(GROUP))), -1)
        return row

    def rows_of(self, names: Collection[str]) -> list[int]:
        """Return the rows of products and groups, without names that have no row."""
        rows_by_id = self.row_by_id
        rows = [rows_by_id[name] for name in names if name in rows_by_id]
        if len(rows) < len(names):
            # rare: an unknown product, or a group
            return [row for name in names if (row := self.row_of(name)) >= 0]
        return rows

    def get_or_add_row(self, name: str) -> int:
        """Return the row of a product, a new one if needed.

        Returns -1 for an unknown group, or with too many rows of products that were never uploaded.
        """
        row = self.row_of(name)
        # An interaction may come before the upload of its product (decision 3), so its row is made early.
        if row < 0 and not name.startswith(GROUP) and self._unknown < self._most_unknown:
            row = self._add_row(name)
            self._unknown += 1
        return row

    def related_rows(self, row: int) -> list[int]:
        """Return the rows of the products and groups in `related_ids` of a product.

        Cost:
            0.6 microseconds if no product has the field; else the catalog reads the record
        """
        if self.columns.fields.missing((_RELATED,)):
            return []
        names: Sequence[str] = self.record(row).get(_RELATED) or ()
        return [related for name in names for related in self.rows_of([name]) or self.rows_of_group(name)]

    def rows_of_group(self, group_id: str) -> list[int]:
        return list(self._members.get(self._group_codes.get(group_id, -1), ()))

    def has_single_variants(self, rows: Sequence[int]) -> bool:
        """Return whether none of these rows has another variant."""
        return self._siblings.keys().isdisjoint(rows)

    def expand_variants(self, rows: Iterable[int]) -> list[int]:
        """Return these rows with all variants of the same products."""
        siblings = self._siblings
        if not siblings:
            return list(rows)
        return [variant for row in rows for variant in siblings.get(row, (row,))]

    def subscribe(self, watcher: ChangeListener) -> None:
        """Call a listener for every later change of a product."""
        self._listeners.append(watcher)

    def put(self, product: Mapping[str, Any]) -> int:
        """Add or replace a product; return its row."""
        product_id = product["product_id"]
        row = self.row_by_id.get(product_id)
        if row is None:
            row = self._add_row(product_id)
        elif not self._changed[row]:
            # Versions begin at 1, so this row was made by an interaction.
            self._unknown -= 1
        # A bool counts as 0 or 1: a replaced product is no new one.
        self.products += not self._present[row]
        self._present[row] = True
        # Packed as JSON: many objects would make the cyclic garbage collector scan all of them.
        packed = dump_compact(product)
        self._sizes[row] = len(packed)
        self.field_access.record_field_names(product)
        self.columns.replace(row, packed)
        self._offered[row] = product.get("availability") != _OUT_OF_STOCK
        self._join_group(row, product.get("product_group_id") or product_id)
        self._types[row] = _code(self._type_codes, product.get("type") or "")
        parent_id = product.get("parent_id")
        self._parents[row] = self.get_or_add_row(parent_id) if parent_id else -1
        self.categories.put(row, _list_category_paths(product))
        for watcher in self._listeners:
            watcher(row, product)
        self.version += 1
        self._changed[row] = self.version
        return row

    def remove(self, product_id: str) -> int:
        """Remove a product; return its row, -1 when it has none."""
        row = self.row_by_id.get(product_id, -1)
        if row >= 0 and self._present[row]:
            self.products -= 1
            self._present[row] = self._offered[row] = False
            self._sizes[row] = 0
            self._leave_group(row)
            self.columns.remove(row)
            self.categories.remove(row)
            for watcher in self._listeners:
                watcher(row, None)
            self.version += 1
            self._changed[row] = self.version
        return row

    @property
    def present(self) -> Mask:
        """Return a mask of the rows that have a product: a view that the caller must not change.

        Shapes:
            returns: bool [n]
        """
        return self._present[: len(self)]

    @property
    def offered(self) -> Mask:
        """Return a mask of the rows with a product in stock: a view that the caller must not change.

        Shapes:
            returns: bool [n]
        """
        return self._offered[: len(self)]

    @property
    def groups(self) -> Codes:
        """Return a view of the code of each row's product group.

        Shapes:
            returns: int32 [n], -1 where there is none
        """
        return self._groups[: len(self)]

    @property
    def parents(self) -> Codes:
        """Return a view of the row of each row's parent.

        Shapes:
            returns: int32 [n], -1 where there is none
        """
        return self._parents[: len(self)]

    def record(self, row: int) -> Mapping[str, Any]:
        """Return the record of a product; empty when there is none."""
        return self.columns.record(row) or {}

    def list_changed(self, version: int) -> Rows:
        """Return the rows whose products changed after a version of the catalog.

        Shapes:
            returns: int64 [m]
        """
        return np.flatnonzero(self._changed[: len(self)] > version)

    def type_mask(self, product_type: str) -> Mask:
        """Return a mask of the rows of one product type.

        Shapes:
            returns: bool [n]
        """
        return np.equal(self._types[: len(self)], self._type_codes.get(product_type, -1))

    def filter_mask(self, node: Node) -> Mask:
        """Return a mask of the rows that match a filter. Queries share it, so the caller must not change it.

        Shapes:
            returns: bool [n]
        """
        return self.columns.mask(node)

    def near_mask(self, circle: Circle) -> Mask:
        """Return a mask of the rows with a point in a circle.

        Shapes:
            returns: bool [n]
        """
        return self.columns.within(circle.lat, circle.lon, circle.distance_km, circle.field)

    @property
    def has_variants(self) -> bool:
        return bool(self._siblings)

    def group_by_attribute(self, field: str) -> Groups[str]:
        """Return the products grouped by the values of a field. The groups hold until the next change.

        Cost:
            0.1 s for the first call on 100,000 products, then nothing; the column store can build the groups before
        """
        groups: Groups[str] = self.columns.of_kind(ATTRIBUTE, field)
        return groups

    def _join_group(self, row: int, group_id: str) -> None:
        code = _code(self._group_codes, group_id)
        if self._groups[row] != code:
            self._leave_group(row)
            self._groups[row] = code
            members = self._members.setdefault(code, [])
            members.append(row)
            if len(members) > 1:
                # All members share one list, so a later variant of the group appears for each of them.
                self._siblings.update(dict.fromkeys(members, members))

    def _leave_group(self, row: int) -> None:
        code = int(self._groups[row])
        if code >= 0:
            self._groups[row] = -1
            # The row that stays behind alone keeps its entry: harmless, because the list has itself only.
            self._siblings.pop(row, None)
            members = self._members[code]
            members.remove(row)
            if not members:
                del self._members[code]

    def _add_row(self, product_id: str) -> int:
        row = self.row_by_id[product_id] = len(self.product_ids)
        self.product_ids.append(product_id)
        # columns have rows without a record too, so that masks have the length of all other arrays
        self.columns.append()
        self._present = ensure_capacity(self._present, row + 1)
        self._offered = ensure_capacity(self._offered, row + 1)
        self._groups = ensure_capacity(self._groups, row + 1, -1)
        self._types = ensure_capacity(self._types, row + 1, -1)
        self._parents = ensure_capacity(self._parents, row + 1, -1)
        self._sizes = ensure_capacity(self._sizes, row + 1)
        self._changed = ensure_capacity(self._changed, row + 1)
        return row


def _code(codes: dict[str, int], value: str) -> int:
    return codes.setdefault(value, len(codes))


def _list_category_paths(product: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield every category path of a product, including its prefixes."""
    for path in product.get("categories") or ():
        # Prefixes too: a product of a sub-category is a product of the categories above it.
        for depth in range(1, len(path) + 1):
            yield tuple(str(level) for level in path[:depth])
