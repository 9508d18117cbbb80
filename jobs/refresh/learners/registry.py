"""From a part of a recipe to the learner that knows it; yours are imported by name where they are allowed."""

from __future__ import annotations

from zlib import crc32

import numpy as np

from actors.models.registry import own_loader
from cluster.errors import Invalid
from jobs.refresh.learners.als import Als, AlsRecipe
from jobs.refresh.learners.baskets import Baskets, BasketsRecipe
from jobs.refresh.learners.content_knn import ContentKnn, ContentKnnRecipe
from jobs.refresh.learners.ease import Ease, EaseRecipe
from jobs.refresh.learners.graph_filter import GraphFilter, GraphFilterRecipe
from jobs.refresh.learners.item_knn import ItemKnn, ItemKnnRecipe
from jobs.refresh.learners.popularity import Popularity, PopularityRecipe
from jobs.refresh.learners.protocol import Learner, PartRecipe
from jobs.refresh.learners.repeat import Repeats, RepeatsRecipe
from jobs.refresh.learners.sequential_rules import Rules, RulesRecipe
from jobs.refresh.learners.session_knn import SessionKnn, SessionKnnRecipe
from jobs.refresh.recipe import OwnRecipe


def learner_of(part: PartRecipe) -> Learner:
    """Give the learner of a part.

    Errors:
        Invalid: your class is not allowed, can't be imported, or does not take its `config`
    """
    match part:
        case EaseRecipe():
            return Ease(part)
        case RulesRecipe():
            return Rules(part)
        case ItemKnnRecipe():
            return ItemKnn(part)
        case GraphFilterRecipe():
            return GraphFilter(part)
        case ContentKnnRecipe():
            return ContentKnn(part)
        case SessionKnnRecipe():
            return SessionKnn(part)
        case PopularityRecipe():
            return Popularity(part)
        case RepeatsRecipe():
            return Repeats(part)
        case BasketsRecipe():
            return Baskets(part)
        case AlsRecipe():
            return Als(part)
        case OwnRecipe():
            return _own(part)
    raise Invalid(f"there is no learner for {type(part).__name__}")


def rng_for(seed: int, purpose: str) -> np.random.Generator:
    """Give randomness that depends on the seed and on what it is for, not on what was drawn before."""
    return np.random.default_rng([seed, crc32(purpose.encode())])


def _own(part: OwnRecipe) -> Learner:
    made = own_loader(part.learner, part.config)
    if not isinstance(made, Learner):
        raise Invalid(f"learner {part.learner} needs the methods train(data, rng) and load(parts)")
    return made
