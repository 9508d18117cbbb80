from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.recommender.ranking import ranking as ranking_module
from actors.recommender.ranking.ranking import rank
from actors.recommender.state import global_signals
from actors.recommender.state.global_signals import PriorScores, TopRows
from actors.recommender.state.score_components import PersonalScores, SlotMap
from actors.vectors.types import Rows, Scores


def best_by_sorting(scores: Scores, count: int) -> list[float]:
    """The values of the best, whichever of equals come first."""
    best = np.sort(scores[scores > -np.inf])[::-1][:count]
    values: list[float] = best.tolist()
    return values


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 200),
    st.integers(0, 60),
    st.integers(0, 40),
    st.sampled_from([1.0, 0.5, 0.02]),
    st.sampled_from([1.0, 0.1]),
)
def test_select_best_is_exact_for_any_scores_and_exclusions(
    seed: int, count: int, moved: int, places: int, allowed: float, share: float
) -> None:
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 50, count).astype(np.float32)
    start[rng.random(count) < 0.1] = -np.inf
    with pytest.MonkeyPatch.context() as small:
        small.setattr(global_signals, "_FRONT", 20)
        small.setattr(ranking_module, "_SHORT", 5)
        touched: Rows = rng.integers(0, count, moved)
        personal = np.zeros(count, np.float32)
        np.add.at(personal, touched, rng.normal(0, 20, moved).astype(np.float32))
        scores = start * np.float32(share) + personal
        prior = PriorScores.of(start).scale(share)
        barred = rng.integers(0, count + 5, 5).tolist()
        mask = rng.random(count) < allowed
        allowed_before = mask.copy()
        whole = rank(prior, _personal_scores(personal, rng) if moved else None, mask)
        ranking = whole.without(barred[:2]).without(barred[2:])
        whole.without(rng.integers(0, count + 5, 5).tolist())
        selected = ranking.select_best(places)
        every = ranking.get_scores(np.arange(count))
    scores[[row for row in barred if row < count]] = -np.inf
    scores[~mask] = -np.inf
    assert mask.tolist() == allowed_before.tolist()
    assert len(set(selected.tolist())) == len(selected)
    assert scores[selected].tolist() == best_by_sorting(scores, places)
    assert every.tolist() == ranking.scores.tolist() == scores.tolist()


def _personal_scores(row_scores: Scores, rng: np.random.Generator) -> PersonalScores:
    """Lay what is said out in slots of any order, among them some whose products are gone."""
    slots = len(row_scores) + 7
    slot_of = rng.permutation(slots)[: len(row_scores)]
    row_of = np.full(slots, -1)
    row_of[slot_of] = np.arange(len(row_scores))
    values = np.full(slots, 99.0, np.float32)
    values[slot_of] = row_scores
    return PersonalScores(SlotMap(slots, slot_of, row_of), values)


def test_the_front_knows_what_stands_behind_it() -> None:
    front = TopRows.of(np.arange(10_000, dtype=np.float32))
    assert front.rows[0] == 9_999
    assert front.next_score == front.values[-1] - 1
    assert front.head(3).next_score == 9_996
    assert TopRows.of(np.zeros(0, np.float32)).next_score == -np.inf
