"""From bodies to queries: what all of them share is turned once.

Source: reference 6.1, 6.4, 6.5
"""

from __future__ import annotations

from typing import Any

from actors.recommender.messages import QueryKind, UserQuery
from cluster.ids import DEFAULT_ENGINE
from cluster.records.validation.recent_events import parse_simulated_interactions
from deployments.api.wire.shared import ProductQueryBody, UserQueryBody, boosts_from_body, parse_filter


def query_from_body(
    body: UserQueryBody, kind: QueryKind, *, app_id: str, user_id: str, now_ms: int, **own: Any
) -> UserQuery:
    """Turn a body into a query; `own` is what only its kind has.

    `user_id` is the token's reader when there is one, else the body's.

    Errors:
        FilterSyntax, Unprocessable: a filter or a simulated interaction makes no sense
    """
    simulated = parse_simulated_interactions(
        body.additional_interactions, now_ms=now_ms, where=("body", "additional_interactions")
    )
    return plain_query_from_body(
        body,
        kind,
        app_id=app_id,
        user_id=user_id,
        dedupe=body.dedupe_product_group_id,
        simulated=tuple(simulated),
        cohort=body.user_cohort,
        **own,
    )


def plain_query_from_body(
    body: ProductQueryBody, kind: QueryKind, *, app_id: str, user_id: str, **own: Any
) -> UserQuery:
    """Turn a body that knows of no reader but the id into a query.

    Errors:
        FilterSyntax, Unprocessable: a filter makes no sense
    """
    return UserQuery(
        kind=kind,
        app_id=app_id,
        engine_id=body.engine_id or DEFAULT_ENGINE,
        user_id=user_id,
        anonymous_id=body.anonymous_id or "",
        rows=body.rows,
        type=body.type,
        fields=tuple(body.fl),
        filter=parse_filter(body.fq, "fq"),
        boosts=boosts_from_body(body),
        circles=tuple(entry.circle() for entry in body.geo.filter),
        boost_circles=tuple(entry.circle(entry.boost_positions) for entry in body.geo.boost),
        rule_names=(body.boost_rule_name,) if body.boost_rule_name and not body.boost_fq else (),
        **own,
    )
