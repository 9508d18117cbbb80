"""The store of columns: rows keep their places, masks keep up, memory keeps its bounds."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from cluster.query.columnar.column_store import ColumnStore, column_keys_of_filter
from cluster.query.language.parser import parse
from tests.unit.cluster.query.strategies import steps_of


def _store(*brands: str) -> ColumnStore:
    store = ColumnStore()
    for brand in brands:
        store.append({"brand": brand})
    return store


def _rows(store: ColumnStore, text: str) -> list[int]:
    return np.flatnonzero(store.mask(parse(text))).tolist()


def test_rows_are_counted_up_and_never_given_twice() -> None:
    store = _store("a", "b")
    store.remove(1)
    assert store.append({"brand": "b"}) == 2
    assert len(store) == 3
    assert _rows(store, "brand:b") == [2]


def test_a_removed_row_is_in_no_mask_until_it_is_replaced() -> None:
    store = _store("a", "b", "c")
    assert _rows(store, "*:*") == [0, 1, 2]
    store.remove(1)
    assert _rows(store, "*:*") == [0, 2]
    assert _rows(store, "-brand:a") == [2]
    assert _rows(store, "brand:*") == [0, 2]
    assert store.record(1) is None
    store.replace(1, {"brand": "z"})
    assert _rows(store, "-brand:a") == [1, 2]


def test_a_row_may_wait_for_its_record() -> None:
    store = _store("a")
    assert store.append() == 1
    assert store.mask(parse("*:*")).tolist() == [True, False]
    store.replace(1, b'{"brand":"a"}')
    assert _rows(store, "brand:a") == [0, 1]
    assert store.record(1) == {"brand": "a"}


def test_a_mask_is_shared_and_cannot_be_written() -> None:
    store = _store("a")
    mask = store.mask(parse("brand:a"))
    assert store.mask(parse("brand:a")) is mask
    with pytest.raises(ValueError, match="read-only"):
        mask[0] = False


def test_an_old_mask_is_not_changed_by_later_rows() -> None:
    store = _store("a")
    before = store.mask(parse("brand:a"))
    version = store.version
    store.replace(0, {"brand": "b"})
    assert before.tolist() == [True]
    assert store.version > version
    assert store.mask(parse("brand:a")).tolist() == [False]


def test_a_field_nobody_has_builds_nothing() -> None:
    store = _store("a")
    before = store.nbytes
    assert _rows(store, " OR ".join(f"nowhere{number}:x" for number in range(500))) == []
    assert store.column("nowhere7") is None
    assert store.nbytes - before < 100


def test_a_field_of_later_records_becomes_a_column() -> None:
    store = _store("a")
    assert _rows(store, "custom_attributes.note:x") == []
    store.append({"brand": "b", "custom_attributes": {"note": "x"}})
    assert _rows(store, "attributes.note:x") == [1]


def test_a_field_may_come_to_hold_several_values_and_other_kinds() -> None:
    store = _store("a", "b")
    assert _rows(store, "brand:a") == [0]
    store.replace(1, {"brand": ["b", "a", 7, 8, True]})
    assert _rows(store, "brand:a") == [0, 1]
    assert _rows(store, "brand:8") == [1]
    assert _rows(store, "brand:[7.5 TO 9]") == [1]
    assert _rows(store, "brand:true") == [1]
    store.replace(1, {"brand": 8})
    assert _rows(store, "brand:(a OR b)") == [0]
    assert _rows(store, "brand:[7.5 TO 9]") == [1]


def test_many_replacements_leave_no_more_behind_than_rows() -> None:
    store = ColumnStore()
    for row in range(50):
        store.append({"brand": f"first {row}", "tags": ["x", f"tag {row}"], "title": f"word{row}"})
    texts = ("brand:[a TO z]", "tags:x", "title:word1")
    sizes = []
    for turn in range(400):
        for row in range(50):
            store.replace(
                row,
                {
                    "brand": f"turn {turn} {row}",
                    "tags": ["x", f"tag {turn} {row}"],
                    "title": f"w{turn}x{row}",
                },
            )
        counts = [len(_rows(store, text)) for text in texts]
        assert counts == [50, 50, 0]
        sizes.append(store.nbytes)
    assert max(sizes[200:]) <= 1.5 * max(sizes[50:200])


def test_a_column_in_use_is_brought_up_to_date_and_not_made_anew() -> None:
    store, tree = ColumnStore(), parse("brand:b1 AND tags:x AND title:word")
    for row in range(300):
        store.append({"brand": f"b{row % 7}", "tags": ["x", "y"], "title": "one word"})
    store.mask(tree)

    def change(number: int) -> None:
        store.replace(number % 300, {"brand": f"b{number % 5}", "tags": ["x"], "title": "a word"})
        store.mask(tree)

    change(0)
    once = steps_of(lambda: change(1))
    steps = sorted(steps_of(lambda number=number: change(number)) for number in range(1_800))
    assert steps[-1] < 2 * once


def test_a_column_left_far_behind_is_made_anew_and_right() -> None:
    store = ColumnStore()
    for row in range(3):
        store.append({"brand": "a", "color": f"c{row}"})
    assert _rows(store, "color:c1") == [1]
    store.replace(1, {"brand": "a", "color": "red"})
    for number in range(5_000):
        store.replace(0, {"brand": str(number), "color": f"c{number}"})
    assert _rows(store, "brand:4999") == [0]
    assert _rows(store, "color:c4999") == [0]
    assert _rows(store, "color:red") == [1]
    assert _rows(store, "color:c1") == []


def test_long_lists_of_values_find_texts_and_numbers() -> None:
    store = ColumnStore()
    for row in range(20):
        store.append({"mixed": row if row % 2 else f"t{row}", "many": [row, row + 1, f"t{row}"]})
    values = ("t0", "1", "t2", "3", "t4", "5", "t6", "7.0", "x", "true")
    assert _rows(store, f"mixed:({' OR '.join(values)})") == list(range(8))
    assert _rows(store, f"many:({' OR '.join(values)})") == list(range(8))
    assert _rows(store, "mixed:(t0 t2 t4 t6 t8 t10)") == [0, 2, 4, 6, 8, 10]


def test_masks_and_columns_stay_within_their_memory() -> None:
    store = ColumnStore(column_bytes=300_000, mask_bytes=50_000)
    for row in range(10_000):
        store.append({f"f{field}": row % (field + 2) for field in range(20)})
    for field in range(20):
        assert store.mask(parse(f"f{field}:1")).sum() == 10_000 // (field + 2) + (10_000 % (field + 2) > 1)
        assert store.nbytes < 300_000 + 50_000 + 200_000


def test_circles_follow_the_rows() -> None:
    store = ColumnStore()
    store.append({"location": {"lat": 52.52, "lon": 13.40}})
    store.append({"location": [{"lat": 48.86, "lon": 2.35}, {"lat": 52.51, "lon": 13.41}]})
    store.append({"title": "nowhere"})
    assert store.within(52.52, 13.40, 5).tolist() == [True, True, False]
    store.replace(1, {"location": {"lat": 48.86, "lon": 2.35}})
    store.remove(0)
    assert store.within(52.52, 13.40, 5).tolist() == [False, False, False]
    assert store.within(48.86, 2.35, 5).tolist() == [False, True, False]
    assert store.within(0, 0, 5, "custom_attributes.shops").tolist() == [False, False, False]


def test_warming_builds_columns_ahead() -> None:
    store = _store("a")
    store.build_columns(["brand", "nowhere"])
    assert store.nbytes > 0


def test_one_thread_asks_while_another_changes() -> None:
    store = _store(*"ab" * 50)
    tree, wrong = parse("brand:(a OR b)"), []

    def ask() -> None:
        for _ in range(300):
            mask = store.mask(tree)
            if not mask.all():
                wrong.append(mask)

    asker = threading.Thread(target=ask)
    asker.start()
    for number in range(1_000):
        store.append({"brand": "ab"[number % 2]})
        store.replace(number % 100, {"brand": "ba"[number % 2], "tags": ["x"]})
    asker.join()
    assert wrong == []


def test_has_columns_tells_apart_filters_with_and_without_a_scan() -> None:
    store = ColumnStore()
    store.append({"brand": "a", "price": 3, "location": {"lat": 1.0, "lon": 2.0}})
    assert not store.has_columns(column_keys_of_filter(parse("brand:a AND price:3")))
    store.build_columns(["brand"])
    assert store.has_columns(column_keys_of_filter(parse("brand:a OR -brand:b")))
    assert not store.has_columns(column_keys_of_filter(parse("brand:a AND price:3")))
    assert store.has_columns(column_keys_of_filter(parse("color:red"))), "nobody has it"
    assert not store.has_columns([("points", "location")])
    store.within(1.0, 2.0, 5.0)
    assert store.has_columns([("points", "location")])
    assert store.has_columns([("points", "elsewhere")])
