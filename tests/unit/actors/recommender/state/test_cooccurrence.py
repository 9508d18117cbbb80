from __future__ import annotations

import numpy as np
import pytest

from actors.recommender.state.cooccurrence import (
    CooccurrenceTable,
    ItemPairs,
    build_basket_pairs,
    build_sequence_pairs,
)
from actors.recommender.state.events import EventArrays

NOW = 1_772_452_800_000
MINUTE = 60_000


def _events(*weights: tuple[int, int, int]) -> EventArrays:
    return EventArrays.of([(user, row, NOW + minute * MINUTE, 1.0, True) for user, row, minute in weights])


def _weights(pairs: ItemPairs) -> dict[tuple[int, int], float]:
    weights: dict[tuple[int, int], float] = {}
    for left, right, weight in zip(
        pairs.left.tolist(), pairs.right.tolist(), pairs.weights.tolist(), strict=True
    ):
        weights[left, right] = weights.get((left, right), 0) + weight
    return weights


def test_the_next_product_weighs_one_the_one_after_half_and_the_way_back_half_of_that() -> None:
    weights = _weights(build_sequence_pairs(_events((1, 10, 0), (1, 11, 1), (1, 12, 2))))
    assert weights[10, 11] == 1
    assert weights[10, 12] == 0.5
    assert weights[11, 10] == 0.5
    assert weights[12, 10] == 0.25


def test_half_an_hour_of_silence_ends_the_session() -> None:
    weights = _weights(build_sequence_pairs(_events((1, 10, 0), (1, 11, 29), (1, 12, 61))))
    assert (10, 11) in weights
    assert (11, 12) not in weights


def test_readers_do_not_mix() -> None:
    assert _weights(build_sequence_pairs(_events((1, 10, 0), (2, 11, 0)))) == {}


def test_products_further_apart_than_the_window_do_not_pair() -> None:
    weights = _weights(build_sequence_pairs(_events(*[(1, row, row) for row in range(8)])))
    assert (0, 5) in weights
    assert (0, 6) not in weights


def test_looking_at_one_product_several_times_in_a_row_is_one_step() -> None:
    weights = _weights(build_sequence_pairs(_events((1, 10, 0), (1, 10, 1), (1, 10, 2), (1, 11, 3))))
    assert weights == {(10, 11): 1, (11, 10): 0.5}


def test_lines_of_one_basket_count_the_same_in_both_directions() -> None:
    weights = _weights(build_sequence_pairs(_events((1, 10, 0), (1, 11, 0))))
    assert weights == {(10, 11): 1, (11, 10): 1}
    assert _weights(build_basket_pairs(_events((1, 10, 0), (1, 11, 0), (1, 12, 0)))) == dict.fromkeys(
        [(10, 11), (10, 12), (11, 12), (11, 10), (12, 10), (12, 11)], 1
    )


def test_pairs_among_the_context_are_not_counted_twice() -> None:
    first, second = _events((1, 10, 0), (1, 11, 1)), _events((1, 12, 2))
    whole = _weights(build_sequence_pairs(EventArrays.concatenate(first, second)))
    parts = _weights(build_sequence_pairs(first))
    for pair, weight in _weights(build_sequence_pairs(EventArrays.concatenate(first, second), old=2)).items():
        parts[pair] = parts.get(pair, 0) + weight
    assert parts == whole


def _pairs(*pairs: tuple[int, int, float], at_ms: int = NOW) -> ItemPairs:
    left, right, weights = zip(*pairs, strict=True)
    return ItemPairs(np.array(left), np.array(right), np.array(weights, float), np.full(len(left), at_ms))


def _of(neighbours: CooccurrenceTable, row: int) -> dict[int, float]:
    weights, shares = neighbours.get_neighbours(np.array([row]))
    return {
        right: share
        for right, share in zip(weights[0].tolist(), shares[0].tolist(), strict=True)
        if share > 0
    }


def test_neighbours_add_up_and_are_given_as_shares() -> None:
    neighbours = CooccurrenceTable()
    neighbours.add(_pairs((1, 2, 1), (1, 3, 1), (1, 2, 1)))
    neighbours.add(_pairs((1, 2, 1)))
    assert _of(neighbours, 1) == pytest.approx({2: 0.75, 3: 0.25})
    assert _of(neighbours, 2) == {}
    assert _of(neighbours, 4_000) == {}


def test_only_the_strongest_are_kept() -> None:
    neighbours = CooccurrenceTable(width=3)
    neighbours.add(_pairs(*[(0, right, float(right)) for right in range(1, 8)]))
    assert set(_of(neighbours, 0)) == {5, 6, 7}
    neighbours.add(_pairs((0, 9, 5.5), (0, 10, 0.1)))
    assert set(_of(neighbours, 0)) == {9, 6, 7}


def test_many_lots_give_the_same_sums_as_one() -> None:
    rng = np.random.default_rng(5)
    weights = [(int(a), int(b), 1.0) for a, b in rng.integers(0, 30, (500, 2)) if a != b]
    whole, parts = CooccurrenceTable(), CooccurrenceTable()
    whole.add(_pairs(*weights))
    for start in range(0, len(weights), 7):
        parts.add(_pairs(*weights[start : start + 7]))
    for row in range(30):
        assert _of(parts, row) == pytest.approx(_of(whole, row))


def test_old_pairs_fade() -> None:
    neighbours = CooccurrenceTable(half_life_days=60)
    neighbours.add(_pairs((1, 2, 1), at_ms=NOW - 120 * 86_400_000))
    neighbours.add(_pairs((1, 3, 1), at_ms=NOW))
    assert _of(neighbours, 1) == pytest.approx({2: 0.2, 3: 0.8})


def test_pairs_taken_back_are_gone() -> None:
    neighbours = CooccurrenceTable()
    neighbours.add(_pairs((1, 2, 1), (1, 3, 1)))
    neighbours.add(_pairs((1, 2, 1), (1, 7, 1)), sign=-1)
    assert _of(neighbours, 1) == {3: 1}


def test_pairs_from_long_ago_do_not_break_anything() -> None:
    neighbours = CooccurrenceTable()
    neighbours.add(_pairs((1, 2, 1), at_ms=NOW))
    neighbours.add(_pairs((1, 3, 1), at_ms=0))
    assert _of(neighbours, 1)[2] == pytest.approx(1)


@pytest.mark.parametrize("years", [11, 25, 56])
def test_a_first_pair_from_long_ago_leaves_room_for_new_ones(years: int) -> None:
    neighbours = CooccurrenceTable()
    neighbours.add(_pairs((1, 2, 1), at_ms=NOW - years * 365 * 86_400_000))
    neighbours.add(_pairs((1, 3, 1), (1, 4, 3), at_ms=NOW))
    shares = _of(neighbours, 1)
    assert (shares[3], shares[4]) == pytest.approx((0.25, 0.75))
    assert shares.get(2, 0.0) < 1e-15
