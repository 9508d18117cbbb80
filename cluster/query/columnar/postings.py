"""Rows by code, any number of codes for each row.

The codes of a row are written once under a fresh slot. Replacing or removing a row sets the row of its old slot to
-1, so no list is ever searched. Slots are sorted by code occasionally, and the few new ones are scanned; sorting
drops unused slots, which are then reused.

    row ──▶ slot            the current slot, -1 for none
    slot ──▶ row            -1 when unused
    code ──▶ slots          sorted part, by start offsets; then an unsorted tail
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from cluster.query.columnar.arrays import GrowingArray

# Slots that a query scans unsorted; with an eighth of the sorted ones, sorting stays linear on the whole.
_TAIL = 1_024
# Chosen codes from which one pass over all slots is faster than collecting their pieces.
_MANY = 4_096


def sort_order(codes: NDArray[np.int32]) -> NDArray[np.intp]:
    """Return the stable sort order of codes, 0 or above.

    Shapes:
        codes: int32 [n]
        returns: intp [n]

    Cost:
        1,000,000 below 65,536: 15 ms; above: 80 ms
    """
    narrow = not len(codes) or int(codes.max()) < 1 << 16
    # NumPy sorts 16-bit numbers by radix
    return np.argsort(codes.astype(np.uint16) if narrow else codes, kind="stable")


class RowPostings:
    """Rows by code."""

    def __init__(self) -> None:
        self._slot_of_row = GrowingArray(np.int32, -1)
        self._row_of_slot = GrowingArray(np.int32, -1)
        self._sorted_slots: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self._sorted_codes: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        self._starts: NDArray[np.intp] = np.empty(0, dtype=np.intp)
        self._tail_slots = array("i")
        self._tail_codes = array("i")
        self._free: list[int] = []
        self._tail: tuple[NDArray[np.int32], NDArray[np.int32]] | None = None

    def __len__(self) -> int:
        return len(self._sorted_slots) + len(self._tail_slots)

    @property
    def slots(self) -> int:
        """Return the number of slots ever allocated."""
        return len(self._row_of_slot)

    @property
    def nbytes(self) -> int:
        return 8 * len(self) + self._slot_of_row.nbytes + self._row_of_slot.nbytes

    def put(self, row: int, codes: Collection[int]) -> None:
        """Replace the codes of a row."""
        if row < len(self._slot_of_row):
            before = self._slot_of_row.filled[row]
            if before >= 0:
                # The codes of the old slot stay in the postings; the row -1 makes them harmless.
                self._row_of_slot.set(int(before), -1)
                self._slot_of_row.set(row, -1)
        if codes:
            slot = self._free.pop() if self._free else len(self._row_of_slot)
            self._row_of_slot.set(slot, row)
            self._slot_of_row.set(row, slot)
            self._tail_slots.extend([slot] * len(codes))
            self._tail_codes.extend(codes)
            self._tail = None

    def write_new_rows(self, rows: Sequence[int], counts: Sequence[int], codes: Sequence[int]) -> None:
        """Write many empty rows: `codes` one row after the other, `counts` of them for each row."""
        if not rows:
            return
        first = len(self._row_of_slot)
        slots = np.arange(first, first + len(rows), dtype=np.int32)
        self._row_of_slot.write(first, np.array(rows, np.int32))
        self._slot_of_row.extend_to(max(rows) + 1)
        self._slot_of_row.filled[list(rows)] = slots
        self._tail_slots.extend(np.repeat(slots, counts).tolist())
        self._tail_codes.extend(codes)
        self._tail = None

    def sort_pairs(self) -> None:
        """Sort the written slots before the first query."""
        self._sort_tail()

    def mark(self, code: int, mask: NDArray[np.bool_]) -> None:
        """Set the rows that have a code.

        Shapes:
            mask bool [rows + 1]; the last element is scratch
        """
        slots, codes = self._sort_tail()
        rows = self._row_of_slot.filled
        if code + 1 < len(self._starts):
            # Unused slots have row -1, which marks the scratch element at the end.
            mask[rows[self._sorted_slots[self._starts[code] : self._starts[code + 1]]]] = True
        if len(slots):
            mask[rows[slots[codes == code]]] = True

    def mark_chosen(self, chosen: NDArray[np.bool_], mask: NDArray[np.bool_]) -> None:
        """Set the rows that have any chosen code.

        Shapes:
            chosen bool [codes or more]; mask bool [rows + 1], the last element is scratch
        """
        slots, codes = self._sort_tail()
        rows = self._row_of_slot.filled
        starts = self._starts
        chosen_codes = np.flatnonzero(chosen[: max(len(starts) - 1, 0)])
        # One pass over all slots is faster than joining so many pieces.
        if len(chosen_codes) > _MANY:
            mask[rows[self._sorted_slots[np.repeat(chosen[: len(starts) - 1], np.diff(starts))]]] = True
        elif len(chosen_codes):
            pieces = [self._sorted_slots[starts[code] : starts[code + 1]] for code in chosen_codes.tolist()]
            mask[rows[np.concatenate(pieces)]] = True
        if len(slots):
            mask[rows[slots[chosen[codes]]]] = True

    def pairs(self, rows: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows and codes of marked rows, unordered.

        Shapes:
            rows bool [n]; rows beyond n are not marked
        """
        slots, codes = self._sort_tail()
        slots = np.concatenate((self._sorted_slots, slots))
        codes = np.concatenate((self._sorted_codes, codes))
        owners = self._row_of_slot.filled[slots]
        # Rows of unused slots, and rows beyond the mask, are sent to this last element.
        marked = np.append(rows, False)
        in_rows = marked[np.where((owners >= 0) & (owners < len(rows)), owners, len(rows))]
        return owners[in_rows].astype(np.int64), codes[in_rows].astype(np.int64)

    def _sort_tail(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Sort the tail in when it has grown long; return the rest of it."""
        if len(self._tail_slots) > max(_TAIL, len(self._sorted_slots) // 8):
            slots = np.concatenate((self._sorted_slots, np.frombuffer(self._tail_slots, dtype=np.int32)))
            codes = np.concatenate((self._sorted_codes, np.frombuffer(self._tail_codes, dtype=np.int32)))
            rows = self._row_of_slot.filled
            alive = rows[slots] >= 0
            # Only now: a free slot may still stand in the sorted part, and its new row would get the old
            # codes.
            self._free = np.flatnonzero(rows < 0).tolist()
            slots = slots[alive]
            codes = codes[alive]
            order = sort_order(codes)
            self._sorted_slots = slots[order]
            self._sorted_codes = codes[order]
            last = int(self._sorted_codes[-1]) if len(order) else -1
            # starts[code] to starts[code + 1] are the slots of a code; one more entry ends the last.
            self._starts = np.searchsorted(self._sorted_codes, np.arange(last + 2, dtype=np.int32))
            self._tail_slots = array("i")
            self._tail_codes = array("i")
            self._tail = None
        if self._tail is None:
            self._tail = (
                np.array(self._tail_slots, dtype=np.int32),
                np.array(self._tail_codes, dtype=np.int32),
            )
        return self._tail
