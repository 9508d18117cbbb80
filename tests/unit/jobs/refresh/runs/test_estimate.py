"""What a training is estimated to cost, before it starts."""

from __future__ import annotations

import numpy as np
import pytest

from cluster.errors import Invalid
from jobs.refresh.recipe import load_recipe_file
from jobs.refresh.runs.estimate import CONTENT_COST, DataSize, check_memory, estimate_costs, estimate_training
from jobs.refresh.runs.training_source import TrainingSource
from tests.unit.jobs.refresh.test_training import circles


def cost_of(recipe_name: str, size: DataSize) -> float:
    return sum(
        cost.seconds
        for cost in estimate_costs(load_recipe_file(recipe_name), size)
        if cost.part == CONTENT_COST
    )


def test_products_without_events_are_counted_where_texts_are_at_hand() -> None:
    size = DataSize(1_000_000, 50_000, 10_000, described=10_000)
    films, gifts = (
        DataSize(100_000, 671, 8_159, described=9_066),
        DataSize(380_000, 4_300, 3_553, described=3_553),
    )
    assert 17 < cost_of("default", films) < 30, "measured: 23 s of one core with 3,000 features"
    toys = DataSize(167_597, 19_412, 10_638, described=11_924)
    assert 26 < cost_of("default", toys) < 46, "measured: 36 s of one core with 3,000 features"
    fewer = load_recipe_file("default").with_changes({"content.features": 1_276})
    content = [cost for cost in estimate_costs(fewer, gifts) if cost.part == CONTENT_COST]
    assert 6.3 < content[0].seconds < 11.7, "measured: 9 s of one core with the 1,276 features it has"
    assert cost_of("default", DataSize(1_000_000, 50_000, 10_000)) == 0
    assert cost_of("session", size) == 0, "a recipe without [content]"
    larger = DataSize(1_000_000, 50_000, 100_000, described=100_000)
    assert cost_of("default", larger) > 3 * cost_of("default", size)


def test_a_dry_run_tells_it() -> None:
    source = TrainingSource(circles(), products=15, texts=tuple(b"{}" for _ in range(2_000)))
    estimate = estimate_training(load_recipe_file("default"), source).to_dict()
    without = estimate_training(
        load_recipe_file("default").model_copy(update={"content": None}), source
    ).to_dict()
    assert [extra["part"] for extra in estimate["extras"]] == [CONTENT_COST]
    assert estimate["seconds"] > without["seconds"]


def test_features_that_do_not_fit_are_refused_with_what_to_lower() -> None:
    recipe = load_recipe_file("default").with_changes({"content.features": 10_000, "limits.memory_mb": 2_000})
    with pytest.raises(Invalid, match=r"part \[content\] .* lower `features` or `keep` of \[content\]"):
        check_memory(recipe, DataSize(10_000, 1_000, 3_000, described=3_000))
    assert np.isfinite(cost_of("default", DataSize(0, 0, 0, described=5)))
