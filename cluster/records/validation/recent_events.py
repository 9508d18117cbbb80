"""Build the recent event of a real or simulated interaction for the recommender."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from cluster.errors import Unprocessable
from cluster.records.interaction import Interaction, ProductVisit, Rating, RecentEvent
from cluster.records.validation.error_messages import explain_error

GROUP: Final = "group:"
"Prefix of a product group's id among product ids."

_SHOWN_ONLY = frozenset(("impression", "viewable_impression"))
_MAX_IDS = 100
_MAX_SIMULATED = 1_000
_UNKNOWN_RATING = 3.0
_SHORTEST_S = 0.001

_SIMULATED: TypeAdapter[list[Interaction]] = TypeAdapter(list[Interaction])


def event_from_interaction(interaction: Interaction, *, at_ms: int) -> RecentEvent | None:
    """Return the recent event of an interaction; None when it concerns no product.

    Impressions do not count, because being shown is not interest. At most 100 ids are kept.

    Units:
        value: seconds for visits (0 when not sent, at least 0.001 when sent), the rating for `rate` (3, which
            is neither good nor bad, when not sent), else 0
    """
    if interaction.type in _SHOWN_ONLY:
        return None
    product_ids: Sequence[str] | None = getattr(interaction, "product_ids", None)
    group_ids: Sequence[str] | None = getattr(interaction, "product_group_ids", None)
    if group_ids:
        product_ids = [*(product_ids or ()), *[GROUP + group_id for group_id in group_ids]]
    if not product_ids:
        return None
    value = 0.0
    if isinstance(interaction, ProductVisit):
        if interaction.duration is not None:
            # 0 means "not sent", so a visit of no time gets the shortest one.
            value = max(interaction.duration, _SHORTEST_S)
    elif isinstance(interaction, Rating):
        value = _UNKNOWN_RATING if interaction.rating is None else interaction.rating
    return RecentEvent(interaction.type, tuple(product_ids[:_MAX_IDS]), at_ms, value)


def parse_simulated_interactions(items: list[Any], *, now_ms: int, where: Sequence[str]) -> list[RecentEvent]:
    """Read the simulated interactions of a recommendation request, oldest first.

    `where` is the location of the list for error details, for example `("body", "additional_interactions")`.

    Errors:
        Unprocessable: fact `detail`, one entry per bad interaction
    """
    if len(items) > _MAX_SIMULATED:
        raise Unprocessable(
            detail=[
                {
                    "loc": [*where],
                    "msg": f"ensure this value has at most {_MAX_SIMULATED} items",
                    "type": "value_error.list.max_items",
                }
            ]
        )
    events = []
    detail = []
    for index, item in enumerate(items):
        try:
            (model,) = _SIMULATED.validate_python([item])
        except ValidationError as failure:
            path, text = explain_error(failure.errors(include_url=False)[0], tagged=True)
            detail.append({"loc": [*where, index, *path], "msg": text, "type": "value_error"})
        else:
            # An event of the future would count more than any real one.
            at_ms = now_ms if model.timestamp is None else min(model.timestamp, now_ms)
            events.append(event_from_interaction(model, at_ms=at_ms))
    if detail:
        raise Unprocessable(detail=detail)
    return sorted([event for event in events if event is not None], key=lambda event: event.at_ms)
