"""What validation asks for where the last item is left out: purchases, also of what lay in the cart before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from jobs.refresh.build.fit import train_engine
from jobs.refresh.data.dataset import FrameColumns, Interactions, interactions_from_frame
from jobs.refresh.data.split import leave_last_out
from jobs.refresh.evaluation.evaluate import evaluate
from jobs.refresh.recipe import Recipe, parse_recipe
from jobs.refresh.recipe import load_recipe_file as load_recipe
from jobs.refresh.tuning.plan import make_plan
from jobs.refresh.tuning.split_selection import split_for_recipe

ITEMS = 60


def shop(*, carted: float, bought_again: float = 0.0, users: int = 300) -> Interactions:
    """Make users who fill a cart with four items and then buy three; a share of these lay in the cart."""
    rng = np.random.default_rng(4)
    rows = []
    for user in range(users):
        items = [int(item) for item in rng.permutation(ITEMS)[:8]]
        cart, others = items[:4], items[4:]
        bought: list[int] = []
        for purchase in range(3):
            if bought and rng.random() < bought_again:
                bought.append(bought[0])
            else:
                bought.append(cart[purchase] if rng.random() < carted else others[purchase])
        rows += [(f"r{user:03d}", f"i{item:02d}", 0.7, "add_to_cart") for item in cart]
        rows += [(f"r{user:03d}", f"i{item:02d}", 1.0, "checkout") for item in bought]
    frame = pl.DataFrame(rows, ["reader", "item", "weight", "kind"], orient="row")
    return interactions_from_frame(frame, FrameColumns(at=None, weight="weight", kind="kind"))


def recipe_of() -> Recipe:
    return parse_recipe(
        {
            "parts": {"rules": {"learner": "rules"}, "repeats": {"learner": "repeats"}},
            "blend": {"start": {"rules": 1.0}},
        }
    )


def names_of(data: Interactions, items: np.ndarray) -> list[str]:
    names = data.items.names.to_pylist()
    return [names[item] for item in items.tolist()]


def test_the_last_purchase_is_a_target_though_it_was_in_the_cart() -> None:
    """Plain leave-last-out asked for the last event of any kind, and never for what the user had met."""
    trial = split_for_recipe(load_recipe("default"), shop(carted=0.6)).validation[0]
    assert (trial.kinds, trial.seen) == (("checkout",), "other_kinds")
    assert len(trial) == 300
    seen = trial.histories.seen()
    carted = np.asarray(seen[trial.targets.owners(), trial.targets.items]).ravel().mean()
    assert carted == pytest.approx(0.6, abs=0.1)


def test_only_what_was_bought_is_hidden() -> None:
    data = shop(carted=0.6)
    trial = split_for_recipe(load_recipe("default"), data).test
    bought = data.of_kinds(("checkout",))
    hidden = trial.excluded_items()
    first = [hidden.starts[0], hidden.starts[1]]
    assert names_of(data, hidden.items[slice(*first)]) == sorted(names_of(data, bought.item[:2]))
    assert not np.isin(trial.targets.items[:1], hidden.items[slice(*first)])


def test_the_plan_detects_the_cart_and_its_recipe_informs_serving() -> None:
    """The recipe of a snapshot decides what serving leaves out, so what was found must stand in it."""
    split = split_for_recipe(recipe_of(), shop(carted=0.8))
    plan = make_plan(recipe_of(), split.validation)
    assert isinstance(plan.recipe.blend.weights, dict)
    assert plan.recipe.blend.weights["repeats"] > 0
    assert (plan.recipe.validation.seen, plan.recipe.validation.kinds) == ("other_kinds", ("checkout",))
    figures = evaluate(train_engine(plan.recipe, split.test.train), split.test).figures
    assert figures["hit_rate@10"].mean() > 0.7
    assert split_for_recipe(plan.recipe, shop(carted=0.8)).test.seen == "other_kinds", (
        "asked again, it stays so"
    )


def test_carts_that_lead_nowhere_stay_hidden() -> None:
    split = split_for_recipe(load_recipe("default"), shop(carted=0.0))
    assert (split.test.kinds, split.test.seen) == (("checkout",), "out")


def test_what_is_bought_again_and_again_may_be_answered() -> None:
    assert split_for_recipe(load_recipe("default"), shop(carted=0.3, bought_again=0.5)).test.seen == "allowed"


def test_few_buyers_or_one_kind_of_event_change_nothing() -> None:
    few = split_for_recipe(load_recipe("default"), shop(carted=0.6, users=150))
    assert (few.test.kinds, few.test.seen) == ((), "out")
    data = shop(carted=0.6)
    alone = data.of_kinds(("checkout",))
    plain, now = leave_last_out(alone).test, split_for_recipe(load_recipe("default"), alone).test
    assert now.seen == "out"
    assert np.array_equal(plain.targets.items, now.targets.items)


def test_kinds_of_the_recipe_are_obeyed_where_the_last_item_is_left_out() -> None:
    """They were read by the split by time only."""
    recipe = load_recipe("default").with_changes(
        {"validation.kinds": ["add_to_cart"], "validation.seen": "out"}
    )
    data = shop(carted=0.6)
    trial = split_for_recipe(recipe, data).test
    carts = data.of_kinds(("add_to_cart",))
    lasts = carts.item[carts.starts()[1:] - 1]
    assert names_of(data, trial.targets.items) == names_of(data, lasts)
    assert set(trial.train.kind.tolist()) == {data.kinds.index("add_to_cart")}, "what follows is not known"


def test_a_sample_of_readers_keeps_what_each_of_them_bought() -> None:
    trial = split_for_recipe(load_recipe("default"), shop(carted=0.6)).test
    few = trial.pick(np.array([7, 11]))
    hidden, every = few.excluded_items(), trial.excluded_items()
    assert np.array_equal(hidden.items[: hidden.starts[1]], every.items[every.starts[7] : every.starts[8]])
    everything = replace(few, seen="out", taken=None)
    assert len(everything.excluded_items().items) > len(hidden.items)
