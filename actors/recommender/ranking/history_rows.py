"""Which products a reader dealt with, when all that is known is a product group: the variant that interests them most.

Source: reference 5.3, 6.1 (`dedupe_product_group_id`)
"""

from __future__ import annotations

from actors.recommender.ranking.query_context import Request
from actors.recommender.ranking.user_profile import did_with
from actors.recommender.state.events import EXPOSURE
from cluster.records.validation.recent_events import GROUP


def dealt_with(request: Request) -> list[int]:
    """List the rows of a reader's history that are on offer, newest first, by the query's `history_type`.

    An interaction with a group alone stands for the variant on offer with the best score.
    """
    did = did_with(request.did, request.query.history_type)
    names = dict.fromkeys(name for kind, ids, _, _ in did if kind not in EXPOSURE for name in ids)
    chosen = _chosen([name for name in names if name.startswith(GROUP)], request)
    rows = (chosen[name] if name in chosen else request.catalog.row_of(name) for name in names)
    return [row for row in dict.fromkeys(rows) if _is_offered(row, request)]


def _chosen(names: list[str], request: Request) -> dict[str, int]:
    """Choose a variant for every group; -1 where none is on offer."""
    variants = {
        name: [
            row
            for row in request.catalog.rows_of_group(name.removeprefix(GROUP))
            if _is_offered(row, request)
        ]
        for name in names
    }
    every = [row for rows in variants.values() for row in rows]
    if not every:
        return dict.fromkeys(names, -1)
    scores = request.ranking().of(every)
    by_row = dict(zip(every, scores.tolist(), strict=True))
    return {name: max(rows, key=by_row.__getitem__, default=-1) for name, rows in variants.items()}


def _is_offered(row: int, request: Request) -> bool:
    return 0 <= row < len(request.standing) and bool(request.catalog.offered[row])
