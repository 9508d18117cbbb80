from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from actors.recommender.state.groups import Groups


def _named(groups: Groups[str], numbers: np.ndarray) -> dict[str, int]:
    return {
        value: int(number) for value, number in zip(groups.values, numbers.tolist(), strict=True) if number
    }


def test_totals_count_allowed_rows_only() -> None:
    groups: Groups[str] = Groups()
    groups.put(0, ["red"])
    groups.put(1, ["red", "blue"])
    groups.put(2, ["blue"])
    assert _named(groups, groups.count_rows(np.array([True, True, True]))) == {"red": 2, "blue": 2}
    assert _named(groups, groups.count_rows(np.array([False, True, False]))) == {"red": 1, "blue": 1}
    assert _named(groups, groups.count_rows(np.array([True]))) == {"red": 1}


def test_a_row_carries_what_was_put_last() -> None:
    groups: Groups[str] = Groups()
    groups.put(0, ["red"])
    groups.put(0, ["blue", "green", "blue"])
    assert _named(groups, groups.count_rows(np.ones(1, bool))) == {"blue": 1, "green": 1}
    groups.remove(0)
    groups.remove(0)
    assert _named(groups, groups.count_rows(np.ones(1, bool))) == {}


def test_the_best_of_a_value_come_best_first_without_forbidden_ones() -> None:
    groups: Groups[str] = Groups()
    for row in range(6):
        groups.put(row, ["odd" if row % 2 else "even"])
    scores = np.array([0.5, 9, -np.inf, 3, 0.7, 5], np.float32)
    code = groups.code_of("even")
    assert code is not None
    assert groups.select_best(code, scores, 5).tolist() == [4, 0]
    assert groups.select_best(groups.code_of("odd") or 0, scores, 2).tolist() == [1, 5]
    assert groups.select_best(code, scores, 0).tolist() == []
    assert groups.select_best(code, scores[:1], 5).tolist() == [0]


@given(st.lists(st.tuples(st.integers(0, 8), st.sets(st.sampled_from("abcd"))), max_size=60))
def test_any_history_of_changes_ends_in_what_is_true_now(changes: list[tuple[int, set[str]]]) -> None:
    groups: Groups[str] = Groups()
    truth: dict[int, set[str]] = {}
    for row, values in changes:
        groups.put(row, values)
        truth[row] = values
    expected = {value: sum(value in values for values in truth.values()) for value in "abcd"}
    counts = _named(groups, groups.count_rows(np.ones(9, bool)))
    assert counts == {value: number for value, number in expected.items() if number}


def test_thousands_of_changes_do_not_pile_up() -> None:
    groups: Groups[int] = Groups()
    for turn in range(5_000):
        groups.put(turn % 3, [turn % 5])
    assert len(groups._pairs) < 5_000
    assert groups.count_rows(np.ones(3, bool)).sum() == 3


def test_a_catalog_that_shrinks_behind_a_last_row_without_values_keeps_its_groups() -> None:
    groups: Groups[str] = Groups()
    groups.write_new_rows(0, [["red"]] * 2_999 + [["blue"], []])
    for row in range(2_900):
        groups.remove(row)
    assert _named(groups, groups.count_rows(np.ones(3_001, bool))) == {"red": 99, "blue": 1}
    groups.put(3_000, ["blue"])
    assert groups.rows_of(groups.code_of("blue") or 0).tolist() == [2_999, 3_000]
    assert groups.codes_of(2_999) == groups.codes_of(3_000)
