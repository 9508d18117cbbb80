"""The stages of a training as functions of values, with progress callbacks; no Redis, no artifact store.

dataset   reads the training source
plan      chooses open parameters and weights on validation, which ends before the test begins
evaluate  evaluates the settled recipe on the test, with popularity and the serving version
train     trains on all data (`jobs.refresh.build.fit`) and writes the snapshot (`jobs.refresh.build.model_snapshot`)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from cluster.errors import Invalid, KioskError
from jobs.refresh.build.fit import (
    TrainedEngine,
    clear_history_weights,
    select_newest_events,
    train_engine,
)
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.data.split import EvaluationSplit, TrainingSplit
from jobs.refresh.evaluation.calibration import build_calibration
from jobs.refresh.evaluation.evaluate import EvaluationResult, Scorer, evaluate
from jobs.refresh.evaluation.gate import POPULARITY, SERVING, GateDecision, check_gate
from jobs.refresh.evaluation.report_models import EvaluationReport, PartReport, UnseenLists
from jobs.refresh.evaluation.reports import (
    describe_split,
    headline_metrics,
    per_user_metric,
    report_comparison,
    report_evaluation,
)
from jobs.refresh.evaluation.significance import run_paired_tests
from jobs.refresh.learners.popularity import PopularityLearner, PopularityRecipe
from jobs.refresh.learners.protocol import Learner
from jobs.refresh.learners.registry import build_rng
from jobs.refresh.recipe import Recipe, parse_recipe
from jobs.refresh.tuning.blend_weights import confirm_blend
from jobs.refresh.tuning.part_outcomes import PartOutcome, summarize_outcomes
from jobs.refresh.tuning.plan import TuningPlan, is_settled, make_plan, plan_without_tuning, remove_parts
from jobs.refresh.tuning.split_selection import split_for_recipe
from jobs.refresh.tuning.variant_training import StepCallback, ignore_step

EVALUATION_USERS = 4_000
"Maximum number of users in the evaluation."
PROTOCOLS = ("auto", "by_time", "leave_last_out", "next_in_session")

NO_INTERACTIONS = "no interactions"

TOO_FEW_MESSAGE = (
    "there is too little data to choose weights by ({events:,} events of {readers:,} users): collect more, or "
    'settle the recipe: give `weights` and `weights_new` in [blend] and no `tune` (recipe "fast" shows the parts)'
)


def split_data(recipe: Recipe, data: Interactions, protocol: str = "auto") -> TrainingSplit:
    """Split the data with the protocol of the recipe, or with another one.

    Errors:
        Invalid: the protocol does not exist, or does not fit the data
    """
    if protocol not in PROTOCOLS:
        raise Invalid(f"there is no protocol {protocol!r}; choose one of {', '.join(PROTOCOLS)}")
    # Before the split, so that the newest events count for validation and test too.
    data = select_newest_events(data, recipe.events.newest)
    if protocol != "auto":
        changed = recipe.validation.model_copy(update={"protocol": protocol})
        recipe = recipe.model_copy(update={"validation": changed})
    return split_for_recipe(recipe, data)


def plan_training(
    recipe: Recipe, data: Interactions, split: TrainingSplit, on_step: StepCallback = ignore_step
) -> TuningPlan:
    """Choose the open parameters and weights of a recipe on validation, without the test data.

    Errors:
        Invalid: there is too little data; the message says what to change
    """
    if is_settled(recipe):
        return plan_without_tuning(recipe, data.n_items)
    # Weights for users with a history can only be chosen on users that have one.
    if not any((trial.histories.lengths > 0).any() for trial in split.validation):
        raise Invalid(TOO_FEW_MESSAGE.format(events=len(data), readers=data.n_readers))
    return make_plan(recipe, split.validation, on_step)


def plan_without_interactions(recipe: Recipe) -> TuningPlan:
    """Return the plan of a training without interactions, which builds only the product indexes."""
    parts = {name: part.model_copy(update={"tune": {}}) for name, part in recipe.parts.items()}
    blend = recipe.blend.model_copy(
        update={"weights": {}, "weights_unseen": None, "weights_new": {}, "start": {}}
    )
    left_out = {"baskets": None, "cohorts": None, "content": None}
    left_out.update({"reranker": None, "search_reranker": None})
    settled = recipe.model_copy(update={"parts": parts, "blend": blend, **left_out})
    return TuningPlan(settled, NO_INTERACTIONS, 0, 0.0)


def report_without_interactions(recipe: Recipe) -> EvaluationReport:
    """Return the report of a training without interactions: the parts built, and the parts left out."""
    built = [
        name
        for name, there in (
            ("search and meaning", recipe.search is not None),
            ("completions", recipe.completions is not None),
        )
        if there
    ]
    sentence = (
        f"no interactions have settled: built {' and '.join(built) or 'nothing'}; left out recommendations, what is "
        "bought together, cohorts and products without events. Train again when there are interactions"
    )
    return EvaluationReport(
        trial=NO_INTERACTIONS,
        protocol=NO_INTERACTIONS,
        k=recipe.blend.k,
        coverage=0.0,
        segments=[],
        beside={},
        recipe=recipe.name,
        chosen="",
        parts=[],
        dropped={},
        users=0,
        figures={},
        verdict=GateDecision(True, sentence),
    )


def plan_to_dict(plan: TuningPlan) -> dict[str, Any]:
    """Return a plan as JSON."""
    return {**asdict(plan), "recipe": plan.recipe.model_dump(mode="json"), "single": dict(plan.single)}


def plan_from_dict(facts: Mapping[str, Any]) -> TuningPlan:
    """Return the plan from the result of `plan_to_dict`."""
    outcomes = tuple(PartOutcome(**outcome) for outcome in facts.get("outcomes", ()))
    return TuningPlan(**{**facts, "recipe": parse_recipe(facts["recipe"]), "outcomes": outcomes})


def apply_confirmation(plan: TuningPlan, report: EvaluationReport) -> TuningPlan:
    """Return a plan without the components that its evaluation dropped."""
    return remove_parts(plan, report.dropped, report.dropped_unseen)


def evaluate_plan(
    plan: TuningPlan,
    trial: EvaluationSplit,
    *,
    serving: Mapping[str, Any] | None = None,
    users: int = EVALUATION_USERS,
    k: int | None = None,
    keeps_users: bool = False,
    on_step: StepCallback = ignore_step,
) -> EvaluationReport:
    """Train a planned recipe on a split and return its report, with popularity and the serving recipe.

    If weights were chosen, components that significantly lower the NDCG on this split are dropped first (`dropped`;
    `apply_confirmation` returns the plan without them).

    `k` is the length of the lists, by default that of the recipe's blend. `serving` has `recipe` (settled) and
    `version`. The serving recipe is trained again on the same split, because its snapshot contains the targets. If
    this is not possible, the report has the reason. With `keeps_users`, the report has the NDCG of each user, so that
    reports of the same users can be compared in pairs.

    Errors:
        Invalid: the split has no users
    """
    if not len(trial):
        raise Invalid(TOO_FEW_MESSAGE.format(events=len(trial.train), readers=trial.train.n_readers))
    recipe = plan.recipe
    # One sample for all that is compared: the tests below are paired by user.
    sample = trial.sample(users, build_rng(recipe.seed, "examine"))
    k = recipe.blend.k if k is None else k
    figure = f"ndcg@{k}"
    rng = build_rng(recipe.seed, "intervals")
    # Trained on this split only: the published engine learns the targets too, and would know the answers.
    engine = train_engine(recipe, trial.train, on_step)
    facts = _confirm_weights(plan, engine, sample, k, on_step)
    dropped_unseen = facts.get("dropped_unseen", {})
    plan = remove_parts(plan, facts["dropped"], dropped_unseen)
    # Dropped by weight 0: without them the engine needs no second training.
    engine = clear_history_weights(engine, facts["dropped"], dropped_unseen)
    ours = _evaluate_scorer(engine, sample, k, on_step)
    # Popularity is the least that a model must beat.
    learner: Learner = PopularityLearner(PopularityRecipe(learner="popularity"))
    popularity = learner.train(trial.train, build_rng(recipe.seed, POPULARITY))
    on_step("examine popularity")
    report = report_evaluation(ours, rng)
    others = {POPULARITY: _evaluate_scorer(popularity, sample, k)}
    compared = {POPULARITY: report_comparison(others[POPULARITY], ours, figure, rng)}
    facts["beside"] = compared
    if serving is not None:
        try:
            now = parse_recipe(serving["recipe"])
            on_step("train what serves")
            others[SERVING] = _evaluate_scorer(train_engine(now, trial.train), sample, k)
            compared[SERVING] = report_comparison(
                others[SERVING], ours, figure, rng, version=serving["version"]
            )
        # Its recipe may name a learner that is gone; then only popularity is beside it.
        except KioskError as error:
            facts["not_compared"] = f"what serves can't be trained again: {error.message}"
    facts["tests"] = run_paired_tests(ours, others)
    facts["calibration"] = None if ours.places is None else build_calibration(ours.places)
    if recipe.blend.weights_unseen is not None and len(unseen := sample.exclude_seen()):
        scored = _evaluate_scorer(engine.for_unseen(), unseen, k)
        facts["unseen"] = UnseenLists(
            users=len(unseen),
            weights=plan.recipe.blend.weights_unseen,
            figures=headline_metrics(report_evaluation(scored, rng)),
        )
    if keeps_users:
        facts["per_user"] = per_user_metric(ours, figure, sample)
    facts |= {
        "split": describe_split(trial),
        "recipe": recipe.name,
        "chosen": summarize_outcomes(plan.outcomes),
        "parts": [PartReport(**asdict(outcome)) for outcome in plan.outcomes],
        "users": len(sample),
        "figures": headline_metrics(report),
    }
    report = report.model_copy(update=facts)
    # The gate needs the whole report, so the verdict is added last.
    return report.model_copy(update={"verdict": check_gate(report)})


def _confirm_weights(
    plan: TuningPlan, engine: TrainedEngine, sample: EvaluationSplit, k: int, on_step: StepCallback
) -> dict[str, Any]:
    """Return the components that lower the NDCG of chosen weights, as fields of the report."""
    if not plan.chooses:
        return {"dropped": {}}
    on_step("confirm weights")
    rng = build_rng(plan.recipe.seed, "confirm")
    facts: dict[str, Any] = {"dropped": confirm_blend(engine.blend.parts, sample, k, rng).dropped}
    if plan.recipe.blend.weights_unseen is not None:
        unseen = confirm_blend(engine.blend.for_unseen().parts, sample.exclude_seen(), k, rng)
        if unseen.dropped:
            facts["dropped_unseen"] = unseen.dropped
    return facts


_RERANKER_LABELS = {"reranker": "re-ranker", "search_reranker": "re-ranker of searches"}


def add_reranker_outcome(
    report: EvaluationReport, section: str, facts: Mapping[str, Any]
) -> EvaluationReport:
    """Return a report with the outcome of a re-ranker, and a sentence of it among what was chosen."""
    sentence = f"{_RERANKER_LABELS[section]} {facts['sentence']}"
    chosen = "; ".join(filter(None, (report.chosen, sentence)))
    return report.model_copy(update={"chosen": chosen, section: dict(facts)})


def _evaluate_scorer(
    scorer: Scorer, trial: EvaluationSplit, k: int, on_step: StepCallback = ignore_step
) -> EvaluationResult:
    on_step("examine")
    return evaluate(scorer, trial, k=k, deep=max(20, k))


def count_data(data: Interactions) -> dict[str, int]:
    """Return the numbers of events, users and items, for displays."""
    taken = np.bincount(data.reader, minlength=1)
    return {
        "events": len(data),
        "readers": data.n_readers,
        "items": data.n_items,
        "dropped": data.dropped,
        "most_events_of_a_reader": int(taken.max(initial=0)),
    }
