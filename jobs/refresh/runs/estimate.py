"""What a training will cost, before it starts: rows, memory, time. For `--dry-run`, and to refuse what can't fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cluster.errors import Invalid
from jobs.refresh.build.content_weights import EASE_ITEMS, USABLE
from jobs.refresh.data.dataset import Interactions
from jobs.refresh.learners import content_regression, ease, graph_filter
from jobs.refresh.learners.als import AlsRecipe
from jobs.refresh.learners.content_regression import ContentRecipe
from jobs.refresh.learners.ease import EaseRecipe
from jobs.refresh.learners.graph_filter import GraphFilterRecipe
from jobs.refresh.learners.item_knn import ItemKnnRecipe
from jobs.refresh.learners.protocol import PartRecipe
from jobs.refresh.learners.sequential_rules import RulesRecipe
from jobs.refresh.recipe import Recipe
from jobs.refresh.tuning.plan import for_catalog, is_settled

_BYTES_PER_EVENT = 600
"Reading them, and the pasts of a test and two validations beside the whole; measured on 100,000 to 1,000,000 events."
_BASE_BYTES = 350 << 20
"Libraries, and the blocks in which readers are scored."
_FEATURES_A_PRODUCT = 8
"Words and attributes that a product shares with others, at most about."
CONTENT_COST = "[content]"

_RULES_BLOCK_BYTES = 400 << 20
"Rules are counted in blocks of pairs; more than one block is never held."


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is to learn from."""

    events: int
    readers: int
    items: int
    described: int = 0
    "Products whose texts and attributes are at hand."

    @classmethod
    def of(cls, data: Interactions, described: int = 0) -> Size:
        """Count data."""
        return cls(len(data), data.n_readers, data.n_items, described)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one part needs on one modest core."""

    part: str
    memory: int
    "Bytes at the peak."
    seconds: float
    trainings: int
    "How often it is trained: tuning, validation, and for good."
    is_ranked: bool = True
    "Is it trained once more for the examination, as parts of the blend are?"


def estimate(recipe: Recipe, size: Size) -> list[Cost]:
    """Estimate every part of a recipe."""
    recipe = for_catalog(recipe, size.items)
    settled = is_settled(recipe)
    costs = []
    for name, part in recipe.parts.items():
        seconds = _seconds(part, size)
        validation, small = (0, 0) if settled else (1, _tunings(part, recipe, size))
        share = min(1.0, recipe.validation.tune_events / max(size.events, 1))
        whole = seconds * (1 + validation) + small * seconds * (
            1.0 if isinstance(part, EaseRecipe) else share
        )
        costs.append(Cost(name, _memory(part, size), whole, 1 + validation + small))
    if recipe.content is not None and size.described:
        costs.append(_content_cost(recipe, recipe.content, size))
    return costs


def _content_cost(recipe: Recipe, part: ContentRecipe, size: Size) -> Cost:
    """Estimate the regression for products without events, and the item weights it explains where no part has them."""
    features = min(part.features, _FEATURES_A_PRODUCT * size.described)
    memory = content_regression.memory_of(size.items, features, part.keep)
    seconds = content_regression.seconds_of(size.items, features, part)
    if not any(getattr(other, "learner", "") in USABLE for other in recipe.parts.values()):
        weights: PartRecipe = EaseRecipe() if size.items <= EASE_ITEMS else ItemKnnRecipe()
        memory, seconds = max(memory, _memory(weights, size)), seconds + _seconds(weights, size)
    return Cost(CONTENT_COST, memory, seconds, 1, is_ranked=False)


def peak(costs: Sequence[Cost], size: Size) -> int:
    """Estimate the largest number of bytes a training holds at once: parts are trained one after the other."""
    return _BASE_BYTES + size.events * _BYTES_PER_EVENT + max((cost.memory for cost in costs), default=0)


def refuse_too_large(recipe: Recipe, size: Size, memory_mb: int | None = None) -> None:
    """Stop a training that can't fit before it starts; `memory_mb` is what the machine has left.

    Errors:
        Invalid: says which part needs what, and what to change
    """
    costs = estimate(recipe, size)
    needed, allowed, limit = peak(costs, size), recipe.limits.memory_mb << 20, "limits.memory_mb allows"
    if memory_mb is not None and memory_mb << 20 < allowed:
        allowed, limit = memory_mb << 20, "this machine has left"
    if needed <= allowed:
        return
    worst = max(costs, key=lambda cost: cost.memory)
    raise Invalid(
        f"recipe {recipe.name} needs about {needed >> 20:,} MB, {limit} {allowed >> 20:,}; "
        f"most of it is part {worst.part} ({worst.memory >> 20:,} MB): {_advice(recipe.parts.get(worst.part))}"
    )


def _advice(part: PartRecipe | None) -> str:
    if part is None:
        return "lower `features` or `keep` of [content], or leave [content] out"
    if isinstance(part, EaseRecipe):
        return "lower its `items`, or set its `items_up_to` to leave it out of large catalogs"
    if isinstance(part, RulesRecipe):
        return "lower its `keep` or `window`, or events.newest"
    if isinstance(part, ItemKnnRecipe):
        return "lower its `neighbours`, or events.newest"
    return "lower its sizes, set events.newest, or allow more"


def _tunings(part: PartRecipe, recipe: Recipe, size: Size) -> int:
    if isinstance(part, EaseRecipe) and size.items > recipe.validation.tune_items:
        return 0
    values = sum(len(values) for field, values in part.tune.items() if field != "fading")
    return values + 1 if part.tune else 0


def _memory(part: PartRecipe, size: Size) -> int:
    if isinstance(part, EaseRecipe):
        return ease.memory_of(min(part.items, size.items), part.keep)
    if isinstance(part, RulesRecipe):
        return min(_RULES_BLOCK_BYTES, 40 * size.events * part.window) + 16 * size.items * 50
    if isinstance(part, ItemKnnRecipe):
        return 24 * size.events + 16 * size.items * part.neighbours + (200 << 20)
    if isinstance(part, GraphFilterRecipe):
        return graph_filter.memory_of(size.items, size.readers, size.events, part)
    if isinstance(part, AlsRecipe):
        return 4 * part.factors * (6 * size.readers + 6 * size.items) + 40 * size.events
    return 80 * size.events + 16 * size.items


def _seconds(part: PartRecipe, size: Size) -> float:
    if isinstance(part, EaseRecipe):
        return ease.seconds_of(min(part.items, size.items)) + 3e-6 * size.events
    if isinstance(part, RulesRecipe):
        return 4e-7 * size.events * part.window
    if isinstance(part, ItemKnnRecipe):
        return 5e-8 * size.events * max(size.events / max(size.readers, 1), 1.0) + 1e-6 * size.events
    if isinstance(part, GraphFilterRecipe):
        return graph_filter.seconds_of(size.items, size.readers, size.events, part)
    if isinstance(part, AlsRecipe):
        return 1e-7 * part.rounds * part.factors * part.steps * size.events / 3
    return 2e-6 * size.events
