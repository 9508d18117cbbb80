"""Which products a reader dealt with, when all that is known is a product group: the variant that interests them most.

Source: reference 5.3, 6.1 (`dedupe_product_group_id`)
"""

from __future__ import annotations

from actors.recommender.ranking.query_context import QueryContext
from actors.recommender.ranking.user_profile import select_history
from actors.recommender.state.events import EXPOSURE
from cluster.records.validation.recent_events import GROUP


def list_history_rows(request: QueryContext) -> list[int]:
    """List the rows of a reader's history that are on offer, newest first, by the query's `history_type`.

    An interaction with a group alone stands for the variant on offer with the best score.
    """
    did = select_history(request.recent_events, request.query.history_type)
    names = dict.fromkeys(name for kind, ids, _, _ in did if kind not in EXPOSURE for name in ids)
    chosen = _select_variants([name for name in names if name.startswith(GROUP)], request)
    rows = (chosen[name] if name in chosen else request.catalog.row_of(name) for name in names)
    return [row for row in dict.fromkeys(rows) if _is_offered(row, request)]


def _select_variants(names: list[str], request: QueryContext) -> dict[str, int]:
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
    scores = request.build_ranking().get_scores(every)
    by_row = dict(zip(every, scores.tolist(), strict=True))
    return {name: max(rows, key=by_row.__getitem__, default=-1) for name, rows in variants.items()}


def _is_offered(row: int, request: QueryContext) -> bool:
    return 0 <= row < len(request.item_priors) and bool(request.catalog.offered[row])
