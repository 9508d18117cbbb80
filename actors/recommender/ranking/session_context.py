"""Session variables: a variable of `custom_context` with the name of a product field raises products with its value.

`{"brand": "Alder", "custom_attributes.grip": ["green", "red"]}` counts like 0.3 of one view, shared
by the most popular products that match. It weighs little beside a history, and it is the whole profile of a new user.
Other variables count in stored boost rules only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any as Anything

import numpy as np

from actors.recommender.ranking.user_profile import UserProfile, profile_from_weights
from actors.recommender.state.catalog import Catalog
from actors.recommender.state.engine_state import ItemPriors
from actors.vectors.index import VectorIndex
from actors.vectors.types import Mask, Rows
from cluster.query.language.field_values import canonical_field, is_moment, is_text
from cluster.query.language.tree import Any, Node, Phrase
from cluster.records.product import Product

_WEIGHT = 0.3
"Of one look at a product, shared by all that match."
# Bounds of what one request may cost: callers choose the variables freely.
_MOST_ROWS = 20
_MOST_FIELDS = 8
_MOST_VALUES = 16
# Fields that hold objects, which no variable can equal.
_OBJECTS = frozenset({"children", "images", "location", "custom_attributes"})
_FIELDS = frozenset(
    name
    for name in Product.model_fields
    if not is_text(name) and not is_moment(name) and name not in _OBJECTS
)


def apply_session_context(
    profile: UserProfile,
    context: Mapping[str, Anything],
    catalog: Catalog,
    index: VectorIndex,
    priors: ItemPriors,
) -> UserProfile:
    """Add the session variables to a profile.

    Cost:
        nothing without a variable named as a product field; else 0.1 ms for 100,000 products
    """
    clauses = [
        clause for name, value in context.items() if (clause := _parse_clause(name, value)) is not None
    ]
    rows = _find_matching_rows(clauses[:_MOST_FIELDS], catalog, priors)
    if not len(rows):
        return profile
    # The weight is shared, so a common value raises many products a little, not all by a whole look.
    given = profile_from_weights(dict.fromkeys(rows.tolist(), _WEIGHT / len(rows)), index)
    return replace(
        profile,
        rows=np.concatenate((profile.rows, given.rows)),
        weights=np.concatenate((profile.weights, given.weights)),
        compute_vector=lambda: _combine_vectors(profile.vector, given.vector),
        context_count=len(given.rows),
    )


def _combine_vectors(profile: Anything, given: Anything) -> Anything:
    if profile is None or given is None:
        return given if profile is None else profile
    # q + c_context q_context, scaled to length 1 (equation 7)
    vector = profile + np.float32(_WEIGHT) * given
    return vector / np.float32(max(float(np.sqrt(vector @ vector)), 1e-6))


def _parse_clause(name: str, value: Anything) -> Node | None:
    field = canonical_field(name)
    if field not in _FIELDS and not field.startswith("custom_attributes."):
        return None
    values = value if isinstance(value, list) else [value]
    texts = [text for item in values[:_MOST_VALUES] if (text := _text_from_value(item))]
    return Any(tuple(Phrase(field, text) for text in texts)) if texts else None


def _text_from_value(value: Anything) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (str, int, float)) else ""


def _find_matching_rows(clauses: list[Node], catalog: Catalog, priors: ItemPriors) -> Rows:
    """Find the most popular products on offer that match the most variables."""
    if not clauses:
        return np.zeros(0, np.int64)
    # At most `_MOST_FIELDS` (8) clauses add up, so a byte holds the number of hits.
    hits = np.zeros(len(priors), np.int8)
    for clause in clauses:
        mask: Mask = catalog.filter_mask(clause)[: len(priors)]
        hits += mask
    hits[~priors.offered] = 0
    best = int(hits.max(initial=0))
    rows: Rows = np.flatnonzero(hits == best) if best else np.zeros(0, np.int64)
    if len(rows) > _MOST_ROWS:
        top = np.argsort(-priors.relative_popularity[rows], kind="stable")[:_MOST_ROWS]
        rows = rows[top]
    return rows
