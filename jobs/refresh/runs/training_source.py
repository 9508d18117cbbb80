"""Training data from settled segments: events as arrays, and what products are like where a recipe asks for it.

Redis is never read; whoever trains waits a moment beforehand for what was just accepted to settle (`worker`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import orjson

from actors.vectors.types import Matrix
from actors.vectors.vocabulary import Vocabulary
from cluster.artifacts.compacted_state import CompactedProduct
from cluster.artifacts.segments import SegmentStore
from cluster.errors import Fault, Invalid
from jobs.refresh.build.product_indexes import select_completion_fields
from jobs.refresh.data.dataset import Interactions, event_weigher, interactions_from_segments
from jobs.refresh.data.event_account import EventAccount, build_event_account
from jobs.refresh.data.profiles import Profiles
from jobs.refresh.learners.content_knn import ContentKnnRecipe
from jobs.refresh.learners.protocol import CustomLearnerRecipe
from jobs.refresh.recipe import Recipe


@dataclass(frozen=True, slots=True)
class TrainingSource:
    """What a training learns from, and where it came from."""

    data: Interactions
    offsets: Mapping[str, str] = field(default_factory=dict)
    "Noun -> change-log offset up to which it is complete."
    embedder: str = ""
    "Version of the embedder behind the data's content; empty without content."
    products: int = 0
    damaged: tuple[str, ...] = ()
    "Segments that could not be read and were left out."
    texts: tuple[bytes, ...] = ()
    "Products, cut down to what is completed of them; empty when nothing is."
    account: EventAccount | None = None
    "Where the interactions are that became no event; only for whoever asks."
    erasures: int = 0
    "How often rows of people were erased before this was read; more by now: it is out of date."


def read_training_source(
    segments: SegmentStore,
    app_id: str,
    recipe: Recipe,
    *,
    products_suffice: bool = False,
    explain: bool = False,
) -> TrainingSource:
    """Read the compacted data of an app; without interactions only if `products_suffice` and the app has products.

    With `explain`, the source counts the interactions that became no event, by reason.

    Errors:
        Fault: a segment is damaged
        Invalid: there is nothing to learn from, or the recipe names types of events that do not exist
    Cost:
        1,000,000 interactions and 100,000 products: 4 s on one core, 0.6 GB
    """
    weigh = event_weigher(recipe.events.weights)
    try:
        settled = segments.load(app_id, salvage=True)
    except Fault as error:
        raise Fault(f"what is settled of {app_id} can't be read: {error.message}", **error.facts) from error
    data = interactions_from_segments(settled.interactions, weigh)
    if not len(data) and not (products_suffice and settled.products):
        raise Invalid(
            f"app {app_id} has nothing to learn from: {settled.interactions.num_rows:,} interactions have settled, "
            f"none of them speaks for or against a product ({len(settled.products):,} products); upload "
            "interactions with product_ids, and give them half a minute to settle"
        )
    embedder = ""
    if needs_content(recipe):
        vectors = build_item_vectors(settled.products, data.items)
        if vectors is not None:
            data, embedder = data.with_content(vectors), settled.embedder
    if recipe.cohorts is not None:
        users = segments.records(app_id, "user", salvage=True)
        data = replace(data, profiles=Profiles.from_users(users, data.readers, recipe.cohorts.fields))
    texts: tuple[bytes, ...] = ()
    if recipe.search is not None or recipe.content is not None:
        texts = tuple(product.json for product in settled.products)
    elif recipe.completions is not None:
        texts = select_completion_fields((product.json for product in settled.products), recipe.completions)
    return TrainingSource(
        data,
        settled.offsets,
        embedder,
        len(settled.products),
        tuple(settled.damaged),
        texts,
        build_event_account(settled.interactions, data) if explain else None,
        settled.erasures,
    )


def needs_content(recipe: Recipe) -> bool:
    """Does any part look at what products are like? Learners of your own may."""
    parts = recipe.parts.values()
    return any(isinstance(part, ContentKnnRecipe | CustomLearnerRecipe) for part in parts)


def build_item_vectors(products: Sequence[CompactedProduct], items: Vocabulary) -> Matrix | None:
    """Put the vectors of products into the rows of items, each of length 1; None when no product has one.

    Shapes:
        returns: float32 [n, d]
    """
    known = [(product.json, product.vector) for product in products if product.vector is not None]
    if not known:
        return None
    width = len(known[0][1])
    known = [(record, vector) for record, vector in known if len(vector) == width]
    rows = items.codes([_product_id(record) for record, _ in known])
    matrix = np.zeros((len(items), width), np.float32)
    for row, (_, vector) in zip(rows.tolist(), known, strict=True):
        if row >= 0:
            matrix[row] = vector
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    unit: Matrix = np.divide(matrix, lengths, out=np.zeros_like(matrix), where=lengths > 0)
    return unit


def _product_id(record: bytes) -> Any:
    return orjson.loads(record).get("product_id")
