"""The mask over columns is what the plain meaning says, record by record."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from cluster.query.columnar.column_store import ColumnStore
from cluster.query.columnar.filter_evaluation import evaluate_filter, matches_filter
from cluster.query.language.tree import Node
from tests.unit.cluster.query.strategies import STEADY, records, trees

changes = st.lists(
    st.tuples(st.sampled_from(["append", "replace", "remove"]), st.integers(0, 5), records, st.booleans()),
    max_size=8,
)


def _agree(store: ColumnStore, kept: list[dict[str, Any] | None], node: Node) -> None:
    expected = [record is not None and matches_filter(node, record) for record in kept]
    assert store.mask(node).tolist() == expected
    assert evaluate_filter(node, store).tolist() == expected


@STEADY
@given(st.lists(records, max_size=6), trees)
def test_a_mask_marks_exactly_the_matching_records(rows: list[dict[str, Any]], node: Node) -> None:
    store = ColumnStore()
    for record in rows:
        store.append(record)
    _agree(store, list(rows), node)


@STEADY
@given(st.lists(records, min_size=1, max_size=4), st.lists(trees, min_size=1, max_size=3), changes)
def test_a_mask_stays_right_while_rows_come_change_and_go(
    rows: list[dict[str, Any]], nodes: list[Node], later: list[tuple[str, int, dict[str, Any], bool]]
) -> None:
    store = ColumnStore(mask_bytes=8, column_bytes=1)
    kept: list[dict[str, Any] | None] = list(rows)
    for record in rows:
        store.append(orjson.dumps(record))
    for what, where, record, as_bytes in later:
        row = where % len(kept)
        given_record = orjson.dumps(record) if as_bytes else record
        if what == "append":
            assert store.append(given_record) == len(kept)
            kept.append(record)
        elif what == "replace":
            store.replace(row, given_record)
            kept[row] = record
        else:
            store.remove(row)
            kept[row] = None
        for node in nodes:
            _agree(store, kept, node)
