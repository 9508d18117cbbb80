"""Who may appear: rows and product ids, what is kept of each product, and masks over them.

Rows are positions, given once and kept for the life of the catalog: a removed product leaves its row behind, and a
product that somebody clicked before it was uploaded has a row waiting for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import orjson

from actors.recommender.messages import Circle
from actors.recommender.state.groups import AttributeColumnSource, Groups
from actors.vectors.types import Codes, Mask, ensure_capacity
from cluster.query.columnar.column_store import ColumnStore
from cluster.query.language.tree import Node
from cluster.records.validation.recent_events import GROUP

ATTRIBUTE = "attribute"
"The kind of column that groups products by the values of a field."
_ROW_BYTES = 600
"Ids in lists and dictionaries, groups, categories."
_OUT_OF_STOCK = "OUT_OF_STOCK"
_RELATED = "related_ids"


ChangeListener = Callable[[int, Mapping[str, Any] | None], None]
"Hears of every product that changed, by row; None when it is gone."


class Catalog:
    """The products of one app, by row."""

    def __init__(self, most_unknown: int = 50_000) -> None:
        self.product_ids: list[str] = []
        self.columns = ColumnStore(kinds={ATTRIBUTE: AttributeColumnSource})
        self.categories: Groups[tuple[str, ...]] = Groups()
        self.version = 0
        "Grows with every change of a product."
        self._rows: dict[str, int] = {}
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
        self._most_unknown = most_unknown
        self._listeners: list[ChangeListener] = []
        self.products = 0
        "How many products are there, those out of stock included."

    def __len__(self) -> int:
        """Count rows, those without a product included."""
        return len(self.product_ids)

    @property
    def unused(self) -> int:
        """Count rows without a product: removed ones, and those that wait for theirs."""
        return len(self) - self.products

    @property
    def nbytes(self) -> int:
        """Memory held, estimated: columns as they report, records by what was uploaded."""
        return self.columns.nbytes + int(self._sizes.sum()) + len(self) * _ROW_BYTES

    # --- rows and ids ---------------------------------------------------------------------------------------

    @property
    def row_by_id(self) -> Mapping[str, int]:
        """Rows of product ids, not to be changed."""
        return self._rows

    def row_of(self, name: str) -> int:
        """Find the row of a product, or of the first variant of a group (`group:<id>`); -1 when there is none."""
        row = self._rows.get(name, -1)
        if row < 0 and name.startswith(GROUP):
            row = next(iter(self.rows_of_group(name.removeprefix(GROUP))), -1)
        return row

    def rows_of(self, names: Collection[str]) -> list[int]:
        """Find the rows of those that have one."""
        rows = self._rows
        found = [rows[name] for name in names if name in rows]
        if len(found) < len(names):
            # rare: an unknown product, or a group
            return [row for name in names if (row := self.row_of(name)) >= 0]
        return found

    def get_or_add_row(self, name: str) -> int:
        """Find or make a row; -1 for an unknown group and when too many rows wait for products nobody uploads."""
        row = self.row_of(name)
        if row < 0 and not name.startswith(GROUP) and self.unused < self._most_unknown:
            row = self._add_row(name)
        return row

    def related_rows(self, row: int) -> list[int]:
        """Find the rows of the products and groups that a product's `related_ids` name.

        Cost:
            0.6 microseconds where no product has the field; else the record is read
        """
        if self.columns.fields.missing((_RELATED,)):
            return []
        names: Sequence[str] = self.record(row).get(_RELATED) or ()
        return [found for name in names for found in self.rows_of([name]) or self.rows_of_group(name)]

    def rows_of_group(self, group_id: str) -> list[int]:
        """Find the rows of all variants of a product."""
        return list(self._members.get(self._group_codes.get(group_id, -1), ()))

    def has_single_variants(self, rows: Sequence[int]) -> bool:
        """Tell whether no two of some rows can be variants of one product, because none has any."""
        return self._siblings.keys().isdisjoint(rows)

    def add_variants(self, rows: Iterable[int]) -> list[int]:
        """Add the other variants of the same products."""
        siblings = self._siblings
        if not siblings:
            return list(rows)
        return [variant for row in rows for variant in siblings.get(row, (row,))]

    # --- changes --------------------------------------------------------------------------------------------

    def subscribe(self, watcher: ChangeListener) -> None:
        """Tell somebody of every product that changes from now on."""
        self._listeners.append(watcher)

    def put(self, product: Mapping[str, Any]) -> int:
        """Set a product, old or new; return its row."""
        product_id = product["product_id"]
        row = self._rows.get(product_id)
        if row is None:
            row = self._add_row(product_id)
        self.products += not self._present[row]
        self._present[row] = True
        packed = orjson.dumps(product)
        self._sizes[row] = len(packed)
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
        return row

    def remove(self, product_id: str) -> int:
        """Take a product out; return its row, -1 when it has none."""
        row = self._rows.get(product_id, -1)
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
        return row

    # --- reading --------------------------------------------------------------------------------------------

    @property
    def present(self) -> Mask:
        """Mark rows that have a product. A view: not to be changed."""
        return self._present[: len(self)]

    @property
    def offered(self) -> Mask:
        """Mark rows whose product exists and is not out of stock. A view: not to be changed."""
        return self._offered[: len(self)]

    @property
    def groups(self) -> Codes:
        """Give the code of each row's product group. A view."""
        return self._groups[: len(self)]

    @property
    def parents(self) -> Codes:
        """Give the row of each row's parent, -1 where there is none. A view."""
        return self._parents[: len(self)]

    def record(self, row: int) -> Mapping[str, Any]:
        """Read a product; empty when there is none."""
        return self.columns.record(row) or {}

    def type_mask(self, product_type: str) -> Mask:
        """Mark rows of one type."""
        return np.equal(self._types[: len(self)], self._type_codes.get(product_type, -1))

    def filter_mask(self, node: Node) -> Mask:
        """Mark rows whose product matches a filter. Shared, not to be changed."""
        return self.columns.mask(node)

    def near_mask(self, circle: Circle) -> Mask:
        """Mark rows with a point in a circle."""
        return self.columns.within(circle.lat, circle.lon, circle.distance_km, circle.field)

    @property
    def has_variants(self) -> bool:
        """Do some products have several variants?"""
        return bool(self._siblings)

    def group_by_attribute(self, field: str) -> Groups[str]:
        """Group products by the values of a field, up to date until the next change.

        Cost:
            0.1 s for the first call on 100,000 products, then nothing; beside, when prepared (`columns.preparing`)
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
                self._siblings.update(dict.fromkeys(members, members))

    def _leave_group(self, row: int) -> None:
        code = int(self._groups[row])
        if code >= 0:
            self._groups[row] = -1
            self._siblings.pop(row, None)
            members = self._members[code]
            members.remove(row)
            if not members:
                del self._members[code]

    def _add_row(self, product_id: str) -> int:
        row = self._rows[product_id] = len(self.product_ids)
        self.product_ids.append(product_id)
        # a row without a record stands in the columns too, so that masks fit every other array
        self.columns.append()
        self._present = ensure_capacity(self._present, row + 1)
        self._offered = ensure_capacity(self._offered, row + 1)
        self._groups = ensure_capacity(self._groups, row + 1, -1)
        self._types = ensure_capacity(self._types, row + 1, -1)
        self._parents = ensure_capacity(self._parents, row + 1, -1)
        self._sizes = ensure_capacity(self._sizes, row + 1)
        return row


def _code(codes: dict[str, int], value: str) -> int:
    return codes.setdefault(value, len(codes))


def _list_category_paths(product: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Name every category a product stands in, the broader ones included."""
    for path in product.get("categories") or ():
        for depth in range(1, len(path) + 1):
            yield tuple(str(level) for level in path[:depth])
