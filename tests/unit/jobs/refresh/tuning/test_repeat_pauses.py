"""Validation expects a product of the history again once its pause has ended, as lists may show it again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cluster.errors import Invalid
from cluster.records.apps import App
from cluster.records.engine import Engine
from jobs.refresh.build.fit import train_engine
from jobs.refresh.build.model_snapshot import write_model_snapshot
from jobs.refresh.data.dataset import FrameColumns, Interactions, interactions_from_frame
from jobs.refresh.data.split import EvaluationSplit, leave_last_out, split_at
from jobs.refresh.recipe import Recipe, parse_recipe
from jobs.refresh.runs.run_commands import create_run
from jobs.refresh.tuning.plan import make_plan
from jobs.refresh.tuning.split_selection import split_for_recipe
from tests.fakes.stores.memory import memory_stores

DAY_S = 86_400.0
PAUSES = {"checkout": 30.0}


def data_of(rows: list[tuple[str, str, float, str]]) -> Interactions:
    frame = pl.DataFrame(
        [(user, item, day * DAY_S, kind) for user, item, day, kind in rows],
        ["reader", "item", "at", "kind"],
        orient="row",
    )
    return interactions_from_frame(frame, FrameColumns(kind="kind"))


def food_shop() -> Interactions:
    """Make a user who watches films and buys food; all of it comes again on day 101."""
    past = [("a", "rice", 60, "checkout"), ("a", "oil", 90, "checkout"), ("a", "film", 10, "watch")]
    later = [("a", item, 101, "checkout") for item in ("rice", "oil", "film", "salt")]
    return data_of([*past, *later])


def target_names(trial: EvaluationSplit) -> list[str]:
    names = trial.train.items.names.to_pylist()
    return sorted(names[item] for item in trial.targets.items)


@pytest.mark.parametrize(
    ("pauses", "expected"),
    [
        ({}, ["salt"]),
        ({"checkout": 30.0}, ["rice", "salt"]),
        ({"checkout": 5.0}, ["oil", "rice", "salt"]),
        ({"watch": 30.0}, ["film", "salt"]),
        ({"*": 30.0}, ["film", "rice", "salt"]),
        ({"*": 0.0, "checkout": 30.0}, ["film", "rice", "salt"]),
    ],
)
def test_targets_by_time_are_what_lists_may_show(pauses: dict[str, float], expected: list[str]) -> None:
    trial = split_at(food_shop(), 100 * DAY_S, np.inf, seen="out", pauses=pauses)
    assert target_names(trial) == expected
    assert trial.seen == ("paused" if pauses else "out")
    hidden = {trial.train.items.names.to_pylist()[item] for item in trial.excluded_items().items}
    assert hidden == {"rice", "oil", "film"} - set(expected)
    assert target_names(trial.exclude_seen()) == ["salt"]


def test_a_pause_hides_where_users_repeat_products() -> None:
    trial = split_at(food_shop(), 100 * DAY_S, np.inf, seen="allowed", pauses=PAUSES)
    assert target_names(trial) == ["film", "rice", "salt"]
    assert trial.seen == "allowed"
    bought = split_at(
        food_shop(), 100 * DAY_S, np.inf, seen="other_kinds", kinds=("checkout",), pauses=PAUSES
    )
    assert target_names(bought) == ["film", "rice", "salt"]
    assert bought.seen == "other_kinds"


def test_the_last_item_may_be_a_repeat_after_its_pause() -> None:
    rows = [("a", "salt", 0, "checkout"), ("a", "rice", 1, "checkout"), ("a", "salt", 40, "checkout")]
    data = data_of(rows)
    assert len(leave_last_out(data).test) == 0
    assert target_names(leave_last_out(data, pauses=PAUSES).test) == ["salt"]
    assert len(leave_last_out(data, pauses={"checkout": 50.0}).test) == 0


def test_data_without_times_ignores_pauses() -> None:
    frame = pl.DataFrame([("a", item) for item in "xyx"], ["reader", "item"], orient="row")
    data = interactions_from_frame(frame, FrameColumns(at=None))
    trial = leave_last_out(data, pauses={"*": 0.0}).test
    assert (len(trial), trial.seen) == (0, "out")


def weekly_shop() -> Interactions:
    """Make users who buy one product every 40 days, and new products in between."""
    rng = np.random.default_rng(7)
    rows = []
    for user in range(240):
        favourite = f"food{user % 12:02d}"
        for day in range(0, 200, 40):
            rows.append((f"u{user:03d}", favourite, day + rng.random(), "checkout"))
            rows += [
                (f"u{user:03d}", f"p{rng.integers(300):03d}", day + 5 + at, "checkout") for at in range(6)
            ]
    return data_of(rows)


def recipe_of(**validation: object) -> Recipe:
    return parse_recipe(
        {
            "parts": {"popularity": {"learner": "popularity"}, "repeats": {"learner": "repeats"}},
            "blend": {"start": {"popularity": 1.0}},
            "validation": validation,
        }
    )


def test_a_training_with_pauses_chooses_both_sets_of_weights(tmp_path: Path) -> None:
    """Repeats below a fifth would be excluded for ever; with a pause they count, and new products keep weights."""
    recipe = recipe_of(repeat_after_days=PAUSES)
    split = split_for_recipe(recipe, weekly_shop())
    assert split.test.seen == "paused"
    plan = make_plan(recipe, split.validation)
    assert isinstance(plan.recipe.blend.weights, dict)
    assert plan.recipe.blend.weights["repeats"] > 0
    assert not (plan.recipe.blend.weights_unseen or {}).get("repeats")
    assert (plan.recipe.validation.seen, plan.recipe.validation.repeat_after_days) == ("paused", PAUSES)
    assert split_for_recipe(plan.recipe, weekly_shop()).test.seen == "paused"
    engine = train_engine(plan.recipe, split.test.train)
    manifest = write_model_snapshot(engine, tmp_path / "one", written_at_ms=1)
    assert manifest.facts["recipe"]["validation"]["repeat_after_days"] == PAUSES


async def test_a_run_takes_the_pauses_of_its_engine_unless_its_recipe_has_some() -> None:
    stores = memory_stores()
    await stores.access.put_app(App(app_id="shop", environment="production", created_at=0))
    await stores.engines.put(Engine(app_id="shop", engine_id="default", repeat_after_days=PAUSES))
    recipe = recipe_of().model_dump(mode="json")
    run = await create_run(stores, "shop", "default", recipe, now_ms=1, by="ada")
    assert parse_recipe(run.recipe).validation.repeat_after_days == PAUSES
    named = recipe_of(repeat_after_days={"*": 1.0}).model_dump(mode="json")
    run = await create_run(stores, "shop", "default", named, now_ms=2, by="ada")
    assert parse_recipe(run.recipe).validation.repeat_after_days == {"*": 1.0}


def test_a_recipe_without_pauses_is_stored_as_by_earlier_releases() -> None:
    assert "repeat_after_days" not in recipe_of().model_dump(mode="json")["validation"]


@pytest.mark.parametrize(
    ("pauses", "message"),
    [({"checkout": -1}, "repeat_after_days.checkout: .*greater than or equal to 0"),
     ({f"t{at}": 1 for at in range(33)}, "repeat_after_days: .*at most 32")],
)  # fmt: skip
def test_wrong_pauses_are_named(pauses: dict[str, float], message: str) -> None:
    with pytest.raises(Invalid, match=message):
        recipe_of(repeat_after_days=pauses)
