"""The fields of the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actors.recommender.messages import UserQuery
from actors.recommender.ranking.score import normalize_score
from actors.recommender.rerank.rerank import RankedItem
from actors.recommender.state.catalog import Catalog
from cluster.query.fields import Projection


def render_products(
    placed: Sequence[RankedItem], scores: Mapping[int, float], query: UserQuery, catalog: Catalog
) -> list[dict[str, Any]]:
    """Write result records: `product_id`, the fields of `fl`, and the underscore fields.

    `scores` holds the reader's score of each row. A product removed a moment ago is left out.

    Cost:
        1 us a record for `fl: []`, 5 us with fields
    """
    boosting = bool(query.boosts or query.boost_circles)
    projection = Projection.of(query.fields) if query.fields else None
    offered, ids = catalog.offered, catalog.product_ids
    results: list[dict[str, Any]] = []
    for item in placed:
        if not offered[item.row]:
            continue
        result: dict[str, Any] = (
            projection(catalog.record(item.row)) if projection else {"product_id": ids[item.row]}
        )
        result["_personalization_score"] = normalize_score(scores[item.row])
        if boosting:
            result["_boosted"] = item.boosted
            if item.rules:
                result["_boosted_rules"] = list(item.rules)
        results.append(result)
    return results
