from __future__ import annotations

import numpy as np
import pytest

from actors.models import sessions as sessions_module
from jobs.refresh.learners.session_knn import SessionKnnLearner, SessionKnnRecipe
from tests.fakes.trained_snapshot import RING, ring_data


@pytest.mark.parametrize("candidates", [5, 100])
def test_many_sessions_give_the_same_result_as_few(candidates: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = SessionKnnLearner(SessionKnnRecipe(candidates=candidates, neighbours=50)).train(
        ring_data(), np.random.default_rng(1)
    )
    items = np.arange(3, 9)
    sorted_out = model.find_neighbour_items(items, np.ones(6))
    monkeypatch.setattr(sessions_module, "_FEW", 0)
    marked = model.find_neighbour_items(items, np.ones(6))
    for left, right in zip(sorted_out, marked, strict=True):
        np.testing.assert_array_equal(left, right)
    assert np.bincount(marked[0], marked[1], RING)[9] > 0
