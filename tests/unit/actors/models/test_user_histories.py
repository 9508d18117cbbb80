from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from actors.models.user_histories import DAY_S, TimeDecay, UserHistories, apply_time_decay
from jobs.refresh.data.dataset import interactions_from_frame

NO_FADING = TimeDecay(half_life_items=None)


def weights(histories: UserHistories, fading: TimeDecay) -> list[list[float]]:
    return apply_time_decay(histories, fading).toarray().round(4).tolist()


def test_weight_halves_for_every_so_many_distinct_items() -> None:
    histories = UserHistories.of_lists([[0, 1, 2], [3]], 4)
    assert weights(histories, TimeDecay(half_life_items=1)) == [[0.25, 0.5, 1, 0], [0, 0, 0, 1]]
    assert weights(histories, NO_FADING) == [[1, 1, 1, 0], [0, 0, 0, 1]]


def test_repeats_add_up_and_do_not_age_the_others() -> None:
    histories = UserHistories.of_lists([[0, 1, 1, 1]], 2)
    assert weights(histories, TimeDecay(half_life_items=1)) == [[0.5, 1 + 0.5 + 0.5]]


def test_lines_of_one_moment_are_equally_recent() -> None:
    histories = replace(UserHistories.of_lists([[0, 1, 2]], 3), at_s=np.array([1.0, 5.0, 5.0]))
    assert weights(histories, TimeDecay(half_life_items=1)) == [[0.25, 1, 1]]
    assert weights(histories, TimeDecay(half_life_items=1, ordered=True)) == [[0.25, 0.5, 1]]


def test_age_in_days_counts_from_the_question() -> None:
    histories = replace(
        UserHistories.of_lists([[0, 1]], 2), at_s=np.array([0.0, 2 * DAY_S]), now_s=np.array([3 * DAY_S])
    )
    assert weights(histories, TimeDecay(half_life_items=None, half_life_days=1)) == [[0.125, 0.5]]


def test_only_the_newest_items_count() -> None:
    assert weights(UserHistories.of_lists([[0, 1, 2]], 3), TimeDecay(half_life_items=None, newest=2)) == [
        [0, 1, 1]
    ]


def test_dislikes_subtract() -> None:
    histories = replace(UserHistories.of_lists([[0, 0]], 1), weights=np.array([1.0, -0.25], np.float32))
    assert weights(histories, NO_FADING) == [[0.75]]


def test_unknown_items_neither_count_nor_age_the_others() -> None:
    histories = replace(UserHistories.of_lists([[0, 0, 1]], 2), items=np.array([0, -1, 1]))
    assert weights(histories, TimeDecay(half_life_items=1)) == [[0.5, 1]]


def test_histories_of_missing_users_are_empty() -> None:
    frame = pl.DataFrame({"reader": list("aab"), "item": list("xyx"), "at": [1.0, 2.0, 3.0]})
    histories = UserHistories.of(interactions_from_frame(frame), np.array([1, -1, 0]))
    assert histories.starts.tolist() == [0, 1, 1, 3]
    assert histories.items.tolist() == [0, 0, 1]
    assert histories.now_s.tolist() == [3.0, 3.0, 3.0]


@pytest.mark.parametrize("which", [[2, 0], [1], []])
def test_picking_gives_the_same_histories(which: list[int]) -> None:
    lists = [[0, 1], [], [2, 2, 0]]
    picked = UserHistories.of_lists(lists, 3).select(np.array(which, np.int64))
    assert [picked.items[slice(*picked.starts[at : at + 2])].tolist() for at in range(len(which))] == [
        lists[at] for at in which
    ]


def test_blocks_put_together_are_the_whole() -> None:
    histories = UserHistories.of_lists([[0], [1, 2], [], [2]], 3)
    whole = apply_time_decay(histories, TimeDecay()).toarray()
    parts = [apply_time_decay(histories.select_block(at, at + 3), TimeDecay()).toarray() for at in (0, 3)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
