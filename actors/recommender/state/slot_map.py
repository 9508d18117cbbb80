"""Where products stand in a vector of what the parts of a score say: in slots.

What was learned speaks of the snapshot's items in their order, everything else of rows. Slots join them: first one for
each item, in the snapshot's order, then one for each row it does not know. So the snapshot's arrays are read as they
lie, and only what is looked at is brought into rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from actors.vectors.types import Rows, Scores


@dataclass(frozen=True, slots=True)
class SlotMap:
    """Slots of rows and rows of slots. Without a snapshot both are the same, and the arrays are not there.

    Shapes:
        slot_of: int64 [rows]; row_of: int64 [count], -1 for items that have no row
    """

    count: int
    slot_of: Rows | None = None
    row_of: Rows | None = None

    def slots(self, rows: Rows) -> Rows:
        """Give the slots of rows, in any shape."""
        return rows if self.slot_of is None else self.slot_of[rows]

    def rows(self, slots: Rows) -> Rows:
        """Give the rows of slots, -1 for products that are not there any more."""
        return slots if self.row_of is None else self.row_of[slots]

    def expand_to_rows(self, values: Scores, count: int) -> Scores:
        """Lay values of slots out for the first `count` rows.

        Shapes:
            values: float32 [slots]; returns: float32 [count], a view or fresh
        """
        return values[:count] if self.slot_of is None else values.take(self.slot_of[:count])
