"""Training data from compacted segments: interactions as arrays, and product content if a recipe needs it.

This module does not read Redis. Before it runs, `worker` waits until newly accepted data is compacted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import orjson

from actors.vectors.types import Matrix
from actors.vectors.vocabulary import Vocabulary
from cluster.artifacts.compacted_state import CompactedProduct
from cluster.artifacts.segments import SegmentStore
from cluster.errors import Fault, Invalid
from jobs.refresh.build.snapshot_indexes import select_completion_fields
from jobs.refresh.data.dataset import Interactions, event_factors, interactions_from_segments
from jobs.refresh.data.event_counts import EventCounts, build_event_counts
from jobs.refresh.data.profiles import Profiles
from jobs.refresh.learners.neighbours.content_knn import ContentKnnRecipe
from jobs.refresh.learners.protocol import CustomLearnerRecipe
from jobs.refresh.learners.transformer import TransformerRecipe
from jobs.refresh.recipe import Recipe


@dataclass(frozen=True, slots=True)
class TrainingSource:
    """The data of a training, and its origin."""

    data: Interactions
    offsets: Mapping[str, str] = field(default_factory=dict)
    "Noun -> change-log offset up to which the data is complete."
    embedder: str = ""
    "Version of the embedder of the content vectors; empty without content."
    products: int = 0
    damaged: tuple[str, ...] = ()
    "Segments that could not be read; their rows are missing."
    texts: tuple[bytes, ...] = ()
    "The products for the search index, or their fields for the autocomplete index alone; empty without indexes."
    account: EventCounts | None = None
    "Counts of the interactions that are no training events; only with `explain`."
    erasures: int = 0
    "Number of erasures before the data was read; a larger present number means that the data is outdated."


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
        Invalid: there is no data, or the recipe names event types that do not exist
    Cost:
        1,000,000 interactions and 100,000 products: 4 s on one core, 0.6 GB
    """
    factors = event_factors(recipe.events.weights)
    try:
        # Damaged segments are left out and named in the run: one flipped byte must not stop trainings.
        settled = segments.load(app_id, salvage=True)
    except Fault as error:
        raise Fault(
            f"the compacted data of {app_id} can't be read: {error.message}", **error.facts
        ) from error
    data = interactions_from_segments(settled.interactions, factors)
    if not len(data) and not (products_suffice and settled.products):
        raise Invalid(
            f"app {app_id} has nothing to learn from: {settled.interactions.num_rows:,} interactions are compacted, "
            f"none of them is for or against a product ({len(settled.products):,} products); upload "
            "interactions with product_ids"
        )
    embedder = ""
    if needs_content(recipe):
        vectors = build_item_vectors(settled.products, data.items)
        if vectors is not None:
            data = data.with_content(vectors)
            embedder = settled.products.embedder
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
        build_event_counts(settled.interactions, data) if explain else None,
        settled.erasures,
    )


def needs_content(recipe: Recipe) -> bool:
    """Return true if a component uses content vectors; custom learners count as such."""
    parts = recipe.parts.values()
    return any(isinstance(part, ContentKnnRecipe | TransformerRecipe | CustomLearnerRecipe) for part in parts)


def build_item_vectors(products: Iterable[CompactedProduct], items: Vocabulary) -> Matrix | None:
    """Return the normalized vectors of products in the rows of their items; None if no product has a vector.

    Shapes:
        returns: float32 [n, d]
    """
    with_vectors = [(product.json, product.vector) for product in products if product.vector is not None]
    if not with_vectors:
        return None
    width = len(with_vectors[0][1])
    # After a change of the embedder, products have vectors of two lengths until all are embedded again.
    with_vectors = [(record, vector) for record, vector in with_vectors if len(vector) == width]
    # Row of the vocabulary for each product, -1 for products without an event.
    rows = items.codes([_product_id(record) for record, _ in with_vectors])
    matrix = np.zeros((len(items), width), np.float32)
    for row, (_, vector) in zip(rows.tolist(), with_vectors, strict=True):
        if row >= 0:
            matrix[row] = vector
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    # x / |x|, and 0 for items without a vector: a zero row is similar to nothing.
    unit: Matrix = np.divide(matrix, lengths, out=np.zeros_like(matrix), where=lengths > 0)
    return unit


def _product_id(record: bytes) -> Any:
    return orjson.loads(record).get("product_id")
