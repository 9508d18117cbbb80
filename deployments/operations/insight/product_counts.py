"""How often the lists of each group showed each product, by bucket of people, and the figures of that.

Counts are a sparse matrix, so memory depends on what was shown, not on groups times catalog. Figures without one bucket
at a time follow from the counts of that bucket alone: a report costs a pass over the counts, not one for each bucket.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import csr_array, vstack

BUCKETS: Final = 20
"Buckets that people are spread over."
MOST_CELLS: Final = 64_000_000
"Counts of so many pairs of group, bucket and product stand in an array of 4 bytes each, others in sparse matrices."


@dataclass(slots=True)
class ProductCounts:
    """Counts of products by group and bucket, which tables are added to."""

    groups: dict[str, int] = field(default_factory=dict)
    "Group -> its place in `counts`."
    products: Any = field(default_factory=lambda: pa.array([], pa.string()))
    "Product ids: the columns of `counts`."
    _cells: Any = field(default_factory=lambda: np.zeros((0, 0), np.uint32))
    "Counts while they fit into an array; `_parts` has the others."
    _parts: list[Any] = field(default_factory=list)
    "Matrices of [groups * BUCKETS, products], each with at least twice the entries of the next."

    def add(self, names: Sequence[str], groups: Any, buckets: Any, products: Any) -> None:
        """Add lists.

        Shapes:
            names: names of groups
            groups: [n], positions in `names`
            buckets: [n]
            products: pyarrow list array [n] of product ids, as a dictionary or as texts
        """
        values = products.flatten().dictionary_encode()
        columns = self._number_products(values.dictionary.cast(pa.string()))
        places = np.array([self.groups.setdefault(name, len(self.groups)) for name in names], np.int32)
        rows = places[groups] * np.int32(BUCKETS) + buckets
        lengths = pc.list_value_length(products).fill_null(0).to_numpy(zero_copy_only=False)
        self._append(rows, lengths, columns[values.indices.to_numpy()])

    def merge(self, other: ProductCounts) -> None:
        """Add the counts of another object."""
        other._flush()
        columns = self._number_products(other.products)
        places = [self.groups.setdefault(name, len(self.groups)) for name in other.groups]
        rows = np.add.outer(np.array(places, np.int64) * BUCKETS, np.arange(BUCKETS)).ravel()
        while other._parts:
            # Taken out at once, so that no part takes memory in both forms.
            part = other._parts.pop(0)
            part.resize(len(rows), part.shape[1])
            part = part[np.argsort(rows)]
            lengths = np.zeros(self._size()[0], np.int64)
            lengths[np.sort(rows)] = np.diff(part.indptr)
            ends = np.concatenate([[0], np.cumsum(lengths)])
            self._parts.append(csr_array((part.data, columns[part.indices], ends), shape=self._size()))
        self._join()

    def read(self, total: str) -> dict[str, Any]:
        """Return group -> counts, sparse [BUCKETS, products]; under the name `total` the sum, if it was not added."""
        self._flush()
        while len(self._parts) > 1:
            self._add_last()
        if not self._parts:
            return {}
        counts = self._parts[0]
        counts.resize(self._size())
        groups = {name: _view_rows(counts, at * BUCKETS) for name, at in self.groups.items()}
        if total not in groups:
            rows = np.arange(counts.shape[0])
            adder = csr_array((np.ones(len(rows), np.uint32), (rows % BUCKETS, rows)))
            groups[total] = adder @ counts
        return {name: part for name, part in groups.items() if part.nnz}

    def _append(self, rows: Any, lengths: Any, columns: Any) -> None:
        """Add a count of 1 for each product of each list.

        Shapes:
            rows, lengths: [n]
            columns: [sum of lengths]
        """
        height, width = self._size()
        if height * width > MOST_CELLS:
            self._flush()
            ones = np.ones(len(columns), np.uint32)
            self._parts.append(self._shape((ones, (np.repeat(rows, lengths), columns))))
            self._join()
            return
        before = self._cells
        if before.shape[0] < height or before.shape[1] < width:
            # groups and a catalog grow with every file, so there is room for more; it costs no memory before it is used
            room = max(width, min(3 * before.shape[1] // 2, MOST_CELLS // height))
            rows_room = max(height, min(2 * before.shape[0], MOST_CELLS // room))
            self._cells = np.zeros((rows_room, room), np.uint32)
            kept = before[:height, :room]
            self._cells[: kept.shape[0], : kept.shape[1]] = kept
        # 4 bytes hold every cell, and half of the bytes take half of the time
        cells = np.repeat(rows * np.int32(self._cells.shape[1]), lengths)
        cells += columns
        np.add.at(self._cells.reshape(-1), cells, np.uint32(1))

    def _flush(self) -> None:
        """Move the counts of the array into a sparse matrix."""
        if self._cells.size:
            height, width = self._size()
            # group by group: the positions of all counts at once take several times the memory of the matrix
            blocks = [csr_array(self._cells[at : at + BUCKETS, :width]) for at in range(0, height, BUCKETS)]
            self._parts.append(vstack(blocks, format="csr", dtype=np.uint32))
            self._cells = np.zeros((0, 0), np.uint32)
            self._join()

    def _shape(self, entries: Any) -> Any:
        return csr_array(entries, shape=self._size(), dtype=np.uint32)

    def _size(self) -> tuple[int, int]:
        return len(self.groups) * BUCKETS, len(self.products)

    def _join(self) -> None:
        """Add the last matrices while they are about as large as the one before: each entry moves a few times."""
        while len(self._parts) > 1 and self._parts[-2].nnz < 2 * self._parts[-1].nnz:
            self._add_last()

    def _add_last(self) -> None:
        last = self._parts.pop()
        for part in (self._parts[-1], last):
            part.resize(self._size())
        self._parts[-1] = self._parts[-1] + last

    def _number_products(self, names: Any) -> Any:
        """Return the column of each product."""
        columns = pc.index_in(names, value_set=self.products)
        if columns.null_count:
            self.products = pa.concat_arrays([self.products, names.filter(columns.is_null())])
            columns = pc.index_in(names, value_set=self.products)
        return columns.to_numpy(zero_copy_only=False).astype(np.int32)


def _view_rows(counts: Any, first: int) -> Any:
    """Return `BUCKETS` rows of a sparse matrix without a copy: a slice would take the memory of all counts again."""
    ends = counts.indptr[first : first + BUCKETS + 1]
    span = slice(ends[0], ends[-1])
    entries = (counts.data[span], counts.indices[span], ends - ends[0])
    return csr_array(entries, shape=(BUCKETS, counts.shape[1]), copy=False)


@dataclass(frozen=True, slots=True)
class ProductMeasures:
    """What figures know of products: `bits`, `is_fresh` [products], and the size of the catalog."""

    bits: Any
    is_fresh: Any
    catalog: int

    def measure(self, counts: Any) -> Mapping[str, Any]:
        """Return the figures of a group: name -> [1 + BUCKETS], of everyone and without each bucket.

        Shapes:
            counts: sparse [BUCKETS, products]
        """
        totals = np.asarray(counts.sum(axis=0)).astype(np.int64)
        # Products that were shown and are deleted by now count too.
        catalog = max(self.catalog, int((totals > 0).sum()))
        frequencies = np.bincount(totals)
        shown = float(totals.sum())
        bits = float(totals @ self.bits)
        fresh = float(totals @ self.is_fresh)
        rows = [_measure(frequencies, shown, bits, fresh, catalog)]
        # one pass over all counts: gathers for each bucket would take three times as long as all the rest
        bits_of = counts @ self.bits
        fresh_of = counts @ self.is_fresh.astype(float)
        shown_of = counts.sum(axis=1)
        for bucket in range(BUCKETS):
            span = slice(counts.indptr[bucket], counts.indptr[bucket + 1])
            columns = counts.indices[span]
            its = counts.data[span].astype(np.int64)
            left = totals[columns]
            size = len(frequencies)
            # Without a bucket, its products move to lower frequencies; all others stay where they are.
            without = (
                frequencies - np.bincount(left, minlength=size) + np.bincount(left - its, minlength=size)
            )
            rows.append(
                _measure(
                    without,
                    shown - float(shown_of[bucket]),
                    bits - float(bits_of[bucket]),
                    fresh - float(fresh_of[bucket]),
                    catalog,
                )
            )
        return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def _measure(frequencies: Any, shown: float, bits: float, fresh: float, catalog: int) -> dict[str, float]:
    return {
        "coverage": float(frequencies[1:].sum()) / catalog,
        "gini": compute_gini(frequencies, catalog),
        "novelty": bits / shown if shown else 0.0,
        "new_products": fresh / shown if shown else 0.0,
    }


def compute_gini(frequencies: Any, catalog: int) -> float:
    """Return the Gini coefficient of how often the products of a catalog were shown.

    Shapes:
        frequencies: [most + 1]: number of products that were shown 0, 1, 2... times; that of 0 is not read
    """
    shown = np.flatnonzero(frequencies[1:]) + 1
    numbers = frequencies[shown].astype(float)
    total = float(shown @ numbers)
    if not total:
        return 0.0
    # products with one count have neighbouring ranks
    before = catalog - numbers.sum() + np.cumsum(numbers) - numbers
    ranks = numbers * before + numbers * (numbers + 1) / 2
    return float(shown @ (2 * ranks - numbers * (catalog + 1)) / (catalog * total))
