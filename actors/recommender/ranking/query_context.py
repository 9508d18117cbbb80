"""The inputs of a pipeline: plain values that are known when a query arrives. Every stage computes its own value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actors.recommender.messages import UserQuery
from actors.recommender.state.catalog import Catalog
from actors.recommender.state.engine_state import EngineState, ItemPriors
from actors.recommender.state.interaction_rows import RecentEventTuple
from cluster.records.validation.recent_events import GROUP


@dataclass(frozen=True, slots=True)
class QueryContext:
    """One query, what its user did lately, and the state of its engine at one time."""

    query: UserQuery
    recent_events: Sequence[RecentEventTuple]
    "The recent interactions of the user, newest first."
    shown_ids: Sequence[str]
    "Products that earlier pages of the query's `pagination_id` returned."
    engine_state: EngineState
    item_priors: ItemPriors
    now_ms: int

    @property
    def catalog(self) -> Catalog:
        """Return the products of the app."""
        return self.engine_state.catalog


def find_anchor_rows(query: UserQuery, catalog: Catalog) -> list[int]:
    """Return the rows of the anchors of `product_to_products`, with all variants of anchored groups."""
    rows: list[int] = []
    for anchor in query.anchors:
        if anchor.startswith(GROUP):
            rows += catalog.rows_of_group(anchor.removeprefix(GROUP))
        else:
            rows += catalog.rows_of((anchor,))
    return list(dict.fromkeys(rows))
