"""Counting over columns agrees with counting over records; columns give numbers, pairs and distances."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cluster.query.columnar.column import RowValuePairs
from cluster.query.columnar.column_store import ColumnStore
from cluster.query.columnar.value_counts import ValueCounts, count_rows, count_values
from cluster.query.language.automaton import Automaton
from cluster.query.language.patterns import compile_regex
from tests.unit.cluster.query.columnar.distances import distance_km
from tests.unit.cluster.query.strategies import STEADY

SCALARS = st.sampled_from(["a", "b", "1", "true", 1, 1.0, 2.5, -7, True, False, None, 1e308, 5e-324])
RECORDS = st.lists(
    st.fixed_dictionaries({}, optional={"x": SCALARS | st.lists(SCALARS, max_size=4)}), max_size=12
)


def store(records: list[dict[str, Any]]) -> ColumnStore:
    made = ColumnStore()
    for record in records:
        made.append(record)
    return made


@STEADY
@given(records=RECORDS, replaced=st.lists(st.tuples(st.integers(0, 11), SCALARS), max_size=6))
def test_values_are_counted_as_over_records(
    records: list[dict[str, Any]], replaced: list[tuple[int, Any]]
) -> None:
    columns = store(records)
    columns.column("x")
    for row, value in replaced:
        if row < len(records):
            records[row] = {"x": [value, "b"]}
            columns.replace(row, records[row])
    counted = ValueCounts(columns.pairs("x", columns.live_rows()), None).most_frequent(1_000)
    if any(record.get("x") not in (None, []) for record in records):
        # null alone in a list counts as carrying nothing
        expected = count_values([*records, {"x": "there"}], "x", size=1_000).values
        expected = [pair for pair in expected if pair[0] != "there"]
    else:
        expected = []
    assert {(isinstance(value, bool), value): count for value, count in counted} == {
        (isinstance(value, bool), value): count for value, count in expected
    }
    assert len(counted) == len(expected)


def test_only_marked_rows_and_units_count() -> None:
    columns = store([{"x": ["a", "b"]}, {"x": "a"}, {"x": "b"}, {}])
    mask = np.array([True, True, False, True])
    assert ValueCounts(columns.pairs("x", mask), None).most_frequent(10) == [("a", 2), ("b", 1)]
    assert ValueCounts(columns.pairs("x", mask[:1]), None).most_frequent(10) == [("a", 1), ("b", 1)]
    units = np.array([7, 7, 8, 9])
    assert (
        ValueCounts(columns.pairs("x", columns.live_rows()), units).most_frequent(10)
        == [("a", 1), ("b", 2)][::-1]
    )
    assert ValueCounts(columns.pairs("x", mask), None).most_frequent(0) == []
    assert (count_rows(mask, None), count_rows(mask, units)) == (3, 2)
    assert ValueCounts(columns.pairs("nothing", mask), None).most_frequent(10) == []


def test_many_units_times_many_values_are_no_overflow() -> None:
    columns = store([{"x": f"v{at}"} for at in range(50)])
    units = np.arange(50) + (1 << 28)
    assert len(ValueCounts(columns.pairs("x", columns.live_rows()), units).most_frequent(100)) == 50


def test_numbers_are_the_first_of_a_row_booleans_and_dates() -> None:
    columns = store([{"x": [3, 4]}, {"x": True}, {"x": False}, {"x": "5"}, {}, {"x": ["a", 6.5]}])
    assert np.array_equal(columns.numbers("x"), [3, 1, 0, np.nan, np.nan, 6.5], equal_nan=True)
    dates = store([{"created_at": "1970-01-02"}, {"created_at": "soon"}, {}])
    assert np.array_equal(dates.numbers("created_at"), [86_400_000, np.nan, np.nan], equal_nan=True)
    assert np.isnan(columns.numbers("nothing")).all()


def test_distances_are_to_the_nearest_point() -> None:
    leeds, paris = {"lat": 53.8, "lon": -1.55}, {"lat": 48.86, "lon": 2.35}
    columns = store([{"location": leeds}, {"location": [leeds, paris]}, {}, {"location": []}])
    distances = columns.distances(48.9, 2.3)
    assert distances[0] == pytest.approx(distance_km(48.9, 2.3, 53.8, -1.55))
    assert distances[1] == pytest.approx(distance_km(48.9, 2.3, 48.86, 2.35))
    assert np.isnan(distances[2:]).all()
    columns.replace(1, {"location": leeds})
    assert columns.distances(48.9, 2.3)[1] == pytest.approx(distances[0])
    assert columns.distances(0, 0, "custom_attributes.place").shape == (4,)


class Counting:
    """Texts that say how often they were asked for."""

    def __init__(self, texts: list[str]) -> None:
        self.texts, self.read, self.tried = texts, 0, 0

    def text(self, code: int) -> str:
        self.read += 1
        return self.texts[code]

    def like(self, pattern: Automaton) -> NDArray[np.bool_]:
        self.tried += 1
        return np.array([pattern.accepts(text) for text in self.texts], np.bool_)


def test_asking_a_field_again_puts_nothing_in_order_again() -> None:
    names = Counting([f"v{at}" for at in range(2_000)])
    rows = np.arange(2_000)
    empty = RowValuePairs.none()
    tally = ValueCounts(RowValuePairs((rows, rows), empty.numbers, empty.true, empty.false, names), None)
    patterns = [compile_regex(f"v.*{at}") for at in range(10)]
    for pattern in patterns[:2]:
        tally.most_frequent(10, pattern)
    before = names.read
    lists = [tally.most_frequent(10, pattern) for pattern in patterns]
    assert names.read - before == 100 == sum(map(len, lists))
    assert names.tried == 12


def test_numbers_and_booleans_are_matched_as_they_are_written() -> None:
    columns = store([{"x": [1, True, "1"]}, {"x": [1.5, False]}, {"x": 10}])
    tally = ValueCounts(columns.pairs("x", columns.live_rows()), None)
    assert tally.most_frequent(10, compile_regex("1.*")) == [("1", 1), (1, 1), (1.5, 1), (10, 1)]
    assert tally.most_frequent(10, compile_regex("(true|1)"), compile_regex("1")) == [(True, 1)]
    assert tally.most_frequent(10, None, compile_regex("[0-9.]+")) == [(False, 1), (True, 1)]
