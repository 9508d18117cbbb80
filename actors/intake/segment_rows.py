"""Turn changes of the log into the rows of a segment: pure functions.

Removals and erasures apply to the rows before them, in log order. The rows that a person writes after an erasure stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from cluster import ids
from cluster.artifacts.segment_format import INTERACTIONS, RECORDS
from cluster.artifacts.segments import position_from_offset
from cluster.compact_json import dump_compact
from cluster.records.intake import Noun
from cluster.store.data.change_log import ChangeLogEntry

GROUP = "group:"
UNKNOWN_RATING = 3.0
SHORTEST_S = 0.001
# Interactions whose columns are Python lists at a time: they become Arrow arrays, which need less memory.
_GROUP_ROWS = 10_000
_READ_ERRORS = (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError, pa.ArrowException)


@dataclass(frozen=True, slots=True)
class CompactionBatch:
    """The rows that a run of changes of one kind of record adds to the segments and removes from them."""

    table: Any
    "pyarrow.Table with the columns of the kind of record."
    erased: tuple[str, ...]
    "User ids (with prefix for interactions) whose earlier rows must leave the segments."
    first: str
    last: str
    refused: tuple[str, ...] = ()
    "Reasons for omitted rows: malformed log entries. They must never stop the rest."
    has_erased_rows: bool = False
    "Whether changes had rows that later changes of the batch erased."


def build_compaction_batch(noun: Noun, changes: Sequence[ChangeLogEntry]) -> CompactionBatch:
    """Turn changes, oldest first and at least one, into rows."""
    build = _build_interaction_table if noun == "interaction" else _build_record_table
    refused: list[str] = []
    try:
        table, erased, has_erased_rows = build(noun, changes)
    except _READ_ERRORS:
        # Only after a failure: to check each record alone takes many times as long.
        checked = [_filter_change(noun, change, refused) for change in changes]
        table, erased, has_erased_rows = build(noun, checked)
    return CompactionBatch(
        table,
        tuple(sorted(erased)),
        changes[0].offset,
        changes[-1].offset,
        tuple(refused),
        has_erased_rows,
    )


def find_erased_users(noun: Noun, changes: Sequence[ChangeLogEntry]) -> list[str]:
    """Return the users (`u:...`, `a:...`) that changes of interactions or users erase, each once."""
    op = {"interaction": "erase", "user": "remove"}.get(noun)
    results: dict[str, None] = {}
    for change in changes:
        if change.op != op:
            continue
        try:
            names = [name for name in orjson.loads(change.payload) if isinstance(name, str)]
        except _READ_ERRORS:
            continue
        results.update(dict.fromkeys(names if noun == "interaction" else map(ids.user_key_from_id, names)))
    return list(results)


def _filter_change(noun: Noun, change: ChangeLogEntry, refused: list[str]) -> ChangeLogEntry:
    """Return the readable records of a change, checked one by one."""
    build = _build_interaction_table if noun == "interaction" else _build_record_table
    try:
        items = orjson.loads(change.payload)
        width = len(change.vectors) // max(1, len(items))
    except _READ_ERRORS as error:
        refused.append(f"{change.offset}: {type(error).__name__}")
        return replace(change, payload=b"[]", vectors=b"")
    good: list[ChangeLogEntry] = []
    for at, item in enumerate(items):
        vector = change.vectors[at * width : (at + 1) * width]
        try:
            alone = replace(change, payload=orjson.dumps([item]), vectors=vector)
            build(noun, [alone])
        except _READ_ERRORS as error:
            refused.append(f"{change.offset}[{at}]: {type(error).__name__}")
        else:
            good.append(alone)
    # Each payload is a list of one record; without their brackets they join to one list.
    payload = b"[" + b",".join(part.payload[1:-1] for part in good) + b"]"
    return replace(change, payload=payload, vectors=b"".join(part.vectors for part in good))


def _build_record_table(noun: Noun, changes: Sequence[ChangeLogEntry]) -> tuple[Any, set[str], bool]:
    """Return the rows, the erased ids, and whether a row of the changes was erased."""
    rows: dict[tuple[str, str], tuple[Any, ...]] = {}
    erased: set[str] = set()
    has_erased_rows = False
    for change in changes:
        # a merge drops former versions of a product; until then, a list of that time can be rebuilt
        version = "" if noun == "user" else change.offset
        if change.op == "put":
            for row in _build_put_rows(noun, change):
                # Removed first, so that a replaced row moves to the end: the order is that of the last
                # writes.
                rows.pop((row[0], version), None)
                rows[row[0], version] = row
            continue
        for record_id in orjson.loads(change.payload):
            replaced = rows.pop((record_id, version), None)
            if noun == "user":  # a person leaves no trace; a product leaves a tombstone until compaction
                erased.add(record_id)
                has_erased_rows |= replaced is not None
            else:
                rows[record_id, version] = (record_id, True, change.offset, None, None, None, None)
    return _build_table(RECORDS, rows.values()), erased, has_erased_rows


def _build_put_rows(noun: Noun, change: ChangeLogEntry) -> list[tuple[Any, ...]]:
    records = orjson.loads(change.payload)
    width = len(change.vectors) // len(records) if records else 0
    rows = []
    for at, record in enumerate(records):
        vector = change.vectors[at * width : (at + 1) * width] if width else None
        kind = (record.get("type") or None) if noun == "product" else None
        embedder = change.embedder if width else None
        rows.append(
            (record[noun + "_id"], False, change.offset, kind, embedder, vector, dump_compact(record))
        )
    return rows


def _build_interaction_table(noun: Noun, changes: Sequence[ChangeLogEntry]) -> tuple[Any, set[str], bool]:
    """Return the rows, the erased users, and whether a row of the changes was erased."""
    tables = [INTERACTIONS.empty_table()]
    erased: set[str] = set()
    has_erased_rows = False
    group = _Group()
    for change in changes:
        parsed = orjson.loads(change.payload)
        if change.op == "put":
            group.add(parsed, change.offset)
            if len(group.types) >= _GROUP_ROWS:
                tables.append(group.table())
                group = _Group()
            continue
        tables.append(group.table())
        group = _Group()
        gone = pa.array(parsed, pa.string())
        before = sum(table.num_rows for table in tables)
        tables = [table.filter(pc.invert(pc.is_in(table["reader"], value_set=gone))) for table in tables]
        has_erased_rows |= sum(table.num_rows for table in tables) < before
        # An erasure applies to what stands before it in the log; what the person does afterwards stays.
        erased.update(parsed)
    return pa.concat_tables([*tables, group.table()]), erased, has_erased_rows


class _Group:
    """Columns of some interactions, named as in `RecentEvent`: groups among the products, one value a type."""

    def __init__(self) -> None:
        self.users: list[str] = []
        self.types: list[str] = []
        self.sent: list[str] = []
        self.logged_ms: list[int] = []
        self.products: list[list[str]] = []
        self.values: list[float] = []
        self.offsets: list[str] = []
        self.jsons: list[bytes] = []

    def add(self, items: list[dict[str, Any]], offset: str) -> None:
        """Add the interactions of one change."""
        self.users += [_read_user(item) for item in items]
        self.types += [item["type"] for item in items]
        self.sent += [item["timestamp"] for item in items]
        self.products += [_read_products(item) for item in items]
        self.values += [_read_value(item) for item in items]
        self.jsons += [dump_compact(item) for item in items]
        self.logged_ms += [position_from_offset(offset)[0]] * len(items)
        self.offsets += [offset] * len(items)

    def table(self) -> Any:
        """Build the table; no time is later than the log entry's, because a client's clock may run ahead."""
        sent_ms = pa.array(self.sent, pa.string()).cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
        at_ms = pc.min_element_wise(sent_ms, pa.array(self.logged_ms, pa.int64()))
        columns = (self.users, self.types, at_ms, self.products, self.values, self.offsets, self.jsons)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, INTERACTIONS, strict=True)]
        return pa.table(arrays, schema=INTERACTIONS)


def _read_user(item: dict[str, Any]) -> str:
    user_id = item.get("user_id")
    return ids.user_key_from_id(user_id) if user_id else ids.user_key_from_anonymous_id(item["anonymous_id"])


def _read_products(item: dict[str, Any]) -> list[str]:
    products: list[str] = item.get("product_ids") or []
    groups = item.get("product_group_ids")
    return [*products, *(GROUP + group for group in groups)] if groups else products


def _read_value(item: dict[str, Any]) -> float:
    if item["type"] == "rate":
        rating: float = item.get("rating", UNKNOWN_RATING)
        return rating
    duration_s = item.get("duration")
    return 0.0 if duration_s is None else max(duration_s, SHORTEST_S)


def _build_table(schema: Any, rows: Any) -> Any:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)
