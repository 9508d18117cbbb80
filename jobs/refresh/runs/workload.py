"""How much a training has to do: counts of validation users and their histories, and seconds for each kind of work.

The seconds are those of one core of the reference machine, fitted on the processor time of whole trainings of public
sets, which `tests/unit/jobs/refresh/runs/test_estimate.py` lists. `measure_speed` compares this machine with it.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import numpy as np

from jobs.refresh.data.dataset import Interactions
from jobs.refresh.data.split import TrainingSplit
from jobs.refresh.learners import transformer
from jobs.refresh.learners.als import AlsRecipe
from jobs.refresh.learners.neighbours import ease, graph_filter
from jobs.refresh.learners.neighbours.content_knn import ContentKnnRecipe
from jobs.refresh.learners.neighbours.ease import EaseRecipe
from jobs.refresh.learners.neighbours.graph_filter import GraphFilterRecipe
from jobs.refresh.learners.neighbours.item_knn import ItemKnnRecipe
from jobs.refresh.learners.neighbours.sequential_rules import RulesRecipe
from jobs.refresh.learners.popularity import PopularityRecipe
from jobs.refresh.learners.protocol import PartRecipe
from jobs.refresh.learners.transformer import TransformerRecipe
from jobs.refresh.recipe import Recipe
from jobs.refresh.tuning.parameter_search import is_too_large

_BLOCK_USERS = 1_000
_BLOCK_BYTES = 64 << 20
_SPREAD = 2.5
"Mean length of the history of an event's user, as a multiple of that of a user."
_KEPT_ENTRIES = 150
"Items with a score for each event of a history, of those that a component may keep."


@dataclass(frozen=True, slots=True)
class DataSize:
    """Size of the training data."""

    events: int
    users: int
    items: int
    described: int = 0
    "Number of products with texts and attributes."
    features: int = 0
    "Number of features of several products; 0: unknown."

    @classmethod
    def from_interactions(cls, data: Interactions, described: int = 0, features: int = 0) -> DataSize:
        return cls(len(data), data.n_readers, data.n_items, described, features)


@dataclass(frozen=True, slots=True)
class Workload:
    """Counts that decide on the time of a training besides the size of its data."""

    splits: int
    "Number of validation splits."
    users: int
    "Number of users on which weights are chosen, in all splits."
    tune_users: int
    "Number of users on which parameters are tuned, in each split."
    test_users: int
    passes: int
    "Number of choices of weights: two where users repeat items."
    length: float
    "Mean number of events in the history of a validation user."
    spread_length: float
    "Mean length of the history of an event's user."
    validation_share: float = 1.0
    "Share of the events that train for validation."
    test_share: float = 1.0
    "Share of the events that train for the evaluation."

    @classmethod
    def from_size(cls, recipe: Recipe, size: DataSize) -> Workload:
        """Return what is expected of data of a size, if its users are like those of the public sets."""
        length = size.events / max(size.users, 1)
        validation = recipe.validation
        # Further splits are made only until half of the wanted users are there, as in `from_split`.
        splits = 1 if size.users >= validation.readers // 2 else validation.folds
        return cls(
            splits=splits,
            users=min(validation.readers, splits * size.users),
            tune_users=min(validation.tune_readers, size.users),
            test_users=min(_TEST_USERS, size.users),
            passes=1,
            length=length,
            spread_length=_SPREAD * length,
        )

    @classmethod
    def from_split(cls, recipe: Recipe, split: TrainingSplit, data: Interactions) -> Workload:
        """Return the counts of a split."""
        validation = recipe.validation
        users = 0
        splits = 0
        for trial in split.validation[: validation.folds]:
            splits += 1
            users += int(np.count_nonzero(trial.histories.lengths))
            if users >= validation.readers // 2:
                break
        lengths = np.diff(data.starts()).astype(np.float64)
        histories = split.validation[0].histories.lengths
        return cls(
            splits=splits,
            users=min(validation.readers, users),
            tune_users=min(validation.tune_readers, users // max(splits, 1)),
            test_users=min(_TEST_USERS, len(split.test)),
            passes=1 if split.test.seen == "out" else 2,
            length=float(histories[histories > 0].mean()) if histories.any() else 0.0,
            # Mean over events and not over users: a user with n events counts n times, so sum(n^2) /
            # sum(n).
            spread_length=float(np.square(lengths).sum() / max(lengths.sum(), 1.0)),
            validation_share=len(split.validation[0].train) / max(len(data), 1),
            test_share=len(split.test.train) / max(len(data), 1),
        )


_TEST_USERS = 4_000


@dataclass(frozen=True, slots=True)
class MachineSpeed:
    """Seconds of this machine for a second of the reference machine."""

    products: float = 1.0
    "Products of matrices."
    rest: float = 1.0


def measure_speed() -> MachineSpeed:
    """Measure this machine with a product of matrices and a sort.

    Cost:
        some tenths of a second of processor time
    """
    rng = np.random.default_rng(1)
    # Small enough for one thread: waiting threads of a larger product would count as processor time.
    matrix = rng.random((64, 64)).astype(np.float32)
    product = np.empty_like(matrix)
    keys = rng.random(200_000)
    products = []
    sorts = []
    for _ in range(5):
        began = time.process_time()
        for _ in range(1_000):
            np.matmul(matrix, matrix, out=product)
        # Processor time, so that other work on the machine does not count.
        middle = time.process_time()
        np.argsort(keys, kind="stable")
        products.append(middle - began)
        sorts.append(time.process_time() - middle)
    # The fastest of five: others were disturbed by what else runs here.
    return MachineSpeed(min(products) / _PRODUCT_S, min(sorts) / _SORT_S)


_PRODUCT_S = 0.0057
"Seconds of the matrix product on the reference machine."
_SORT_S = 0.0171
"Seconds of the sort on the reference machine."


def estimate_train_seconds(
    part: PartRecipe, size: DataSize, load: Workload, speed: MachineSpeed, *, at_most: bool = False
) -> float:
    """Return the seconds of one training of a component; with `at_most`, for the largest number of epochs."""
    events = size.events
    rest = speed.rest
    if isinstance(part, EaseRecipe):
        items = min(part.items, size.items)
        return ease.estimate_seconds(items) * speed.products
    if isinstance(part, RulesRecipe):
        steps = min(4.5 * math.sqrt(part.window), load.length / 2)
        return (3e-7 + 1.35e-7 * steps) * events * rest
    if isinstance(part, ItemKnnRecipe):
        pairs = min(events * load.spread_length, float(size.items) ** 2 / 2)
        return (6e-7 * events + 2.2e-8 * pairs) * rest
    if isinstance(part, ContentKnnRecipe):
        return 1.95e-8 * size.items**2 * speed.products if size.described else 0.0
    if isinstance(part, GraphFilterRecipe):
        return graph_filter.estimate_seconds(size.items, size.users, events, part) * rest
    if isinstance(part, AlsRecipe):
        return 1e-7 * part.rounds * part.factors * part.steps * events / 3 * speed.products
    if isinstance(part, TransformerRecipe):
        return transformer.estimate_seconds(size.items, events, part, at_most=at_most) * speed.products
    return 2.5e-7 * events * rest


def reduce_size(size: DataSize, share: float) -> DataSize:
    """Return the size of a share of the users."""
    return replace(size, events=round(share * size.events), users=round(share * size.users))


def count_scored_items(part: PartRecipe, size: DataSize, load: Workload) -> float:
    """Return the number of items with a score for a validation user; components of all users have none of their own."""
    if isinstance(part, PopularityRecipe):
        return 0.0
    kept = min(getattr(part, "keep", getattr(part, "neighbours", 0)), _KEPT_ENTRIES)
    return min(float(size.items), kept * load.length)


def estimate_score_seconds(part: PartRecipe, size: DataSize, load: Workload) -> float:
    """Return the seconds for the scores of one user and the best items of them."""
    return 1.8e-5 + 2.7e-8 * count_scored_items(part, size, load) + 3e-7 * load.length


def count_variants(part: PartRecipe) -> int:
    """Return the largest number of variants of a component among which the choice of weights decides."""
    return min(max(len(part.tune.get("fading", ())), 1), 3)


def count_trainings(part: PartRecipe, recipe: Recipe, size: DataSize) -> tuple[int, int]:
    """Return how often the tuning of a component trains and scores it in each validation split.

    `size` are the data that such a split trains on.
    """
    if is_too_large(part, size.items, size.events, recipe.validation):
        return 0, 0
    values = sum(len(values) for field, values in part.tune.items() if field != "fading")
    decays = len(part.tune.get("fading", ()))
    if not values and decays <= 1:
        return 0, 0
    # Fading changes scores and not the trained weights, so its values need no training of their own.
    return values + 1, values + max(decays, 1)


def estimate_shared_seconds(recipe: Recipe, size: DataSize, load: Workload, *, is_settled: bool) -> float:
    """Return the seconds that belong to no component: the choice of weights, the evaluation, and the text indexes."""
    variants = sum(count_variants(part) for part in recipe.parts.values())
    choice = load.passes * load.users * variants**2 * (1.2e-6 + 3e-8 * load.length)
    ranked = (load.passes + 1) * load.test_users * (9e-9 * size.items + 1.2e-5)
    reported = (load.passes + 1) * load.test_users * 8e-5
    texts = size.described * ((1.0e-4 if recipe.search and recipe.search.learn_from else 5e-5) + 2e-5)
    return (0.0 if is_settled else choice) + ranked + reported + texts + 3e-6 * size.events


def estimate_variant_score_bytes(recipe: Recipe, size: DataSize, load: Workload) -> int:
    """Return the memory of the scores of one block of validation users that is taken when components train again."""
    users = min(_BLOCK_USERS, _BLOCK_BYTES // (4 * max(size.items, 1)), load.users // max(load.splits, 1))
    entries = sum(
        count_variants(part) * count_scored_items(part, size, load) for part in recipe.parts.values()
    )
    return round(_ENTRY_BYTES * users * entries)


_ENTRY_BYTES = 4
"Less than the 8 bytes of a score and its item: allocators keep about half of the memory that was freed."
