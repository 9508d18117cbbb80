"""Diversification looks at so many rows and no more, however many fields it is asked for."""

from __future__ import annotations

import pytest

from actors.recommender.messages import DiversityRule
from actors.recommender.rerank.diversity import diversify


@pytest.mark.parametrize("fields", [1, 2, 5, 20])
def test_a_place_costs_a_bounded_number_of_looks(fields: int) -> None:
    looks = 0

    def values_of(row: int, field: str) -> frozenset[str]:
        nonlocal looks
        looks += 1
        return frozenset(("same",) if field == f"f{fields - 1}" else (f"{row}",))

    rules = [DiversityRule(f"f{at}", 3) for at in range(fields)]
    rows = list(range(1_000))
    assert sorted(diversify(rows, rules, values_of, pinned={}, front=0, places=1_000)) == rows
    assert looks < 1_000 * (400 + 4 * fields)
