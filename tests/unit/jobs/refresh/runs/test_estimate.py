"""What a training is estimated to cost, before it starts."""

from __future__ import annotations

import numpy as np
import pytest

from cluster.errors import Invalid
from jobs.refresh.recipe import load
from jobs.refresh.runs.dry_run import rehearse
from jobs.refresh.runs.estimate import CONTENT_COST, Size, estimate, refuse_too_large
from jobs.refresh.runs.training_source import Source
from tests.unit.jobs.refresh.test_training import circles


def cost_of(recipe_name: str, size: Size) -> float:
    return sum(cost.seconds for cost in estimate(load(recipe_name), size) if cost.part == CONTENT_COST)


def test_products_without_events_are_counted_where_texts_are_at_hand() -> None:
    size = Size(1_000_000, 50_000, 10_000, described=10_000)
    assert 2 < cost_of("default", size) < 20, "measured: 5 s"
    assert cost_of("default", Size(1_000_000, 50_000, 10_000)) == 0
    assert cost_of("session", size) == 0, "a recipe without [content]"
    larger = Size(1_000_000, 50_000, 100_000, described=100_000)
    assert cost_of("default", larger) > 4 * cost_of("default", size)


def test_a_dry_run_tells_it() -> None:
    source = Source(circles(), products=15, texts=tuple(b"{}" for _ in range(2_000)))
    told = rehearse(load("default"), source).told()
    without = rehearse(load("default").model_copy(update={"content": None}), source).told()
    assert [extra["part"] for extra in told["extras"]] == [CONTENT_COST]
    assert told["seconds"] > without["seconds"]


def test_features_that_do_not_fit_are_refused_with_what_to_lower() -> None:
    recipe = load("default").changed({"content.features": 10_000, "limits.memory_mb": 2_000})
    with pytest.raises(Invalid, match=r"part \[content\] .* lower `features` or `keep` of \[content\]"):
        refuse_too_large(recipe, Size(10_000, 1_000, 3_000, described=3_000))
    assert np.isfinite(cost_of("default", Size(0, 0, 0, described=5)))
