"""Estimates of memory and time before a training: for `--dry-run`, and to refuse a training that can't fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from cluster.errors import Invalid
from cluster.store.data.change_log import ChangeLog
from jobs.refresh.build.fit import EASE_ITEMS, USABLE, count_content_features
from jobs.refresh.data.event_counts import EventCounts
from jobs.refresh.learners import content_regression, reranker, transformer
from jobs.refresh.learners.als import AlsRecipe
from jobs.refresh.learners.content_regression import ContentRecipe
from jobs.refresh.learners.neighbours import ease, graph_filter
from jobs.refresh.learners.neighbours.ease import EaseRecipe
from jobs.refresh.learners.neighbours.graph_filter import GraphFilterRecipe
from jobs.refresh.learners.neighbours.item_knn import ItemKnnRecipe
from jobs.refresh.learners.neighbours.sequential_rules import RulesRecipe
from jobs.refresh.learners.protocol import PartRecipe
from jobs.refresh.learners.reranker import RerankerRecipe
from jobs.refresh.learners.transformer import TransformerRecipe
from jobs.refresh.recipe import Recipe
from jobs.refresh.runs.plan_evaluation import count_data, split_data
from jobs.refresh.runs.training_source import TrainingSource
from jobs.refresh.runs.workload import (
    DataSize,
    MachineSpeed,
    Workload,
    count_trainings,
    count_variants,
    estimate_score_seconds,
    estimate_shared_seconds,
    estimate_train_seconds,
    estimate_variant_score_bytes,
    measure_speed,
    reduce_size,
)
from jobs.refresh.tuning.part_outcomes import CONTENT, explain_left_out
from jobs.refresh.tuning.plan import fit_recipe_to_catalog, is_settled

_BYTES_PER_EVENT = 600
"Events, and the training data of a test and two validation splits; measured on 100,000 to 1,000,000 events."
_FIXED_BYTES = 250 << 20
"Libraries, and the blocks in which users are scored."
_REFERENCE = MachineSpeed()
_FEATURES_A_PRODUCT = 16
"Approximate upper bound of the words, attributes, pairs and spans that a product shares with others."
_SAMPLED_PRODUCTS = 20_000
"Products whose features are counted; more of them seldom have more than a recipe allows."
_TOLERANCE = 1.3
"Bound of measured over estimated seconds on public sets, but for the smallest trainings."
_RERANKER_COSTS = {"reranker": "[reranker]", "search_reranker": "[search_reranker]"}


_RULES_BLOCK_BYTES = 400 << 20
"Memory of one block of pairs; the learner of sequential rules holds one block at a time."


@dataclass(frozen=True, slots=True)
class TrainingCost:
    """Memory and time of one component on one core."""

    part: str
    memory: int
    "Peak memory in bytes."
    seconds: float
    "Typical: a usual number of epochs, and half of the components that the blend does not start with."
    trainings: int
    "Number of trainings for tuning, validation and the final model."
    once: float = 0.0
    "Seconds of one of them."
    extra: float = 0.0
    "Seconds on top of the typical ones if every epoch runs and the blend keeps the component."
    once_extra: float = 0.0
    "Seconds of all further epochs of one training."
    kept: int = 0
    "Bytes of the memory that stay in the process after the training."
    is_ranked: bool = True
    "True if the evaluation trains it once more, as it does for components of the blend."

    @property
    def seconds_at_most(self) -> float:
        """Return the time if every epoch runs, the blend keeps the component, and the machine is a little slower."""
        return _TOLERANCE * (self.seconds + self.extra)


def estimate_costs(
    recipe: Recipe, size: DataSize, load: Workload | None = None, speed: MachineSpeed = _REFERENCE
) -> list[TrainingCost]:
    """Return the cost of each component of a recipe; `load` are the counts of its split, if it is known."""
    recipe = fit_recipe_to_catalog(recipe, size.items)
    load = load or Workload.from_size(recipe, size)
    costs = [_part_cost(name, part, recipe, size, load, speed) for name, part in recipe.parts.items()]
    if recipe.content is not None and size.described:
        costs.append(_content_cost(recipe, recipe.content, size, load, speed))
    rerankers = [
        _reranker_cost(_RERANKER_COSTS[section], part, costs, size)
        for section, part in recipe.list_rerankers()
    ]
    return [*costs, *rerankers]


def _part_cost(
    name: str, part: PartRecipe, recipe: Recipe, size: DataSize, load: Workload, speed: MachineSpeed
) -> TrainingCost:
    """Return the cost of a component: what is typical, and how much more it may take."""
    memory = _memory_bytes(part, size)
    kept = transformer.LIBRARY_BYTES if isinstance(part, TransformerRecipe) else 0
    once, most_once = (
        estimate_train_seconds(part, size, load, speed, at_most=at_most) for at_most in (False, True)
    )
    if is_settled(recipe):
        return TrainingCost(
            name,
            memory,
            2 * once,
            1,
            once,
            extra=2 * (most_once - once),
            once_extra=most_once - once,
            kept=kept,
        )
    seconds, most = (
        _part_seconds(name, part, recipe, size, load, speed, at_most=at_most) for at_most in (False, True)
    )
    tuned, _ = count_trainings(part, recipe, reduce_size(size, load.validation_share))
    trainings = 1 + load.splits * (1 + tuned)
    return TrainingCost(
        name, memory, seconds, trainings, once, extra=most - seconds, once_extra=most_once - once, kept=kept
    )


def _part_seconds(
    name: str,
    part: PartRecipe,
    recipe: Recipe,
    size: DataSize,
    load: Workload,
    speed: MachineSpeed,
    *,
    at_most: bool,
) -> float:
    """Return the seconds for tuning and validating a component, and of the trainings for the evaluation and at the end.

    The last two train only components with a weight: half of those that the blend does not start with, at most all.
    """
    scored = estimate_score_seconds(part, size, load) * speed.rest
    tuned, compared = count_trainings(part, recipe, reduce_size(size, load.validation_share))
    share = min(load.validation_share, recipe.validation.tune_events / max(size.events, 1))
    validation, test, once, small = (
        estimate_train_seconds(part, reduce_size(size, part_share), load, speed, at_most=at_most)
        for part_share in (load.validation_share, load.test_share, 1.0, share)
    )
    seconds = load.splits * (validation + tuned * small + compared * load.tune_users * scored)
    seconds += load.passes * load.users * count_variants(part) * scored
    kept = 1.0 if at_most or recipe.blend.start.get(name) else _KEPT
    return seconds + kept * (test + once + load.test_users * scored)


_KEPT = 0.5
"Expected share of the components with a weight, of those without an initial one."


def _reranker_cost(
    name: str, part: RerankerRecipe, costs: Sequence[TrainingCost], size: DataSize
) -> TrainingCost:
    """Return the cost of a re-ranker: all components once more, the lists scored with them, and the trees twice."""
    ranked = [cost for cost in costs if cost.is_ranked]
    before = sum(cost.once for cost in ranked)
    # One row for each product of each list.
    rows = part.lists * reranker.LISTED
    scoring = part.lists * len(ranked) * size.items * reranker.SECONDS_A_SCORE
    seconds = before + scoring + reranker.estimate_seconds(rows, part)
    memory = reranker.estimate_memory_bytes(rows, len(ranked))
    extra = sum(cost.once_extra for cost in ranked)
    return TrainingCost(name, memory, seconds, 1, extra=extra, is_ranked=False)


def _content_cost(
    recipe: Recipe, part: ContentRecipe, size: DataSize, load: Workload, speed: MachineSpeed
) -> TrainingCost:
    """Return the cost of the content regression, and of item weights for it if no component has them."""
    features = min(part.features, size.features or _FEATURES_A_PRODUCT * size.described)
    memory = content_regression.estimate_memory_bytes(size.items, features, part.keep)
    seconds = content_regression.estimate_seconds(size.items, features, part) * speed.products
    # The regression needs item weights to learn from; without a component that has them, it trains one for
    # itself.
    if not any(getattr(other, "learner", "") in USABLE for other in recipe.parts.values()):
        weights: PartRecipe = EaseRecipe() if size.items <= EASE_ITEMS else ItemKnnRecipe()
        memory = max(memory, _memory_bytes(weights, size))
        seconds = seconds + estimate_train_seconds(weights, size, load, speed)
    return TrainingCost(CONTENT, memory, seconds, 1, is_ranked=False)


def estimate_peak_memory(costs: Sequence[TrainingCost], size: DataSize, candidates: int = 0) -> int:
    """Return the peak memory of a training in bytes.

    Components are trained one after the other; `candidates` are the bytes that the scores of validation users leave.
    """
    # The largest and not the sum: one component's arrays are freed before the next one trains.
    largest = max((cost.memory - cost.kept for cost in costs), default=0)
    kept = sum(cost.kept for cost in costs)
    return _FIXED_BYTES + size.events * _BYTES_PER_EVENT + largest + kept + candidates


def check_memory(recipe: Recipe, size: DataSize, memory_mb: int | None = None) -> None:
    """Refuse a training that needs more memory than recipe, machine or installation (`memory_mb`) allows.

    Errors:
        Invalid: the memory does not suffice; the message names the component and the parameter to change
    """
    costs = estimate_costs(recipe, size)
    needed = estimate_from_size(recipe, size).memory
    allowed = recipe.limits.memory_mb << 20
    limit = "limits.memory_mb allows"
    # The smaller bound counts, and the message names it.
    if memory_mb is not None and memory_mb << 20 < allowed:
        allowed = memory_mb << 20
        limit = "this machine or KIOSK_MAX_TRAINING_MEMORY_MB leaves"
    if needed <= allowed:
        return
    worst = max(costs, key=lambda cost: cost.memory)
    raise Invalid(
        f"recipe {recipe.name} needs about {needed >> 20:,} MB, {limit} {allowed >> 20:,}; "
        f"most of it is part {worst.part} ({worst.memory >> 20:,} MB): "
        f"{_advice(worst.part, recipe.parts.get(worst.part))}"
    )


def _advice(name: str, part: PartRecipe | None) -> str:
    if name in _RERANKER_COSTS.values():
        return f"lower `lists` of {name}, or leave {name} out"
    if part is None:
        return "lower `features` or `keep` of [content], or set its `items_up_to` to leave it out of large catalogs"
    if isinstance(part, EaseRecipe):
        return "lower its `items`, or set its `items_up_to` to leave it out of large catalogs"
    if isinstance(part, RulesRecipe):
        return "lower its `keep` or `window`, or events.newest"
    if isinstance(part, ItemKnnRecipe):
        return "lower its `neighbours`, or events.newest"
    if isinstance(part, GraphFilterRecipe):
        return "lower its `keep` or `factors`, or set its `items_up_to` to leave it out of large catalogs"
    if isinstance(part, TransformerRecipe):
        return "lower its `dimensions`, or set its `items_up_to` to leave it out of large catalogs"
    return "lower its sizes, set events.newest, or allow more"


def _memory_bytes(part: PartRecipe, size: DataSize) -> int:
    if isinstance(part, EaseRecipe):
        return ease.estimate_memory_bytes(min(part.items, size.items), part.keep)
    if isinstance(part, RulesRecipe):
        # An event has on average half of its user's events before it, and at most the window.
        steps = min(float(part.window), size.events / max(size.users, 1) / 2)
        return min(_RULES_BLOCK_BYTES, round(90 * size.events * steps)) + 16 * size.items * 50
    if isinstance(part, ItemKnnRecipe):
        return 24 * size.events + 16 * size.items * part.neighbours + (40 << 20)
    if isinstance(part, GraphFilterRecipe):
        return graph_filter.estimate_memory_bytes(size.items, size.users, size.events, part)
    if isinstance(part, AlsRecipe):
        return 4 * part.factors * (6 * size.users + 6 * size.items) + 40 * size.events
    if isinstance(part, TransformerRecipe):
        return transformer.estimate_memory_bytes(size.items, size.events, part)
    return 80 * size.events + 16 * size.items


# Estimates of a training without running it: rows, memory and time of each component.


@dataclass(frozen=True, slots=True)
class DryRunEstimate:
    """The estimate of one training."""

    facts: dict[str, Any]
    costs: list[TrainingCost]
    memory: int
    "Peak memory in bytes."
    seconds: float
    "Typical: a usual number of epochs, and half of the components that the blend does not start with."
    memory_allowed: int
    account: EventCounts | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    "Component -> why it does not fit the catalog."

    @property
    def seconds_at_most(self) -> float:
        """Return the time if every epoch runs, the blend keeps every component, and the machine is a little slower."""
        return _TOLERANCE * (self.seconds + sum(cost.extra for cost in self.costs))

    @property
    def fits(self) -> bool:
        return self.memory <= self.memory_allowed

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as JSON."""
        return {
            **self.facts,
            **({} if self.account is None else {"interactions": self.account.to_dict()}),
            "memory_mb": self.memory >> 20,
            "memory_allowed_mb": self.memory_allowed >> 20,
            "fits": self.fits,
            "seconds": round(self.seconds, 1),
            "seconds_at_most": round(self.seconds_at_most, 1),
            "parts": [_cost_to_dict(cost) for cost in self.costs if cost.is_ranked],
            "extras": [_cost_to_dict(cost) for cost in self.costs if not cost.is_ranked],
            **({"left_out": dict(self.left_out)} if self.left_out else {}),
        }


def _cost_to_dict(cost: TrainingCost) -> dict[str, Any]:
    return {
        "part": cost.part,
        "memory_mb": cost.memory >> 20,
        "seconds": round(cost.seconds, 1),
        "seconds_at_most": round(cost.seconds_at_most, 1),
        "trainings": cost.trainings,
    }


def estimate_training(
    recipe: Recipe, source: TrainingSource, free_memory_mb: int | None = None
) -> DryRunEstimate:
    """Return the estimate of a training."""
    features = 0
    if recipe.content is not None:
        sample = source.texts[:_SAMPLED_PRODUCTS]
        features = count_content_features(recipe.content, sample, source.data)
    size = DataSize.from_interactions(source.data, len(source.texts), features)
    try:
        load = Workload.from_split(recipe, split_data(recipe, source.data), source.data)
    except Invalid:  # too little data for a split: the training says what to change
        load = None
    estimate = estimate_from_size(recipe, size, free_memory_mb, load, measure_speed())
    return replace(estimate, facts=count_data(source.data), account=source.account)


def estimate_from_size(
    recipe: Recipe,
    size: DataSize,
    free_memory_mb: int | None = None,
    load: Workload | None = None,
    speed: MachineSpeed = _REFERENCE,
) -> DryRunEstimate:
    """Return the estimate of a training on data of a size; `load` are the counts of its split, if it is known."""
    fitting = fit_recipe_to_catalog(recipe, size.items)
    load = load or Workload.from_size(fitting, size)
    costs = estimate_costs(recipe, size, load, speed)
    allowed = recipe.limits.memory_mb
    if free_memory_mb is not None:
        allowed = min(allowed, free_memory_mb)
    settled = is_settled(recipe)
    shared = estimate_shared_seconds(fitting, size, load, is_settled=settled) * speed.rest
    candidates = 0 if settled else estimate_variant_score_bytes(fitting, size, load)
    return DryRunEstimate(
        {"events": size.events, "readers": size.users, "items": size.items},
        costs,
        estimate_peak_memory(costs, size, candidates),
        sum(cost.seconds for cost in costs) + shared,
        allowed << 20,
        left_out=explain_left_out(recipe, size.items),
    )


async def count_uncompacted_interactions(changes: ChangeLog, app_id: str, after: str) -> int:
    """Return the number of accepted interactions after an offset of the change log."""
    count = 0
    while page := await changes.read(app_id, {"interaction": after}, count=1_000, block_ms=0):
        # One change holds all interactions of a request.
        count += sum(len(orjson.loads(change.payload)) for change in page if change.op == "put")
        after = page[-1].offset
    return count
