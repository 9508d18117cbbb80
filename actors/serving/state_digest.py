"""Digests of the state that a replica answers from: replicas at the same offset of the log can be compared.

records     of all products, in whatever order they came
lists       of the answers to a few queries, for a state that the artifact store alone determines

The queries ask for popular products of the state itself and for words of their titles, so any difference in counts,
models, text index or the order of equal scores shows.
"""

from __future__ import annotations

from hashlib import sha256

import orjson

from actors.recommender.messages import QueryKind, UserQuery
from actors.recommender.recommender import Recommender
from actors.recommender.state.events import offset_time_ms
from actors.retrieval.messages import SearchQuery
from actors.serving import dispatch
from cluster.ids import DEFAULT_ENGINE

_ROWS = 50
_PRODUCTS = 8
"Popular products that are asked for."
_SHOWN = 16


def digest_records(recommender: Recommender) -> str:
    """Return a digest of the products.

    Cost:
        100,000 products: 40 us
    """
    overlay = recommender.overlay
    return f"{overlay.texts.fingerprint_sum:016x}-{overlay.catalog.products}"


def digest_lists(recommender: Recommender, app_id: str, now_ms: int) -> str:
    """Return a digest of the answers to a few queries; empty while not all cold-start products were compared.

    Cost:
        100,000 products: about 20 ms
    """
    state = recommender.default_engine_state
    times = [offset_time_ms(offset) for offset in recommender.overlay.offsets.values()]
    # the time of the newest change: two replicas compute their digests at different times
    changed_ms = max(times, default=0)
    leaders = state.get_item_priors(now_ms).leaders[:_PRODUCTS]
    if not changed_ms or not state.is_complete:
        return ""
    queries = [_query("user_to_products", app_id), _query("user_to_trending", app_id)]
    for row in leaders:
        product_id = state.catalog.product_ids[row]
        title = state.catalog.record(row).get("title")
        queries.append(_query("product_to_products", app_id, anchors=(product_id,)))
        if title:
            queries.append(_query("search", app_id, search=SearchQuery(text=str(title)[:_ROWS])))
    digest = sha256()
    for query in queries:
        result = dispatch.answer(recommender, query, (), (), changed_ms)
        digest.update(orjson.dumps([product["product_id"] for product in result.products]))
    return digest.hexdigest()[:_SHOWN]


def _query(kind: QueryKind, app_id: str, **more: object) -> UserQuery:
    return UserQuery(kind, app_id, DEFAULT_ENGINE, rows=_ROWS, **more)  # type: ignore[arg-type]
