"""What a training is estimated to cost, before it starts."""

from __future__ import annotations

import numpy as np
import pytest

from cluster.errors import Invalid
from jobs.refresh.learners.neighbours import graph_filter
from jobs.refresh.learners.neighbours.graph_filter import GraphFilterRecipe
from jobs.refresh.learners.transformer import TransformerRecipe
from jobs.refresh.recipe import PRESETS, load_recipe_file
from jobs.refresh.runs.estimate import (
    check_memory,
    estimate_costs,
    estimate_from_size,
    estimate_training,
)
from jobs.refresh.runs.plan_evaluation import split_data
from jobs.refresh.runs.training_source import TrainingSource
from jobs.refresh.runs.workload import DataSize, MachineSpeed, Workload, measure_speed
from jobs.refresh.tuning.part_outcomes import CONTENT
from tests.unit.jobs.refresh.test_training import circles

FILMS = DataSize(100_004, 671, 9_066, described=9_066, features=3_000)
TOYS = DataSize(167_597, 19_412, 11_924, described=11_924, features=1_802)
GIFTS = DataSize(407_695, 4_314, 4_017, described=4_017, features=1_333)
CARTS = DataSize(453_518, 48_749, 39_493)
CLICKS = DataSize(83_846, 21_210, 2_933)
"""Sizes of public sets; their trainings were measured on one core, in processor time. Those of `fast` were measured
again on a faster machine, and scaled by an earlier `fast` that was measured on both."""

MARKET = DataSize(1_000_000, 59_961, 20_000, described=20_000, features=1)
"""Generated events. The training took 2,580 s of processor time, less what two kills repeated, on a machine for which
`measure_speed` gave 1.45 to 1.73."""


def cost_of(recipe_name: str, size: DataSize) -> float:
    return sum(
        cost.seconds for cost in estimate_costs(load_recipe_file(recipe_name), size) if cost.part == CONTENT
    )


def test_products_without_events_are_counted_where_texts_are_at_hand() -> None:
    size = DataSize(1_000_000, 50_000, 10_000, described=10_000)
    for measured_s, counted in ((13.1, FILMS), (6.5, TOYS), (3.6, GIFTS)):
        assert abs(cost_of("default", counted) / measured_s - 1) < 0.3
    assert cost_of("default", DataSize(1_000_000, 50_000, 10_000)) == 0
    assert cost_of("session", size) == 0, "a recipe without [content]"
    larger = DataSize(1_000_000, 50_000, 100_000, described=100_000)
    assert cost_of("default", larger) > 3 * cost_of("default", size)


@pytest.mark.parametrize(
    ("recipe", "size", "load", "seconds", "megabytes"),
    [
        ("fast", FILMS, Workload(1, 671, 400, 671, 1, 147.0, 507.2), 13.1, 439),
        ("default", FILMS, Workload(2, 1_342, 671, 671, 1, 147.0, 507.2), 92.8, 1_221),
        ("fast", TOYS, Workload(1, 1_000, 400, 4_000, 1, 6.63, 17.0), 4.9, 441),
        ("default", TOYS, Workload(1, 4_000, 1_000, 4_000, 1, 6.63, 17.0), 81.1, 1_006),
        ("fast", GIFTS, Workload(1, 893, 400, 1_234, 2, 166.6, 526.3), 12.6, 860),
        ("default", GIFTS, Workload(2, 1_744, 872, 1_234, 2, 166.6, 526.3), 69.5, 1_023),
        ("fast", CARTS, Workload(1, 1_000, 400, 4_000, 2, 7.3, 12.5), 10.9, 642),
        ("default", CARTS, Workload(1, 4_000, 1_000, 4_000, 2, 7.3, 12.5), 90.0, 1_071),
        ("fast", CLICKS, Workload(1, 1_000, 400, 4_000, 1, 3.06, 6.9), 2.1, 298),
        ("default", CLICKS, Workload(1, 4_000, 1_000, 4_000, 1, 3.06, 6.9), 8.5, 435),
        ("deep", MARKET, Workload(1, 4_000, 1_000, 4_000, 2, 17.5, 203.6, 0.81, 0.9), 2_580 / 1.6, 2_493),
    ],
)
def test_time_and_memory_of_whole_trainings_are_estimated_within_30_percent(
    recipe: str, size: DataSize, load: Workload, seconds: float, megabytes: int
) -> None:
    estimate = estimate_from_size(load_recipe_file(recipe), size, load=load)
    assert abs(estimate.seconds / seconds - 1) < 0.3
    assert seconds <= estimate.seconds_at_most < 2.2 * seconds
    assert abs((estimate.memory >> 20) / megabytes - 1) < 0.3


def test_the_bound_counts_all_epochs_and_all_parts() -> None:
    deep = load_recipe_file("deep")
    estimate = estimate_from_size(deep, CLICKS)
    costs = {cost.part: cost for cost in estimate.costs}
    assert costs["transformer"].extra > 0.5 * costs["transformer"].seconds, "60 epochs instead of 25"
    assert costs["item_knn"].extra > 0, "the blend may keep it"
    assert costs["ease"].extra == 0, "the blend starts with it"
    few = deep.with_changes({"parts.transformer.epochs": 5})
    (part,) = (cost for cost in estimate_from_size(few, CLICKS).costs if cost.part == "transformer")
    assert part.extra == 0
    assert estimate.to_dict()["seconds_at_most"] == pytest.approx(
        1.3 * (estimate.seconds + sum(cost.extra for cost in estimate.costs)), abs=0.1
    )


def test_deep_takes_at_most_45_minutes_with_a_million_events() -> None:
    deep = load_recipe_file("deep")
    size = DataSize(1_000_000, 50_000, 20_000, described=20_000)
    estimate = estimate_from_size(deep, size)
    assert estimate.seconds < estimate.seconds_at_most <= 45 * 60
    assert estimate.memory < 6 << 30
    unlimited = deep.with_changes({"parts.transformer.event_visits": 60_000_000})
    assert estimate_from_size(unlimited, size).seconds == estimate.seconds, (
        "a usual number of epochs is below the limit"
    )
    assert estimate_from_size(unlimited, size).seconds_at_most > 2 * estimate.seconds_at_most
    larger = estimate_from_size(deep, DataSize(2_000_000, 100_000, 20_000))
    (part,) = (cost for cost in larger.costs if cost.part == "transformer")
    assert part.extra == 0, "both figures count 11 epochs"
    assert larger.seconds_at_most < 50 * 60


@pytest.mark.parametrize("users", [1_500, 20_000])
def test_small_data_tune_the_transformer_within_25_minutes(users: int) -> None:
    deep = load_recipe_file("deep")
    estimates = [estimate_from_size(deep, DataSize(events, users, 20_000)) for events in (150_000, 240_000)]
    trainings = [
        cost.trainings for estimate in estimates for cost in estimate.costs if cost.part == "transformer"
    ]
    splits = 2 if users == 1_500 else 1
    assert trainings == [1 + 3 * splits, 1 + splits], "two values, unless there are too many events"
    assert all(estimate.seconds < 25 * 60 for estimate in estimates)


@pytest.mark.parametrize("recipe", PRESETS)
@pytest.mark.parametrize("items", [400_000, 400_001, 700_000, 1_000_000])
@pytest.mark.parametrize("users", [60_000, 1_000_000])
def test_large_catalogs_fit_into_the_default_limit(recipe: str, items: int, users: int) -> None:
    size = DataSize(1_000_000, users, items, described=items)
    loaded = load_recipe_file(recipe)
    estimate = estimate_from_size(loaded, size)
    check_memory(loaded, size)
    costs = {cost.part for cost in estimate.costs}
    bounded = {"graph_filter", CONTENT} & {*loaded.parts, CONTENT if loaded.content else ""}
    assert costs.isdisjoint(estimate.left_out)
    assert costs & bounded == (bounded if items == 400_000 else set())
    for part in bounded if items > 400_000 else ():
        reason = f"is meant for catalogs of at most 400,000 items, this one has {items:,}"
        assert estimate.to_dict()["left_out"][part] == reason


@pytest.mark.parametrize(
    ("size", "measured_mb"),
    [
        (DataSize(200_000, 10_000, 20_000), 160),
        (DataSize(100_000, 60_000, 60_000), 321),
        (DataSize(600_000, 60_000, 60_000), 356),
        (DataSize(600_000, 10_000, 60_000), 597),
        (DataSize(400_000, 200_000, 60_000), 458),
        (DataSize(1_000_000, 200_000, 200_000), 1_006),
    ],
)
def test_a_graph_filter_needs_at_most_its_estimate(size: DataSize, measured_mb: int) -> None:
    estimate = graph_filter.estimate_memory_bytes(size.items, size.users, size.events, GraphFilterRecipe())
    assert measured_mb <= estimate >> 20 <= 2.6 * measured_mb


def test_the_limit_of_visits_does_not_change_public_sets() -> None:
    for size in (FILMS, TOYS, CLICKS):
        assert TransformerRecipe().limit_epochs(size.events) == 60
    assert all(TransformerRecipe().limit_epochs(size.events) > 40 for size in (GIFTS, CARTS)), (
        "38 were the most"
    )


def test_the_load_of_a_training_is_counted_from_its_split() -> None:
    data = circles()
    recipe = load_recipe_file("default")
    load = Workload.from_split(recipe, split_data(recipe, data, "leave_last_out"), data)
    assert 0 < load.tune_users <= load.test_users <= data.n_readers
    assert 0 < load.length < load.spread_length
    assert load.passes == 1


def test_a_slower_machine_takes_longer() -> None:
    recipe = load_recipe_file("default")
    slow = estimate_from_size(recipe, FILMS, speed=MachineSpeed(2.0, 2.0)).seconds
    assert slow == pytest.approx(2 * estimate_from_size(recipe, FILMS).seconds)
    speed = measure_speed()
    assert speed.products > 0
    assert speed.rest > 0


def test_a_dry_run_tells_it() -> None:
    source = TrainingSource(circles(), products=15, texts=tuple(b"{}" for _ in range(2_000)))
    estimate = estimate_training(load_recipe_file("default"), source).to_dict()
    without = estimate_training(
        load_recipe_file("default").model_copy(update={"content": None}), source
    ).to_dict()
    assert [extra["part"] for extra in estimate["extras"]] == [CONTENT]
    assert estimate["seconds"] > without["seconds"]


def test_features_that_do_not_fit_are_refused_with_what_to_lower() -> None:
    recipe = load_recipe_file("default").with_changes({"content.features": 10_000, "limits.memory_mb": 2_000})
    with pytest.raises(Invalid, match=r"part \[content\] .* lower `features` or `keep` of \[content\]"):
        check_memory(recipe, DataSize(10_000, 1_000, 3_000, described=3_000))
    assert np.isfinite(cost_of("default", DataSize(0, 0, 0, described=5)))
