from __future__ import annotations

import numpy as np
import pytest

from actors.vectors.top import best_few, best_rows


@pytest.mark.parametrize("out", [0.0, 0.1, 0.5, 0.99, 1.0])
@pytest.mark.parametrize("count", [0, 1, 20, 1_000, 5_000])
def test_the_best_are_those_sorting_would_give(out: float, count: int) -> None:
    rng = np.random.default_rng(7)
    scores = rng.standard_normal(1_000).astype(np.float32)
    scores[rng.random(1_000) < out] = -np.inf
    expected = [row for row in np.argsort(-scores, kind="stable").tolist() if scores[row] > -np.inf][:count]
    assert best_rows(scores, count).tolist() == expected
    assert best_few(scores, count).tolist() == expected


def test_of_nothing_nothing_is_best() -> None:
    assert best_rows(np.zeros(0, np.float32), 5).tolist() == []
