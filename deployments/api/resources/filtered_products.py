"""Which products a filter lets through, when they are few.

Passages are found first and sieved by the filter afterwards; a filter that lets through little would leave nothing of
them. So the engine, which knows every product's fields, says among which products to look.
"""

from __future__ import annotations

from actors.recommender.messages import UserQuery
from actors.retrieval.messages import SearchQuery
from actors.serving.client import RecommenderClient
from cluster.errors import HouseError
from cluster.ids import DEFAULT_ENGINE
from cluster.query.language.parser import parse

MOST_LISTED = 1_000


async def list_few_matching(
    recommender: RecommenderClient, app_id: str, fq: str | None, kind: str | None
) -> tuple[str, ...] | None:
    """Name the products a filter lets through; None when they are many, or when no engine can say."""
    if fq is None or not fq.strip():
        return None
    asked = SearchQuery(campaigns=False, personalization=0)
    query = UserQuery(
        kind="search", app_id=app_id, engine_id=DEFAULT_ENGINE, rows=MOST_LISTED, type=kind, dedupe=False,
        filter=parse(fq), search=asked,
    )  # fmt: skip
    try:
        found = await recommender.answer(query)
    except HouseError:
        return None
    if found.search is None or found.search.total > MOST_LISTED:
        return None
    return tuple(str(one["product_id"]) for one in found.products)
