from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.recommender import ranking as ranking_module
from actors.recommender.ranking import Front, Ranking
from actors.vectors.types import Rows, Scores


def best_by_sorting(scores: Scores, count: int) -> list[float]:
    """The values of the best, whichever of equals come first."""
    found = np.sort(scores[scores > -np.inf])[::-1][:count]
    values: list[float] = found.tolist()
    return values


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 200),
    st.integers(0, 60),
    st.integers(0, 40),
    st.sampled_from([1.0, 0.5, 0.02]),
    st.sampled_from([1.0, 0.1]),
)
def test_the_best_are_found_whatever_moved_and_whatever_is_barred(
    seed: int, count: int, moved: int, wanted: int, allowed: float, share: float
) -> None:
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 50, count).astype(np.float32)
    start[rng.random(count) < 0.1] = -np.inf
    with pytest.MonkeyPatch.context() as small:
        small.setattr(ranking_module, "_FRONT", 20)
        small.setattr(ranking_module, "_SHORT", 5)
        front = Front.of(start).times(share)
        touched: Rows = rng.integers(0, count, moved)
        scores = start * np.float32(share)
        np.add.at(scores, touched, rng.normal(0, 20, moved).astype(np.float32))
        ranking = Ranking(scores.copy(), front, (touched[: moved // 2], touched[moved // 2 :]))
        barred = rng.integers(0, count + 5, 5).tolist()
        mask = rng.random(count) < allowed
        ranking.bar(barred)
        ranking.bar_all_but(mask)
        found = ranking.best(wanted)
    scores[[row for row in barred if row < count]] = -np.inf
    scores[~mask] = -np.inf
    assert len(set(found.tolist())) == len(found)
    assert scores[found].tolist() == best_by_sorting(scores, wanted)


def test_the_front_knows_what_stands_behind_it() -> None:
    front = Front.of(np.arange(10_000, dtype=np.float32))
    assert front.rows[0] == 9_999
    assert front.behind == front.values[-1] - 1
    assert front.first(3).behind == 9_996
    assert Front.of(np.zeros(0, np.float32)).behind == -np.inf
