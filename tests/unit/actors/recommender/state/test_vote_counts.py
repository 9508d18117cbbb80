from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.recommender.state.vote_counts import DAY_MS, DailyVotes, DecayedCounts, zscores

NOW = 1_772_452_800_000


def _add(counts: DecayedCounts, *votes: tuple[int, float, int]) -> None:
    rows, worth, at_ms = zip(*votes, strict=True)
    counts.add(np.array(rows), np.array(worth, float), np.array(at_ms))


def test_a_vote_is_worth_half_after_one_half_life() -> None:
    counts = DecayedCounts()
    _add(counts, (0, 1, NOW - 7 * DAY_MS), (1, 1, NOW))
    assert counts.get_counts_at(7.0, 2, NOW).tolist() == pytest.approx([0.5, 1])
    assert counts.get_counts_at(1.0, 2, NOW).tolist() == pytest.approx([2**-7, 1])


def test_the_order_of_arrival_does_not_matter() -> None:
    votes = [(row % 3, 1.0, NOW - row * DAY_MS // 3) for row in range(30)]
    forward, backward = DecayedCounts(), DecayedCounts()
    for vote in votes:
        _add(forward, vote)
    _add(backward, *reversed(votes))
    np.testing.assert_allclose(
        forward.get_counts_at(7.0, 3, NOW), backward.get_counts_at(7.0, 3, NOW), rtol=1e-9
    )


def test_counts_survive_years_without_overflow() -> None:
    counts = DecayedCounts()
    for year in range(12):
        _add(counts, (0, 1, NOW + year * 365 * DAY_MS), (1, 1, NOW))
    now = NOW + 11 * 365 * DAY_MS
    assert counts.get_counts_at(1.0, 2, now).tolist() == pytest.approx([1, 0], abs=1e-9)
    assert counts.get_counts_at(30.0, 2, now)[0] == pytest.approx(1, abs=1e-3)


def test_votes_taken_back_leave_nothing() -> None:
    counts = DecayedCounts()
    _add(counts, (0, 1, NOW), (0, 0.3, NOW - DAY_MS), (1, 0.5, NOW))
    _add(counts, (0, -1, NOW), (0, -0.3, NOW - DAY_MS))
    assert counts.get_counts_at(7.0, 2, NOW).tolist() == pytest.approx([0, 0.5])
    assert counts.get_relative_counts(7.0, 1)[0] == 0


def test_rows_nobody_voted_for_count_nothing() -> None:
    assert DecayedCounts().get_relative_counts(7.0, 3).tolist() == [0, 0, 0]


def _weigh(votes: DailyVotes, *events: tuple[int, int, int, float]) -> list[float]:
    users, rows, at_ms, weights = zip(*events, strict=True)
    return votes.weigh(np.array(users), np.array(rows), np.array(at_ms), np.array(weights, float)).tolist()


def test_a_reader_has_one_say_per_product_and_day() -> None:
    votes = DailyVotes()
    assert sum(_weigh(votes, *[(1, 5, NOW + n, 0.3) for n in range(50)])) == pytest.approx(0.3)
    assert _weigh(votes, (1, 5, NOW + 60, 0.3)) == [0]
    assert _weigh(votes, (2, 5, NOW + 60, 0.3)) == [0.3]
    assert _weigh(votes, (1, 6, NOW + 60, 0.3)) == [0.3]
    assert _weigh(votes, (1, 5, NOW + DAY_MS, 0.3)) == [0.3]


def test_a_stronger_event_of_the_same_day_adds_the_difference() -> None:
    votes = DailyVotes()
    assert _weigh(votes, (1, 5, NOW, 0.3)) == [0.3]
    assert _weigh(votes, (1, 5, NOW + 1, 1.0)) == pytest.approx([0.7])
    assert _weigh(votes, (1, 5, NOW + 2, 0.7)) == [0]


def test_only_the_last_days_are_remembered() -> None:
    votes = DailyVotes(days=2)
    for day in range(100):
        _weigh(votes, (1, 5, NOW + day * DAY_MS, 1.0))
    assert len(votes._recorded) == 2


def test_a_forgotten_reader_may_vote_again() -> None:
    votes = DailyVotes()
    _weigh(votes, (1, 5, NOW, 1.0), (2, 5, NOW, 1.0))
    votes.delete(1, [5, 9])
    assert _weigh(votes, (1, 5, NOW, 1.0), (2, 5, NOW, 1.0)) == [1, 0]


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 3), st.sampled_from([0.0, 0.3, 1.0])),
        min_size=1,
        max_size=30,
    ),
    st.integers(1, 30),
)
def test_one_batch_or_many_give_equal_counts(events: list[tuple[int, int, int, float]], cut: int) -> None:
    timed = sorted(events, key=lambda event: event[2])
    timed = [(user, row, NOW + day * DAY_MS, weight) for user, row, day, weight in timed]
    whole = sum(_weigh(DailyVotes(days=10), *timed))
    votes = DailyVotes(days=10)
    parts = [timed[start : start + cut] for start in range(0, len(timed), cut)]
    assert sum(sum(_weigh(votes, *part)) for part in parts) == pytest.approx(whole)


def test_zscores_have_mean_zero_and_spread_one_among_the_chosen() -> None:
    among = np.array([True, True, True, False])
    scores = zscores(np.array([1.0, 2.0, 3.0, 900.0]), among)
    assert scores[among].mean() == pytest.approx(0, abs=1e-6)
    assert scores[among].std() == pytest.approx(1)
    assert zscores(np.ones(3), np.ones(3, bool)).tolist() == [0, 0, 0]
    assert zscores(np.zeros(0), np.zeros(0, bool)).tolist() == []
