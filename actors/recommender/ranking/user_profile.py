"""The profile of a user: liked rows with weights and one vector, from the recent interactions.

A profile is never stored. It is built from the events of the moment, so a click of a second ago, an anonymous visitor
and simulated events need nothing special.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import cast

import numpy as np
import orjson

from actors.recommender.state.catalog import Catalog
from actors.recommender.state.compact_histories import UnpackedEvents
from actors.recommender.state.events import EVENT_WEIGHTS, EXPOSURE, KINDS, weigh_event
from actors.recommender.state.interaction_rows import (
    ALWAYS,
    ConsumptionTimes,
    InteractionRows,
    RecentEventTuple,
    WeightedInteractions,
    join_interactions,
)
from actors.vectors.index import VectorIndex
from actors.vectors.types import Floats, Rows, Vector
from cluster.records.interaction import RecentEvent

MOST_HIDDEN = 50
"Number of a user's most recent products that are not recommended again."

_HALF_LIFE_ITEMS = 15.0
MOST_ROWS = 80
"Newest products of a history that the profile weighs."
_SHORT_NAMES = {"view": "product_detail_page_view", "cart": "add_to_cart", "purchase": "checkout"}
# 2^(-k / H_profile) (equation 7), computed once: a power for each event would dominate a request.
_DECAY = tuple(0.5 ** (place / _HALF_LIFE_ITEMS) for place in range(MOST_ROWS))


def _no_vector() -> None:
    return None


@dataclass(frozen=True)
class UserProfile:
    """The interests of one user."""

    rows: Rows
    "Liked rows."
    weights: Floats
    "float64 [m], above 0."
    compute_vector: Callable[[], Vector | None] = _no_vector
    interactions: WeightedInteractions = field(default_factory=WeightedInteractions)
    "The events of the profile. Models of the snapshot score them."
    context_count: int = 0
    "Number of last rows that come from session variables. No model of the snapshot scores them."

    @cached_property
    def vector(self) -> Vector | None:
        """Return the unit vector of the liked products minus the disliked ones; None when nothing is known.

        It is computed on first use. A snapshot with all products of the history needs no vector.

        Shapes:
            returns: float32 [d]
        """
        return self.compute_vector()

    @property
    def has_signal(self) -> bool:
        """Return whether the profile has a liked product or a vector."""
        return len(self.rows) > 0 or self.vector is not None


EMPTY_PROFILE = UserProfile(np.zeros(0, np.int64), np.zeros(0))


def parse_recent_events(
    recent: Sequence[bytes], simulated: Sequence[RecentEvent] = ()
) -> list[RecentEventTuple]:
    """Read a recent list, newest first, with simulated events before it.

    Cost:
        25 us for 100 events
    """
    # In front of the stored events: a caller simulates what the user does now.
    made_up = sorted(simulated, key=lambda event: -event.at_ms)
    first: list[RecentEventTuple] = [
        (event.type, event.product_ids, event.at_ms, event.value) for event in made_up
    ]
    if not recent:
        return first
    try:
        # one call for the whole list: a third of the time of reading the events one by one
        read: list[RecentEventTuple] = orjson.loads(b"[" + b",".join(recent) + b"]")
        return first + read
    except orjson.JSONDecodeError:
        # One damaged entry must not hide the others: each is read alone, and a broken one is skipped.
        return first + [entry for packed in recent if (entry := _parse_event(packed))]


def find_interaction_rows(events: Sequence[RecentEventTuple], catalog: Catalog) -> InteractionRows:
    """Find the rows of events. Exposures and unknown products are left out.

    Cost:
        20 us for 50 events
    """
    if not events:
        return InteractionRows()
    kinds, names, at_ms, values = zip(*events, strict=True)
    if EXPOSURE.isdisjoint(kinds):
        row_of = catalog.row_by_id.get
        # Unpacking one name raises ValueError for an event about several products; the general way below then
        # takes all.
        with contextlib.suppress(ValueError):
            # nearly every event is about one existing product
            rows = [row_of(name) for (name,) in names]
            if None not in rows:
                return InteractionRows(kinds, cast("list[int]", rows), values, at_ms, range(len(rows)))
    return InteractionRows.of(
        [
            (kind, row, value, at, event)
            for event, (kind, several, at, value) in enumerate(events)
            if kind not in EXPOSURE
            for row in catalog.rows_of(several)
        ]
    )


def list_recent_rows(
    history: InteractionRows, most: int | None = MOST_HIDDEN, *, within: ConsumptionTimes = ALWAYS
) -> list[int]:
    """List the most recent distinct products of a history, newest first; `most` None: all.

    Only events that count as consumption `within` some times are listed.
    """
    rows = history.rows
    if within is not ALWAYS:
        each = zip(rows, history.at_ms, history.kinds, strict=True)
        since_ms = within.since_ms.get
        default_ms = within.default_ms
        rows = [row for row, at_ms, kind in each if at_ms > since_ms(kind, default_ms)]
    return list(dict.fromkeys(rows))[:most]


def select_history(events: Iterable[RecentEventTuple], history_type: str) -> Iterator[RecentEventTuple]:
    """Select the events of a history: `last_checkout`, `last_view`, `last_read` and so on; all when it is empty."""
    kind = history_type.removeprefix("last_")
    kind = _SHORT_NAMES.get(kind, kind)
    return (event for event in events if not kind or event[0] == kind)


def build_user_profile(
    history: InteractionRows, index: VectorIndex, older: UnpackedEvents | None = None
) -> UserProfile:
    """Build the profile of a history: event weights, halved for every fifteen products further back.

    `older` are events before the history, newest first.

    Cost:
        20 us for 50 events

    Source:
        docs/concepts/scoring.md, equations 2 and 7
    """
    weights: dict[int, float] = {}
    amounts: list[float] = []
    # Bound methods in locals: this loop runs for every event of every request.
    met = weights.get
    plain = EVENT_WEIGHTS.get
    last = -1
    place = 0
    for kind, row, value, event in zip(
        history.kinds, history.rows, history.values, history.events, strict=True
    ):
        # Most types have a fixed weight, so only valued events pay for the call.
        weight = weigh_event(kind, value) if value or kind == "rate" else plain(kind, 0.0)
        amounts.append(weight)
        if event != last:
            # all products of one event are equally recent, however many lines a basket has
            last = event
            place = len(weights)
        # r(p) = sum of w(e) 2^(-k(e) / H_profile) (equation 7)
        if weight and place < MOST_ROWS:
            weights[row] = met(row, 0.0) + weight * _DECAY[place]
    steps = WeightedInteractions(history.rows, history.at_ms, amounts, history.kinds)
    if 0.0 in amounts:
        steps = _drop_weightless(steps)
    if older is not None:
        _add_older_weights(weights, older)
        kinds = [KINDS[code] for code in older.kinds.tolist()]
        before = WeightedInteractions(
            older.rows.tolist(), older.at_ms.tolist(), older.weights.tolist(), kinds
        )
        steps = join_interactions(steps, before)
    return profile_from_weights(weights, index, steps)


def _add_older_weights(weights: dict[int, float], older: UnpackedEvents) -> None:
    """Add the weights of older events to those of a history; events of one minute are equally recent."""
    minute = -1
    place = 0
    for row, at_ms, weight in zip(
        older.rows.tolist(), older.at_ms.tolist(), older.weights.tolist(), strict=True
    ):
        # A compact event has the minute alone, so the lines of a basket can't be told from near events.
        if at_ms != minute:
            minute = at_ms
            place = len(weights)
            if place >= MOST_ROWS:
                return
        if weight:
            weights[row] = weights.get(row, 0.0) + weight * _DECAY[place]


def profile_from_weights(
    weights: dict[int, float], index: VectorIndex, steps: WeightedInteractions | None = None
) -> UserProfile:
    """Build a profile of weighted rows; rows with a weight below 0 count in the vector only."""
    if not weights:
        return EMPTY_PROFILE
    rows = np.fromiter(weights, np.int64, len(weights))
    amounts = np.fromiter(weights.values(), np.float64, len(weights))
    # Disliked rows get no neighbours and pairs; they only turn the vector away.
    liked = amounts > 0
    direction = partial(_profile_vector, rows, amounts, index)
    return UserProfile(rows[liked], amounts[liked], direction, steps or WeightedInteractions())


def _profile_vector(rows: Rows, amounts: Floats, index: VectorIndex) -> Vector | None:
    # sum_p r(p) x_p, shapes [m] @ [m, d] -> [d] (equation 7)
    vector: Vector = amounts.astype(np.float32) @ index.take(rows)
    length = float(np.sqrt(vector @ vector))
    # Likes and dislikes may cancel out: a direction of rounding errors would rank by noise.
    return vector / np.float32(length) if length > 1e-6 else None


def _drop_weightless(steps: WeightedInteractions) -> WeightedInteractions:
    """Leave out interactions of weight 0."""
    entries = zip(steps.rows, steps.at_ms, steps.weights, steps.kinds, strict=True)
    kept = [entry for entry in entries if entry[2]]
    return WeightedInteractions(*zip(*kept, strict=True)) if kept else WeightedInteractions()


def _parse_event(packed: bytes) -> RecentEventTuple | None:
    try:
        event = RecentEvent.unpack(packed)
    except ValueError:
        return None
    return event.type, event.product_ids, event.at_ms, event.value
