"""Rows of one order joined to one interaction: exported order lines become baskets.

Rows belong together if they have the same order number, user and type, or the same user, type and time. Their products
become one list. Quantities and revenues are added. The time is that of the first row. Everything else is taken from
the first row.

A file need not be sorted. The reader holds the orders that are open: those whose rows came last, at most
`MOST_OPEN_ORDERS` with `MOST_OPEN_ROWS` rows. It closes the order whose newest row is the oldest. So memory is bounded
for any file, and a file with fewer orders is joined completely in any sequence. If rows of a closed order follow, they
become an order of their own, and a warning counts such orders; a file sorted by order avoids them. The result depends
only on the file, so a continued ingest finds the same orders.

A row that can't be joined, because a value is missing or invalid, stays alone. Its validation reports it, and it
affects no other row.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

from cluster.records.field_types.times import is_stored_moment, moment_ms, moment_text
from jobs.ingest.files.chunks import CHUNK_BYTES
from jobs.ingest.files.sources import RowFiles, SourceFile
from jobs.ingest.files.unreadable_row import Row, UnreadableRow
from jobs.ingest.mappings.mapping import ORDER_ID, SAME_USER_AND_TIME, FieldMap

MOST_OPEN_ORDERS = 50_000
MOST_OPEN_ROWS = 1_000_000
"Rows of all open orders together; a row with long texts counts as several."
MOST_PRODUCTS = 10_000
"Products of one interaction; a larger order continues in a second one."
MOST_REMEMBERED = 1_000_000
"Closed orders that are remembered to notice rows that follow later."
_READ_ROWS = 2_000
_LARGEST = 1e12

_Key: TypeAlias = tuple[Any, ...]


class BasketChunk(list[Row]):
    """Interactions of joined rows."""

    def __init__(self, rows: list[Row], numbers: tuple[int, ...], lines: int) -> None:
        super().__init__(rows)
        self.numbers = numbers
        "Number in the file of the first row of each interaction."
        self.lines = lines
        "Number of rows that were joined to these interactions."


@dataclass
class BasketReport:
    """Counts of what was joined so far."""

    lines: int = 0
    orders: int = 0
    "Number of interactions that were joined from rows."
    reopened: int = 0
    "Number of orders whose rows were too far apart."

    def warnings(self) -> list[str]:
        """Return what people should know of it."""
        if not self.orders:
            return []
        texts = [f"{self.lines:,} rows were joined to {self.orders:,} orders"]
        if self.reopened:
            texts.append(
                f"{self.reopened:,} orders have rows more than {MOST_OPEN_ORDERS:,} orders apart and were not joined "
                "completely; sort the file by order"
            )
        return texts


class BasketFiles:
    """The rows of files, mapped and joined; a source of rows for `jobs.ingest.pipeline`."""

    def __init__(
        self,
        files: RowFiles,
        mapping: FieldMap,
        chunk_bytes: int = CHUNK_BYTES,
        most_open: int = MOST_OPEN_ORDERS,
    ) -> None:
        self._files = files
        self._mapping = mapping
        # 0 means no bound.
        self._chunk_bytes = chunk_bytes or float("inf")
        self._most_open = most_open
        self.report = BasketReport()

    def find(self, address: str) -> list[SourceFile]:
        return self._files.find(address)

    def chunks(self, source: SourceFile, size: int, skip: int = 0) -> Iterator[tuple[int, BasketChunk]]:
        """Yield chunks of at most `size` interactions after the first `skip`, each with the position of its first one.

        A chunk ends with the interaction that passes `chunk_bytes`. An interrupted ingest reads the file from the
        beginning, because an order may have rows anywhere.
        """
        joiner = _BasketJoiner(self._most_open)
        first = skip
        rows = list[Row]()
        numbers = list[int]()
        lines = 0
        chunk_bytes = 0
        for number, row, count in islice(self._joined(source, joiner), skip, None):
            rows.append(row)
            numbers.append(number)
            lines += count
            chunk_bytes += _measure(row)
            if len(rows) == size or chunk_bytes >= self._chunk_bytes:
                yield first, self._report(BasketChunk(rows, tuple(numbers), lines), joiner)
                first = first + len(rows)
                rows = []
                numbers = []
                lines = 0
                chunk_bytes = 0
        if rows:
            yield first, self._report(BasketChunk(rows, tuple(numbers), lines), joiner)

    def _joined(self, source: SourceFile, joiner: _BasketJoiner) -> Iterator[tuple[int, Row, int]]:
        read = self._mapping.build_row_mapper(source.format)
        for start, rows in self._files.chunks(source, _READ_ROWS):
            for number, row in enumerate(rows, start):
                if isinstance(row, UnreadableRow):
                    yield number, row, 1
                    continue
                yield from joiner.add(number, read(row))
        yield from joiner.close()

    def _report(self, chunk: BasketChunk, joiner: _BasketJoiner) -> BasketChunk:
        self.report.lines += chunk.lines
        self.report.orders += len(chunk)
        self.report.reopened = joiner.reopened
        return chunk


@dataclass(slots=True)
class _OpenOrder:
    """An order whose rows are not all read."""

    number: int
    record: dict[str, Any]
    at_ms: int | None
    weight: int
    lines: int = 0
    products: int = 0
    quantities: dict[str, float] = field(default_factory=dict)
    has_quantities: bool = False
    revenue: float | None = None

    def add(self, record: dict[str, Any]) -> None:
        """Add the products of a row."""
        self.lines += 1
        self.products += len(record["product_ids"])
        amounts = record.get("quantities")
        self.has_quantities |= amounts is not None
        ids = record["product_ids"]
        # A row without a quantity is one piece, so that orders with and without quantities add up.
        amounts = amounts if isinstance(amounts, list) else [1 if amounts is None else amounts] * len(ids)
        for product_id, amount in zip(ids, amounts, strict=True):
            self.quantities[product_id] = self.quantities.get(product_id, 0) + amount
        if (revenue := record.get("revenue")) is not None:
            self.revenue = (self.revenue or 0.0) + revenue
        at_ms = _time_of(record)
        if at_ms is not None and (self.at_ms is None or at_ms < self.at_ms):
            self.at_ms = at_ms

    def build_record(self) -> dict[str, Any]:
        """Return the interaction of all rows."""
        record = {**self.record, "product_ids": list(self.quantities)}
        if self.has_quantities:
            record["quantities"] = [_short(amount) for amount in self.quantities.values()]
        if self.revenue is not None:
            # Sums of cents in binary floats end in digits such as 0.30000000000000004.
            record["revenue"] = round(self.revenue, 6)
        if self.at_ms is not None:
            record["timestamp"] = moment_text(self.at_ms)
        return record


class _BasketJoiner:
    """Joins rows in the sequence of the file."""

    def __init__(self, most_open: int) -> None:
        self._most_open = most_open
        self._open: OrderedDict[_Key, _OpenOrder] = OrderedDict()
        self._closed: set[int] = set()
        self._rows = 0
        self.reopened = 0

    def add(self, number: int, record: dict[str, Any]) -> Iterator[tuple[int, Row, int]]:
        """Take a row and yield what is complete: the position of its first row, the interaction, its number of rows."""
        key = _order_key(record)
        record = {name: value for name, value in record.items() if name != ORDER_ID}
        if key is None:
            yield number, record, 1
            return
        order = self._open.get(key)
        # The full order is complete, and its key begins a second one that is not counted as reopened.
        if order is not None and len(order.quantities) + len(record["product_ids"]) > MOST_PRODUCTS:
            yield self._take(key)
            order = None
        if order is None:
            # Hashes take less memory than keys, and a collision only makes the warning count one too many.
            self.reopened += hash(key) in self._closed
            order = self._open[key] = _OpenOrder(number, record, _time_of(record), weight=_weight(record))
            self._rows += order.weight
        order.add(record)
        self._rows += len(record["product_ids"])
        self._open.move_to_end(key)
        # The first entry is the order whose last row lies farthest back, thanks to `move_to_end` above.
        while len(self._open) > self._most_open or self._rows > MOST_OPEN_ROWS:
            oldest = next(iter(self._open))
            if len(self._closed) < MOST_REMEMBERED:
                self._closed.add(hash(oldest))
            yield self._take(oldest)

    def _take(self, key: _Key) -> tuple[int, Row, int]:
        order = self._open.pop(key)
        # Exactly what `add` counted for it: a difference would add up, and close orders too early.
        self._rows -= order.weight + order.products
        return order.number, order.build_record(), order.lines

    def close(self) -> Iterator[tuple[int, Row, int]]:
        """Yield the orders that are still open, in the sequence of their first rows."""
        for order in sorted(self._open.values(), key=lambda order: order.number):
            yield order.number, order.build_record(), order.lines
        self._open.clear()


def _order_key(record: dict[str, Any]) -> _Key | None:
    """Return what rows of one order have in common; None for a row that stays alone."""
    order_id = record.get(ORDER_ID)
    ids = record.get("product_ids")
    users = (record.get("user_id"), record.get("anonymous_id"))
    texts = (order_id, record.get("type"), *(name for name in users if name is not None))
    # Only texts: an invalid value stays with its own row, whose validation then names it.
    if not order_id or not any(users) or not all(isinstance(text, str) for text in texts):
        return None
    if not isinstance(ids, list) or not ids or not all(isinstance(text, str) and text for text in ids):
        return None
    if not _are_amounts(record.get("quantities"), len(ids)) or not _is_number(record.get("revenue", 0)):
        return None
    at_ms = _time_of(record)
    if at_ms is None and record.get("timestamp") is not None:
        return None
    by_time = at_ms if order_id == SAME_USER_AND_TIME else None
    return None if by_time is None and order_id == SAME_USER_AND_TIME else (*texts, *users, by_time)


def _weight(record: dict[str, Any]) -> int:
    """Return how many rows without long texts need the memory of a record's other fields."""
    return sum(len(str(value)) for name, value in record.items() if name != "product_ids") // 500


def _measure(row: Row) -> int:
    """Return about the bytes of an interaction as JSON."""
    if isinstance(row, UnreadableRow):
        return len(row.text)
    return sum(len(str(value)) for value in row.values())


def _are_amounts(value: Any, count: int) -> bool:
    numbers = value if isinstance(value, list) else [1 if value is None else value]
    is_complete = not isinstance(value, list) or len(value) == count
    return is_complete and all(_is_number(number) and number > 0 for number in numbers)


def _is_number(value: Any) -> bool:
    # By class: for `isinstance`, True is an int, and no quantity. Sums of larger numbers could pass 64 bits.
    return value.__class__ in (int, float) and abs(value) < _LARGEST


def _time_of(record: dict[str, Any]) -> int | None:
    """Return the time of a record in milliseconds since 1970; None without one, or if it is invalid."""
    text = record.get("timestamp")
    if not isinstance(text, str) or not (is_stored_moment(text) or len(text) < 40):
        return None
    try:
        return moment_ms(text)
    except ValueError:
        return None


def _short(amount: float) -> float:
    """Return whole numbers without a fraction, so that equal orders have equal bytes."""
    return int(amount) if amount == int(amount) else round(amount, 6)
