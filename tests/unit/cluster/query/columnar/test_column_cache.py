"""Columns built beside a store that goes on changing are what they would be, built at the end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.errors import ColumnsNotReady
from cluster.query.columnar import column_cache
from cluster.query.columnar.column_store import ColumnStore, column_keys_of_filter
from cluster.query.columnar.filter_evaluation import matches_filter
from cluster.query.columnar.record_reader import RecordReader
from cluster.query.language.field_values import (
    build_field_reader,
    canonical_field,
    collect_record_values,
    collect_scalars,
    has_value,
)
from cluster.query.language.parser import parse
from cluster.query.language.tree import Node
from tests.unit.cluster.query.strategies import STEADY, fields, records, trees

changes = st.lists(
    st.tuples(
        st.sampled_from(["append", "replace", "replace", "remove"]),
        st.integers(0, 9),
        records,
        st.integers(0, 3),
    ),
    max_size=8,
)
"What happens, to which row, with what record, and how many steps building takes before."


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_cache, "_BATCH_ROWS", 2)
    monkeypatch.setattr(column_cache, "_FEW", 2)


@STEADY
@given(records, fields)
def test_a_reader_reads_what_a_record_carries_and_holds(record: dict[str, Any], field: str) -> None:
    carried, values = build_field_reader(field)(record)
    assert (carried, list(values)) == (has_value(record, field), collect_record_values(record, field))


@STEADY
@given(st.lists(st.one_of(st.none(), records), max_size=5), fields, st.booleans())
def test_what_is_read_of_a_record_holds_what_the_whole_record_holds(
    rows: list[dict[str, Any] | None], field: str, packed: bool
) -> None:
    name = canonical_field(field)
    written = [row if row is None or not packed else orjson.dumps(row) for row in rows]
    for row, read in zip(rows, RecordReader([name]).read_batch(written), strict=True):
        whole = {} if row is None else row
        assert collect_record_values(read, name) == collect_record_values(whole, name)
        assert has_value(read, name) == has_value(whole, name)
        assert collect_scalars(read, name) == collect_scalars(whole, name)


@STEADY
@given(st.lists(records, min_size=3, max_size=8), st.lists(trees, min_size=3, max_size=6), changes)
def test_building_while_changes_arrive_gives_what_building_at_the_end_gives(
    rows: list[dict[str, Any]], nodes: list[Node], later: list[tuple[str, int, dict[str, Any], int]]
) -> None:
    store, kept = ColumnStore(), [*rows]
    for record in rows:
        store.append(orjson.dumps(record))
    keys = {key for node in nodes for key in column_keys_of_filter(node)}
    steps = store.build_in_steps([*keys, ("points", "location")])
    _change(store, kept, later, steps)
    for _ in steps:
        pass
    _all_agree(store, kept, nodes)


@STEADY
@given(st.lists(records, min_size=1, max_size=6), st.lists(trees, min_size=1, max_size=3), changes, changes)
def test_columns_that_lag_behind_are_brought_up_to_date_beside(
    rows: list[dict[str, Any]],
    nodes: list[Node],
    before: list[tuple[str, int, dict[str, Any], int]],
    later: list[tuple[str, int, dict[str, Any], int]],
) -> None:
    store, kept = ColumnStore(), [*rows]
    for record in rows:
        store.append(orjson.dumps(record))
    for node in nodes:
        store.mask(node)
    _change(store, kept, before, iter(()))
    steps = store.build_in_steps([key for node in nodes for key in column_keys_of_filter(node)])
    _change(store, kept, later, steps)
    for _ in steps:
        pass
    _all_agree(store, kept, nodes)


def _change(
    store: ColumnStore,
    kept: list[Any],
    changes: list[tuple[str, int, dict[str, Any], int]],
    steps: Iterator[None],
) -> None:
    for what, where, record, count in changes:
        for _ in range(count):
            next(steps, None)
        row = where % len(kept)
        if what == "append":
            assert store.append(orjson.dumps(record)) == len(kept)
            kept.append(record)
        elif what == "replace":
            store.replace(row, orjson.dumps(record))
            kept[row] = record
        else:
            store.remove(row)
            kept[row] = None


def _all_agree(store: ColumnStore, kept: list[Any], nodes: list[Node]) -> None:
    anew = ColumnStore()
    for record in kept:
        anew.append(None if record is None else orjson.dumps(record))
    for node in nodes:
        mask = store.mask(node).tolist()
        assert mask == anew.mask(node).tolist()
        assert mask == [record is not None and matches_filter(node, record) for record in kept]


@pytest.mark.parametrize("changed", [1, 2, 3, 5])
def test_rows_that_change_while_a_column_is_built_are_caught_up_with(changed: int) -> None:
    store = ColumnStore()
    for _ in range(8):
        store.append({"brand": "a"})
    steps = store.build_in_steps([("field", "brand")])
    for at in range(4):
        next(steps)
        if at == 3:
            for row in range(changed):
                store.replace(row, {"brand": "b"})
            store.remove(7)
            store.append({"brand": "b"})
    for _ in steps:
        pass
    assert np.flatnonzero(store.mask(parse("brand:b"))).tolist() == [*range(changed), 8]


def test_a_question_that_would_read_too_much_is_refused_and_can_be_prepared() -> None:
    store, tree = ColumnStore(), parse("brand:a AND price:3")
    for number in range(20):
        store.append({"brand": "ab"[number % 2], "price": number, "location": {"lat": 1.0, "lon": 2.0}})
    store.limit_reads(10)
    with pytest.raises(ColumnsNotReady) as refused:
        store.mask(tree)
    assert sorted(refused.value.facts["keys"]) == [("field", "brand"), ("field", "price")]
    assert store.mask(parse("nobody:has_it")).sum() == 0
    for ask in (
        lambda: store.within(1.0, 2.0, 5.0), lambda: store.distances(1.0, 2.0), lambda: store.numbers("price"),
        lambda: store.build_columns(["brand"]), lambda: store.column("brand"),
        lambda: store.pairs("brand", store.live_rows()),
    ):  # fmt: skip
        with pytest.raises(ColumnsNotReady):
            ask()
    for _ in store.build_in_steps([("points", "location"), *column_keys_of_filter(tree)]):
        pass
    assert np.flatnonzero(store.mask(parse("brand:b AND price:3"))).tolist() == [3]
    assert store.within(1.0, 2.0, 5.0).all()


def test_a_question_on_columns_far_behind_is_refused_until_they_have_caught_up() -> None:
    store, tree = ColumnStore(), parse("brand:b")
    for _ in range(20):
        store.append({"brand": "a"})
    store.mask(tree)
    store.limit_reads(10)
    for row in range(10):
        store.replace(row, {"brand": "b"})
    assert store.mask(tree).sum() == 10
    for row in range(11):
        store.replace(row, {"brand": "a"})
    with pytest.raises(ColumnsNotReady):
        store.mask(tree)
    for _ in store.build_in_steps(column_keys_of_filter(tree)):
        pass
    assert store.mask(tree).sum() == 0


def test_what_has_to_be_read_may_be_read_at_any_cost() -> None:
    store = ColumnStore()
    for _ in range(20):
        store.append({"brand": "a"})
    store.limit_reads(10)
    with store.build_missing_columns():
        assert store.mask(parse("brand:a")).all()
    with pytest.raises(ColumnsNotReady):
        store.mask(parse("brand:a OR availability:IN_STOCK"))


def test_a_column_with_more_from_the_past_than_in_use_is_made_anew_beside() -> None:
    store, tree = ColumnStore(), parse("brand:x")
    for row in range(10):
        store.append({"brand": f"first {row}"})
    store.mask(tree)
    store.limit_reads(5)
    refused = 0
    for turn in range(2_000):
        store.replace(turn % 10, {"brand": f"turn {turn}"})
        try:
            store.mask(tree)
        except ColumnsNotReady:
            refused += 1
            for _ in store.build_in_steps(column_keys_of_filter(tree)):
                pass
            store.mask(tree)
    assert 0 < refused < 5


def test_three_threads_ask_change_and_build() -> None:
    store, tree, wrong = ColumnStore(), parse("brand:(a OR b)"), []
    for number in range(400):
        store.append({"brand": "ab"[number % 2], "tags": ["x"]})
    done = threading.Event()

    def build() -> None:
        while not done.is_set():
            for _ in store.build_in_steps([("field", "brand"), ("field", "tags")]):
                pass
            for number in range(3):
                store.replace(number, {"brand": "a", f"field {number}": number, "tags": ["y"]})

    def ask() -> None:
        while not done.is_set():
            mask = store.mask(tree)
            if not mask.all():
                wrong.append(mask)

    threads = [threading.Thread(target=work) for work in (build, ask)]
    for thread in threads:
        thread.start()
    for number in range(2_000):
        store.replace(number % 400, {"brand": "ba"[number % 2], "tags": [f"t{number}"]})
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert store.mask(parse("tags:t1999")).sum() == 1


def test_a_column_with_more_stale_than_live_values_is_rebuilt() -> None:
    store, tree = ColumnStore(), parse("brand:b")
    for _ in range(400):
        store.append({"brand": "a"})
    store.mask(tree)
    for number in range(1_000):
        store.replace(number % 400, {"brand": "ab"[number % 2]})
    assert store.find_missing(column_keys_of_filter(tree)) == []
    for number in range(300):
        store.replace(number, {"brand": "b"})
    assert store.find_missing(column_keys_of_filter(tree)) == [("field", "brand")]
    for _ in store.build_in_steps(column_keys_of_filter(tree)):
        pass
    assert store.find_missing(column_keys_of_filter(tree)) == []
    assert store.mask(tree).sum() == 350
