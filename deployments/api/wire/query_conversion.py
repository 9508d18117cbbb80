"""From bodies to queries: what all of them share is turned once.

Source: reference 6.1, 6.4, 6.5
"""

from __future__ import annotations

from typing import Any

from actors.recommender.messages import Kind, ReaderQuery
from cluster.ids import DEFAULT_ENGINE
from cluster.records.validation.recent_events import read_simulated
from deployments.api.wire.shared import Asked, Query, boosts_of, tree_of


def query_of(body: Query, kind: Kind, *, app_id: str, user_id: str, now_ms: int, **own: Any) -> ReaderQuery:
    """Turn a body into a query; `own` is what only its kind has.

    `user_id` is the token's reader when there is one, else the body's.

    Errors:
        FilterSyntax, Unprocessable: a filter or a simulated interaction makes no sense
    """
    simulated = read_simulated(
        body.additional_interactions, now_ms=now_ms, where=("body", "additional_interactions")
    )
    return plain_query_of(
        body,
        kind,
        app_id=app_id,
        user_id=user_id,
        dedupe=body.dedupe_product_group_id,
        simulated=tuple(simulated),
        cohort=body.user_cohort,
        **own,
    )


def plain_query_of(body: Asked, kind: Kind, *, app_id: str, user_id: str, **own: Any) -> ReaderQuery:
    """Turn a body that knows of no reader but the id into a query.

    Errors:
        FilterSyntax, Unprocessable: a filter makes no sense
    """
    return ReaderQuery(
        kind=kind,
        app_id=app_id,
        engine_id=body.engine_id or DEFAULT_ENGINE,
        user_id=user_id,
        anonymous_id=body.anonymous_id or "",
        rows=body.rows,
        type=body.type,
        fields=tuple(body.fl),
        filter=tree_of(body.fq, "fq"),
        boosts=boosts_of(body),
        circles=tuple(entry.circle() for entry in body.geo.filter),
        boost_circles=tuple(entry.circle(entry.boost_positions) for entry in body.geo.boost),
        rule_names=(body.boost_rule_name,) if body.boost_rule_name and not body.boost_fq else (),
        **own,
    )
