"""A catalog above EASE's reach, buys alone and with carts as weaker evidence, and what the graph filter costs.

taobao-ghcf has no clock. The last purchase of every user is asked for; what was bought before is hidden, what lies in a
cart may be answered. `python -m tests.benchmarks.quality_large [--cost]`.
"""

from __future__ import annotations

import gzip
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from actors.models.user_histories import UserHistories
from actors.models.user_history import UserHistory
from jobs.refresh.build.fit import train_engine
from jobs.refresh.data.dataset import FrameColumns, Interactions, interactions_from_frame
from jobs.refresh.data.split import EvaluationSplit, Targets
from jobs.refresh.evaluation.evaluate import Scorer, evaluate
from jobs.refresh.learners.als import AlsRecipe
from jobs.refresh.learners.neighbours.graph_filter import GraphFilterLearner, GraphFilterRecipe
from jobs.refresh.learners.neighbours.item_knn import ItemKnnRecipe
from jobs.refresh.learners.neighbours.sequential_rules import RulesRecipe
from jobs.refresh.learners.protocol import PartRecipe
from jobs.refresh.learners.registry import build_learner
from jobs.refresh.recipe import load_recipe_file
from jobs.refresh.tuning.plan import make_plan
from jobs.refresh.tuning.split_protocol import split_for_recipe
from tests.benchmarks import quality_sets as sets

USERS = 4_000


def taobao(*, carts: bool) -> tuple[Interactions, EvaluationSplit]:
    """Read the set: events of training, and the trial."""
    rows = [(user, item, 1.0, "checkout") for user, item in _pairs("buy.train.txt.gz")]
    if carts:
        rows = [(user, item, 0.7, "add_to_cart") for user, item in _pairs("cart.txt.gz")] + rows
    test_pairs = _pairs("buy.test.txt.gz")
    rows += [(user, item, 1.0, "asked") for user, item in test_pairs]
    frame = pl.DataFrame(rows, ["reader", "item", "weight", "kind"], orient="row")
    whole = interactions_from_frame(frame, FrameColumns(at=None, weight="weight", kind="kind"))
    train = whole.pick(whole.kind != whole.kinds.index("asked"))
    last = whole.of_kinds(("asked",))
    users = np.unique(last.reader)
    targets = Targets.from_pairs(np.searchsorted(users, last.reader), last.item, len(users))
    trial = EvaluationSplit("last purchase", train, UserHistories.of(train, users), targets, "allowed")
    returning = trial.pick(np.flatnonzero(trial.histories.lengths > 0))
    return train, returning.sample(USERS, np.random.default_rng(1))


def taobao_events() -> Interactions:
    """Read the events of the set: carts, then purchases with the last one of every user at the end."""
    rows = [(user, item, 0.7, "add_to_cart") for user, item in _pairs("cart.txt.gz")]
    for name in ("buy.train.txt.gz", "buy.test.txt.gz"):
        rows += [(reader, item, 1.0, "checkout") for reader, item in _pairs(name)]
    frame = pl.DataFrame(rows, ["reader", "item", "weight", "kind"], orient="row")
    return interactions_from_frame(frame, FrameColumns(at=None, weight="weight", kind="kind"))


class _WithoutBought:
    """Hides what a user bought: it weighs 1, carts weigh less."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer

    def score(self, histories: UserHistories) -> npt.NDArray[np.float32]:
        scores = self._scorer.score(histories)
        bought = histories.weights >= 1.0
        scores[histories.owners()[bought], histories.items[bought]] = -1e9
        return scores


def figures(scorer: Scorer, trial: EvaluationSplit) -> str:
    """Give the figures that are reported."""
    evaluated = evaluate(_WithoutBought(scorer), trial).figures
    return f"NDCG@10 {evaluated['ndcg@10'].mean():.4f}  R@20 {evaluated['recall@20'].mean():.4f}"


def quality(*, plans: bool) -> Iterator[str]:
    """Compare learners alone, and the default recipe without and with the graph filter."""
    parts: Sequence[PartRecipe] = (
        ItemKnnRecipe(),
        RulesRecipe(),
        AlsRecipe(),
        GraphFilterRecipe(alpha=0.0),
        GraphFilterRecipe(),
    )
    for carts in (False, True):
        label = "buys and carts" if carts else "buys alone"
        train, trial = taobao(carts=carts)
        for part in parts:
            began = time.perf_counter()
            model = build_learner(part).train(train, np.random.default_rng(1))
            took = time.perf_counter() - began
            alpha = f" alpha {part.alpha:g}" if isinstance(part, GraphFilterRecipe) else ""
            yield f"{label:16} {part.learner + alpha:24} {figures(model, trial)}  fit {took:.1f} s"  # type: ignore[attr-defined]
        if plans:
            for name, kept in (("default without graph filter", False), ("default", True)):
                recipe = load_recipe_file("default")
                if not kept:
                    others = {
                        part: learner_recipe
                        for part, learner_recipe in recipe.parts.items()
                        if part != "graph_filter"
                    }
                    recipe = recipe.model_copy(update={"parts": others})
                plan = make_plan(recipe, split_for_recipe(recipe, train).validation)
                line = figures(train_engine(plan.recipe, train), trial)
                yield f"{label:16} {name:24} {line}  {plan.recipe.blend.weights}"


def costs(items: int) -> str:
    """Train on generated events, five a user and ten an item, and ask for single users."""
    rng = np.random.default_rng(2)
    count = 10 * items
    frame = pl.DataFrame(
        {
            "reader": rng.integers(0, count // 8, count),
            "item": (items * rng.random(count) ** 3).astype(np.int64),
        }
    )
    data = interactions_from_frame(frame, FrameColumns(at=None))
    began = time.perf_counter()
    model = GraphFilterLearner(GraphFilterRecipe()).train(data, rng)
    took = time.perf_counter() - began
    total = np.zeros(data.n_items, np.float32)
    times_s = []
    for _ in range(300):
        history = rng.integers(0, data.n_items, 50)
        past = UserHistory.of(history.tolist(), np.arange(50.0)[::-1], [1.0] * 50, 50.0)
        began = time.perf_counter()
        model.add_to(total, past)
        times_s.append(time.perf_counter() - began)
    size = sum(array.nbytes for array in model.save().arrays.values()) >> 20
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return (
        f"{items:,} items, {count:,} events: fit {took:.1f} s, peak of the process {peak:,} MB, model {size} MB, "
        f"query p50 {1e6 * float(np.median(times_s)):.0f} us"
    )


def _pairs(name: str) -> list[tuple[str, str]]:
    pairs: list[Any] = []
    with gzip.open(sets.data_folder() / "taobao-ghcf" / name, "rt") as lines:
        for line in lines:
            user, *items = line.split()
            pairs += [(user, item) for item in items]
    return pairs


if __name__ == "__main__":
    if "--cost" in sys.argv:
        for size in (40_000, 200_000):
            print(costs(size), flush=True)
    else:
        for line in quality(plans="--plans" in sys.argv):
            print(line, flush=True)
