"""Load compacted segments into a recommender. The change log has all later changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np
import orjson

from actors.language.hashing_embedder import Embedder
from actors.recommender.recommender import Recommender
from actors.recommender.state.events import events_from_table
from actors.vectors.types import Matrix
from cluster.artifacts.compacted_state import CompactedProduct, CompactedState
from cluster.query.columnar.column_source import Key

# Each step of these three takes a few milliseconds, between which other threads answer.
_PRODUCTS_A_STEP = 50
_EVENTS_A_STEP = 5_000
_USERS_A_STEP = 200
_COLUMNS_A_PAUSE = 4
"Steps of building columns between two pauses, at most 0.25 ms each."

PREBUILT_COLUMNS: tuple[Key, ...] = tuple(
    ("field", name) for name in ("availability", "brand", "categories", "price", "rating", "tags", "type")
)
"Columns that are built before the first query."

Pause = Callable[[], None]
"Called every few milliseconds, so that the loading thread releases the interpreter to other threads."


def load_compacted_state(
    recommender: Recommender,
    state: CompactedState,
    embedder: Embedder,
    pause: Pause,
    users: Sequence[bytes] = (),
) -> None:
    """Load the compacted state into an empty recommender. Texts are indexed later, or at the first search.

    `users` are records of users as JSON. They may be newer than the offsets of the state.

    Cost:
        100,000 products and 1,000,000 interactions: about 8 s on one core
    """
    overlay = recommender.overlay
    overlay.texts.pause_indexing()
    compacted = iter(state.products)
    while batch := list(islice(compacted, _PRODUCTS_A_STEP)):
        products = [orjson.loads(product.json) for product in batch]
        # Vectors of another embedder lie in another space and can't be compared with new ones.
        vectors = stack_vectors(batch, embedder) if state.products.embedder == embedder.version else None
        overlay.put_products(products, vectors)
        pause()
    for start in range(0, len(users), _USERS_A_STEP):
        overlay.put_users([orjson.loads(user) for user in users[start : start + _USERS_A_STEP]])
        pause()
    events = events_from_table(
        state.interactions, user_code=overlay.get_user_code, row_of=overlay.catalog.get_or_add_row
    )
    overlay.load_histories(events)
    pause()
    for start in range(0, len(events), _EVENTS_A_STEP):
        overlay.add_event_counts(events.select(np.arange(start, min(start + _EVENTS_A_STEP, len(events)))))
        pause()
    # before the first query: the first filter on a field reads every record
    for step, _ in enumerate(overlay.catalog.columns.build_in_steps(PREBUILT_COLUMNS)):
        if step % _COLUMNS_A_PAUSE == 0:
            pause()
    overlay.offsets.update(state.offsets)
    # Last: followers read the log from these offsets on, and what failed before would be skipped.
    overlay.loaded_offsets.update(state.offsets)
    overlay.record_position()
    overlay.is_damaged = bool(state.damaged)


def stack_vectors(products: Sequence[CompactedProduct], embedder: Embedder) -> Matrix | None:
    """Return the stored vectors; None when one is missing, so that all products are embedded again.

    Shapes:
        returns: float32 [m, d]
    """
    vectors = [product.vector for product in products if product.vector is not None]
    if len(vectors) < len(products) or any(len(vector) != embedder.dimensions for vector in vectors):
        return None
    return np.array(vectors, np.float32)
