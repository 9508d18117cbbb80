"""The interactions of a user by catalog row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from actors.recommender.state.cooccurrence import SESSION_GAP_MS

RecentEventTuple = tuple[str, Sequence[str], int, float]
"One recent event, unpacked: type, product ids, milliseconds since 1970, value."


@dataclass(frozen=True, slots=True)
class InteractionRows:
    """Recent interactions by row, an entry for every product of an event, newest first."""

    kinds: Sequence[str] = ()
    rows: Sequence[int] = ()
    values: Sequence[float] = ()
    at_ms: Sequence[int] = ()
    events: Sequence[int] = ()
    "Numbers of the events. The lines of a basket share one."

    @classmethod
    def of(cls, entries: Sequence[tuple[str, int, float, int, int]]) -> InteractionRows:
        """Build the rows of entries in the order of the fields."""
        return cls(*zip(*entries, strict=True)) if entries else cls()


EVER_MS = -(1 << 62)
"A time before all events."


@dataclass(frozen=True, slots=True)
class ConsumptionTimes:
    """Since when an interaction counts as consumption, so that lists leave its products out."""

    default_ms: int = EVER_MS
    since_ms: Mapping[str, int] = field(default_factory=dict)
    "By type of interaction, where it differs from `default_ms`."


ALWAYS = ConsumptionTimes()
"Every interaction counts."


@dataclass(frozen=True, slots=True)
class WeightedInteractions:
    """Interactions of a user with weights, one row an entry, newest first; dislikes weigh less than 0."""

    rows: Sequence[int] = ()
    at_ms: Sequence[int] = ()
    weights: Sequence[float] = ()
    kinds: Sequence[str] = ()


def interactions_from_anchors(rows: Sequence[int], now_ms: int) -> WeightedInteractions:
    """Build interactions of anchors, all of the same moment and of weight 1."""
    return WeightedInteractions(list(rows), [now_ms] * len(rows), [1.0] * len(rows), [""] * len(rows))


def select_session(steps: WeightedInteractions, now_ms: int) -> WeightedInteractions:
    """Select the running session: interactions without a pause of half an hour until now."""
    count = 0
    until_ms = now_ms
    for at_ms in steps.at_ms:
        if until_ms - at_ms > SESSION_GAP_MS:
            break
        until_ms = at_ms
        count += 1
    return WeightedInteractions(
        steps.rows[:count], steps.at_ms[:count], steps.weights[:count], steps.kinds[:count]
    )


def join_interactions(newer: WeightedInteractions, older: WeightedInteractions) -> WeightedInteractions:
    """Append older interactions to newer ones."""
    return WeightedInteractions(
        [*newer.rows, *older.rows],
        [*newer.at_ms, *older.at_ms],
        [*newer.weights, *older.weights],
        [*newer.kinds, *older.kinds],
    )
