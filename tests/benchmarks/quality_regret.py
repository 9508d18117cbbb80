"""Selection regret: the chosen blend beside the best configuration in hindsight, on the development sets.

    python -m tests.benchmarks.quality_regret [--set NAME ...] [--cache FOLDER] [--json]

Validation chooses weights as a training does. The test, which is newer, compares them with a list of configurations:
every component variant alone, and every two components with a ladder of weights. The best of these in hindsight would
win by luck too, so one half of the users chooses it and the other half measures it, and the other way round.

    regret = 1 - NDCG@10 of the choice / NDCG@10 of the best configuration, on the same users

Each set has two lines where its users repeat items: targets new to the user, and all targets. The films have no split
by time: their users rate in one sitting, so only some 30 of them have events on both sides of an instant.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter
from rich.console import Console
from rich.table import Table

from actors.models.model import Model
from actors.vectors.types import Floats
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.data.split import (
    EvaluationSplit,
    TrainingSplit,
    leave_last_out,
    split_by_time,
    split_next_in_session,
)
from jobs.refresh.evaluation.metrics import mean_figure
from jobs.refresh.learners.registry import build_learner, build_rng
from jobs.refresh.recipe import AnyPart, Recipe, load_recipe_file
from jobs.refresh.tuning.blend_weights import choose_blend
from jobs.refresh.tuning.candidate_items import TuningCandidates
from jobs.refresh.tuning.parameter_search import expand_time_decays
from jobs.refresh.tuning.plan import fit_recipe_to_catalog
from jobs.refresh.tuning.variant_training import PartVariant, collect_split_candidates, tune_and_train
from tests.benchmarks import quality_sets as sets

USERS = 1_500
"Test users of each line."
_PAIR_WEIGHTS = (0.1, 0.2, 0.35, 0.6, 1.0, 1.7, 3.0)
_AIM_MEDIAN, _AIM_WORST = 0.01, 0.03


@dataclass(frozen=True)
class Case:
    """A set in a protocol."""

    folder: str
    protocol: str
    split: Callable[[], TrainingSplit]


@dataclass(frozen=True)
class Regret:
    """The choice of one weight vector beside the best configuration."""

    set: str
    protocol: str
    targets: str
    users: int
    chosen: float
    "NDCG@10 on the test."
    start: float
    "NDCG@10 of the initial weights of the recipe."
    best: float
    "NDCG@10 of the best configuration, chosen on the other half of the users."
    regret: float
    weights: str
    best_weights: str


@dataclass(frozen=True)
class Evidence:
    """Candidates of validation and test, by the kind of targets."""

    variants: tuple[PartVariant, ...]
    validation: dict[str, list[TuningCandidates]]
    test: dict[str, TuningCandidates]


def cases() -> list[Case]:
    """List what is measured."""
    return [
        Case("amazon-toys", "leave last out", lambda: leave_last_out(sets.amazon_toys(), 2)),
        Case("ml-latest-small", "leave last out", lambda: leave_last_out(sets.movielens_small(), 2)),
        Case("online-retail-y1", "by time", lambda: split_by_time(sets.online_retail(), folds=2)),
        Case(
            "online-retail-y1",
            "by time, 7 months",
            lambda: split_by_time(_first_part(sets.online_retail(), 0.6), folds=2),
        ),
        Case(
            "online-retail-y1",
            "leave last out",
            lambda: leave_last_out(sets.online_retail(), 2, seen="allowed"),
        ),
        Case(
            "yoochoose-100k",
            "leave last out",
            lambda: leave_last_out(sets.yoochoose()[0], 2, seen="allowed"),
        ),
        Case("yoochoose-100k", "sessions", _sessions),
        Case("taobao-ghcf", "last purchase", last_purchases),
    ]


def measure(case: Case, recipe: Recipe, cache: Path | None = None) -> Iterator[Regret]:
    """Choose the weights of a recipe on validation, and compare them with all configurations on the test."""
    evidence = _load(case, cache) or _collect(case, recipe, cache)
    start = np.zeros(len(evidence.variants))
    names = [variant.name for variant in evidence.variants]
    for name, weight in recipe.blend.start.items():
        if name in names:
            start[names.index(name)] = weight
    choice = choose_blend(
        recipe, evidence.variants, evidence.validation["all"], evidence.validation.get("new", ())
    )
    for targets, weights in (("all", choice.weights), ("new", choice.weights_unseen)):
        if targets in evidence.test:
            yield _compare(case, targets, evidence, weights, start)


def _collect(case: Case, recipe: Recipe, cache: Path | None) -> Evidence:
    split = case.split()
    recipe = fit_recipe_to_catalog(recipe, split.test.train.n_items)
    trained = tune_and_train(recipe, split.validation)
    tests = [_train_variants(trained.variants, split.test, recipe)]
    validation, tested = {"all": trained.collect(recipe)}, {}
    trials = {"all": split.test}
    if split.test.seen != "out":
        trials["new"] = split.test.exclude_seen()
        validation["new"] = trained.collect(recipe, unseen=True)
    for targets, trial in trials.items():
        rng = np.random.default_rng(1)
        (tested[targets],) = collect_split_candidates(tests, [trial], rng, users=USERS, k=recipe.blend.k)
    evidence = Evidence(trained.variants, validation, tested)
    if cache is not None:
        _save(case, evidence, cache)
    return evidence


def _train_variants(variants: Sequence[PartVariant], trial: EvaluationSplit, recipe: Recipe) -> list[Model]:
    """Train each component once, and give its variants their time decays."""
    trained: dict[str, Model] = {}
    models = []
    for variant in variants:
        if variant.name not in trained:
            learner = build_learner(variant.part)
            trained[variant.name] = learner.train(trial.train, build_rng(recipe.seed, variant.name))
        fading = getattr(variant.part, "fading", None)
        fadings = () if fading is None else (fading,)
        ((_, model),) = expand_time_decays(variant.part, trained[variant.name], fadings)
        models.append(model)
    return models


def _compare(case: Case, targets: str, evidence: Evidence, weights: Floats, start: Floats) -> Regret:
    test, names = evidence.test[targets], [variant.name for variant in evidence.variants]
    chosen = _ndcg(test, weights)
    configurations = list(_configurations(names))
    figures = np.array([_ndcg(test, configuration) for configuration in configurations])
    half = np.random.default_rng(2).permutation(len(chosen)) % 2 == 0
    best = 0.0
    for members in (half, ~half):
        at = int(np.argmax(figures[:, ~members].mean(axis=1)))
        best += float(figures[at, members].sum()) / len(chosen)
    whole = configurations[int(np.argmax(figures.mean(axis=1)))]
    return Regret(
        case.folder, case.protocol, targets, len(chosen), mean_figure(chosen), mean_figure(_ndcg(test, start)),
        best, 1 - mean_figure(chosen) / best,
        _weights_text(evidence.variants, weights), _weights_text(evidence.variants, whole),
    )  # fmt: skip


def _configurations(names: Sequence[str]) -> Iterator[Floats]:
    """Yield the weights of every variant alone, and of every two components with a ladder of weights."""
    unit = np.eye(len(names))
    yield from unit
    for left, right in combinations(range(len(names)), 2):
        if names[left] != names[right]:
            for weight in _PAIR_WEIGHTS:
                yield unit[left] + weight * unit[right]


def _ndcg(candidates: TuningCandidates, weights: Floats) -> Floats:
    return candidates.compute_ndcg(candidates.blend_scores(weights))


def _weights_text(variants: Sequence[PartVariant], weights: Floats) -> str:
    return ", ".join(
        f"{variants[at].name} {weights[at]:.3g}" for at in np.argsort(-weights).tolist() if weights[at]
    )


def _first_part(data: Interactions, share: float) -> Interactions:
    return data.pick(data.at_s <= float(np.quantile(data.at_s, share)))


def _sessions() -> TrainingSplit:
    data, begins = sets.yoochoose()
    test = split_next_in_session(data, begins)
    day = 86_400.0
    first = split_next_in_session(test.train, begins - day)
    return TrainingSplit((first, split_next_in_session(first.train, begins - 2 * day)), test)


def last_purchases() -> TrainingSplit:
    """The last purchase of each user; what is in the cart is a valid target, what was bought is not."""
    return leave_last_out(sets.taobao(), 2, kinds=("checkout",), seen="other_kinds")


def _cache_path(case: Case, cache: Path) -> Path:
    return cache / f"{case.folder}, {case.protocol}.npz"


def _save(case: Case, evidence: Evidence, cache: Path) -> None:
    arrays: dict[str, Any] = {}
    for targets, test in evidence.test.items():
        for at, candidates in enumerate([test, *evidence.validation[targets]]):
            for name in ("scores", "relevant", "best"):
                arrays[f"{targets}/{at}/{name}"] = getattr(candidates, name)
    variants = [[variant.name, variant.part.model_dump(mode="json")] for variant in evidence.variants]
    k = evidence.test["all"].k
    arrays["facts"] = np.array(json.dumps({"variants": variants, "k": k, "targets": list(evidence.test)}))
    cache.mkdir(parents=True, exist_ok=True)
    np.savez(_cache_path(case, cache), **arrays)


def _load(case: Case, cache: Path | None) -> Evidence | None:
    """Return the part scores that an earlier run stored, None if there are none."""
    if cache is None or not _cache_path(case, cache).exists():
        return None
    with np.load(_cache_path(case, cache)) as arrays:
        facts = json.loads(str(arrays["facts"]))
        variants = tuple(
            PartVariant(name, TypeAdapter(AnyPart).validate_python(fields))
            for name, fields in facts["variants"]
        )
        validation, tested = {}, {}
        for targets in facts["targets"]:
            count = sum(name.startswith(f"{targets}/") for name in arrays.files) // 3
            several = [
                TuningCandidates(
                    arrays[f"{targets}/{at}/scores"],
                    arrays[f"{targets}/{at}/relevant"],
                    arrays[f"{targets}/{at}/best"],
                    facts["k"],
                )
                for at in range(count)
            ]
            tested[targets], validation[targets] = several[0], several[1:]
    return Evidence(variants, validation, tested)


def print_table(lines: Sequence[Regret], console: Console) -> None:
    """Print the lines, the median and the worst regret."""
    table = Table(
        "set, protocol", "targets", "users", "start", "chosen", "best", "regret", "weights", "best of"
    )
    for line in lines:
        table.add_row(
            f"{line.set}, {line.protocol}", line.targets, f"{line.users:,}", f"{line.start:.4f}",
            f"{line.chosen:.4f}", f"{line.best:.4f}", f"{line.regret:+.2%}", line.weights, line.best_weights,
        )  # fmt: skip
    console.print(table)
    regrets = np.array([max(line.regret, 0.0) for line in lines])
    console.print(
        f"median regret {np.median(regrets):.2%} (aim {_AIM_MEDIAN:.0%}), worst {regrets.max():.2%} "
        f"(aim {_AIM_WORST:.0%})"
    )


def main() -> None:
    """Measure the chosen sets."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--set", action="append", default=[], help="a folder of the data; all if left out")
    parser.add_argument("--only", default="", help="words of the protocol")
    parser.add_argument("--recipe", default="default", help="a preset or a file")
    parser.add_argument("--cache", type=Path, help="folder of part scores, which later runs read again")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    recipe, progress = load_recipe_file(options.recipe), Console(stderr=True)
    lines: list[Regret] = []
    for case in cases():
        if options.only not in case.protocol or (options.set and case.folder not in options.set):
            continue
        if not sets.has(case.folder):
            progress.print(f"{case.folder}, {case.protocol}: not measured, the set is absent")
            continue
        began = time.perf_counter()
        lines += measure(case, recipe, options.cache)
        progress.print(f"{case.folder}, {case.protocol}: {time.perf_counter() - began:.0f} s")
    if options.json:
        print(json.dumps([asdict(line) for line in lines], indent=1))
    else:
        print_table(lines, Console(width=200))


if __name__ == "__main__":
    main()
