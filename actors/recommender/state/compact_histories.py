"""Compact histories: the weighted events of all users with an account, in eight bytes each.

    settled   sorted by user, as arrays                 from the segments, at the load
    newer     one array for each user of these events   from the change log

Recent lists in Redis hold the newest events of a user. These histories hold the older ones, so a request needs no
second read. Both parts are a function of the log alone: a state that followed the log and one that was loaded return
the same events.

An event is one number, from the highest bit to the lowest:

    26 bits row | 5 bits code of the type | 6 bits weight in steps of 1/31 | 27 bits minutes since 1970
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from actors.recommender.state.events import KIND_CODES, KINDS, EventArrays, Ints
from actors.recommender.state.interaction_rows import ALWAYS, ConsumptionTimes, InteractionRows
from actors.vectors.row_selection import expand_runs
from actors.vectors.types import Floats
from cluster.store.data.append_plan import CAP

MOST_EVENTS = 5_000
"Newest events of one user that are kept: more is no person."
MINUTE_MS = 60_000

_LIMIT = 128_000_000
"Events of one app that are kept, the newest ones: 1 GB."
# So many events wait in small arrays before they are merged: a merge copies all settled events.
_NEWER_LIMIT = 1_000_000
# Events that a load or merge sorts at once; it bounds the memory for temporary arrays.
_EVENTS_A_SHARE = 2_000_000
_USER_BYTES = 16
_NEWER_USER_BYTES = 220
"Bytes of a user among settled events, and estimated bytes of a dictionary entry with an array."
_ROW_SHIFT = 38
_KIND_SHIFT = 33
_WEIGHT_SHIFT = 27
_MOST_ROWS = 1 << 26
_MINUTES = np.uint64((1 << _WEIGHT_SHIFT) - 1)
_WEIGHT_MASK = np.uint64(63)
# The weight is stored with an offset, because shifted bits have no sign.
_WEIGHT_ZERO = 32
_WEIGHT_STEPS = 31.0
_KIND_MASK = np.uint64(31)
_WITHOUT_WEIGHT = ~np.uint64(63 << _WEIGHT_SHIFT)

Packed = npt.NDArray[np.uint64]
"Events, each as one number."


@dataclass(frozen=True, slots=True)
class UnpackedEvents:
    """Events as columns, in the order in which they were packed.

    Shapes:
        rows, at_ms, kinds: int64 [m]; weights: float64 [m]
    Units:
        at_ms: milliseconds since 1970, whole minutes
    """

    rows: Ints
    at_ms: Ints
    weights: Floats
    kinds: Ints
    "Codes of event types."

    def __len__(self) -> int:
        return len(self.rows)


class CompactHistories:
    """Events of users by the hash of their keys. A hash of 0 is a visitor, who has no compact history."""

    def __init__(self, limit: int = _LIMIT, newer_limit: int = _NEWER_LIMIT) -> None:
        self._limit = limit
        self._newer_limit = newer_limit
        self._users: Ints = np.zeros(0, np.int64)
        self._starts: Ints = np.zeros(1, np.int64)
        self._settled: Packed = np.zeros(0, np.uint64)
        self._newer: dict[int, array[int]] = {}
        self._newer_count = 0

    def __len__(self) -> int:
        return len(self._settled) + self._newer_count

    @property
    def nbytes(self) -> int:
        users = len(self._users) * _USER_BYTES + len(self._newer) * _NEWER_USER_BYTES
        return 8 * len(self) + users

    def add_many(self, users: Ints, events: EventArrays) -> None:
        """Add many events at once.

        Shapes:
            users: int64 [m], the hash of each event's user
        Cost:
            1,000,000 events: 0.3 s, and 32 bytes an event while it runs
        """
        packed = np.zeros(len(events), np.uint64)
        for first in range(0, len(events), _EVENTS_A_SHARE):
            share = slice(first, first + _EVENTS_A_SHARE)
            numbers, fits = _pack(events.select(share))
            # 0 marks visitors and rows that do not fit: `_settle` drops it like an erased event.
            packed[share] = np.where(fits & (users[share] != 0), numbers, 0)
        self._settle(users, packed)

    def record(self, users: Ints, events: EventArrays) -> None:
        """Add a few events in the order of the log.

        Shapes:
            users: int64 [m], the hash of each event's user
        Cost:
            one event: 15 us; 200 events: 0.1 ms
        """
        packed, named = _pack(events)
        named &= users != 0
        newer = self._newer
        for user, event in zip(users[named].tolist(), packed[named].tolist(), strict=True):
            events_of_user = newer.get(user)
            if events_of_user is None:
                # An array of plain numbers: a list would hold an object for each event.
                events_of_user = newer[user] = array("Q")
            events_of_user.append(event)
            self._newer_count += 1
        if self._newer_count > self._newer_limit:
            owners = np.repeat(
                np.fromiter(newer, np.int64, len(newer)), [len(part) for part in newer.values()]
            )
            self._settle(owners, np.concatenate([np.frombuffer(part, np.uint64) for part in newer.values()]))

    def erase(self, user: int) -> None:
        """Forget a user."""
        forgotten = self._newer.pop(user, None)
        self._newer_count -= 0 if forgotten is None else len(forgotten)
        first, last = self._find_settled(user)
        # In place, without a copy of a gigabyte; the next merge removes the zeros.
        self._settled[first:last] = 0

    def count(self, user: int) -> int:
        """Return the number of a user's events; erased ones count until they are merged away."""
        newer = self._newer.get(user)
        # as `_find_settled`, for erased events too: a call less in each request
        place = int(self._users.searchsorted(user))
        count = 0 if newer is None else len(newer)
        if place < len(self._users) and self._users.item(place) == user:
            count += self._starts.item(place + 1) - self._starts.item(place)
        return count

    def find(self, user: int) -> Packed:
        """Return the events of a user, oldest first.

        Shapes:
            returns: uint64 [m]
        """
        first, last = self._find_settled(user)
        events: Packed = self._settled[first:last]
        newer = self._newer.get(user)
        if newer is not None:
            events = np.concatenate((events, np.array(newer, np.uint64)))
        if len(events) > MOST_EVENTS:
            # by time, not by arrival: a state that is loaded later drops the same events
            events = events[np.argsort(events & _MINUTES, kind="stable")[-MOST_EVENTS:]]
        return events

    def _find_settled(self, user: int) -> tuple[int, int]:
        """Return the bounds of a user's settled events; equal if there are none, or if they were erased."""
        place = int(self._users.searchsorted(user))
        if place == len(self._users) or self._users.item(place) != user:
            return 0, 0
        first = self._starts.item(place)
        last = self._starts.item(place + 1)
        return (first, last) if self._settled.item(first) else (0, 0)

    def _settle(self, users: Ints, packed: Packed) -> None:
        """Merge events behind the settled ones, which may be of the same users; nothing newer is left."""
        if len(self._settled):
            users = np.concatenate((np.repeat(self._users, np.diff(self._starts)), users))
            packed = np.concatenate((self._settled, packed))
        self._newer = {}
        self._newer_count = 0
        oldest = 1  # the number 0 is an erased event
        if len(packed) > self._limit:
            # The oldest events of the app go first, whosever they are: the bound is one of memory.
            oldest = max(oldest, int(np.partition(packed & _MINUTES, -self._limit)[-self._limit]))
        # a share of the users at a time: all at once would take five times the memory of the events
        parts = [
            _group(users[share], packed[share], oldest)
            for share in _divide(users, 1 + len(packed) // _EVENTS_A_SHARE)
        ]
        distinct, lengths, events = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        self._users = distinct
        self._settled = events
        self._starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)


def _divide(users: Ints, count: int) -> Iterator[Any]:
    """Yield masks of events: each has all events of its users, and users are in ascending order."""
    # Hashes spread evenly over 64 bits, so equal ranges have about equally many events.
    width = 2**64 // count + 1
    for lowest in range(-(2**63), 2**63, width):
        yield (users >= lowest) & (users <= min(lowest + width, 2**63) - 1)


def _group(users: Ints, packed: Packed, oldest: int) -> tuple[Ints, Ints, Packed]:
    """Group the events that are not before a minute by user; return the users, how many each has, and the events."""
    kept = packed & _MINUTES >= np.uint64(oldest)
    users = users[kept]
    packed = packed[kept]
    distinct, counts = np.unique(users, return_counts=True)
    lengths = np.minimum(counts, MOST_EVENTS)
    # the newest by time are kept, whenever they arrived; most apps have no user with too many
    is_cut = bool((counts > MOST_EVENTS).any())
    order = np.lexsort((packed & _MINUTES, users)) if is_cut else np.argsort(users, kind="stable")
    return distinct, lengths, packed[order[expand_runs(np.cumsum(counts) - lengths, lengths)]]


def hash_user(user_key: str) -> int:
    """Return the hash of a user with an account (`u:`), 0 for a visitor. It differs from process to process."""
    # Salted by the interpreter, so no caller can construct users with equal hashes.
    return hash(user_key) if user_key.startswith("u:") else 0


def unpack_events(packed: Packed) -> UnpackedEvents:
    """Return events as columns.

    Shapes:
        packed: uint64 [m]
    Cost:
        2,000 events: 20 us
    """
    return UnpackedEvents(
        (packed >> np.uint64(_ROW_SHIFT)).astype(np.int64),
        (packed & _MINUTES).astype(np.int64) * MINUTE_MS,
        ((packed >> np.uint64(_WEIGHT_SHIFT) & _WEIGHT_MASK).astype(np.float64) - _WEIGHT_ZERO)
        / _WEIGHT_STEPS,
        (packed >> np.uint64(_KIND_SHIFT) & _KIND_MASK).astype(np.int64),
    )


def read_older_events(
    histories: CompactHistories,
    user_id: str,
    recent: InteractionRows,
    events: int,
    simulated: int,
) -> UnpackedEvents | None:
    """Return the events of a user that are not among the recent ones, newest first; None if there are none.

    `recent` are the rows of `events` recent events, of which the first `simulated` are of the query. A visitor has
    recent events only: a device may change hands.

    Cost:
        4 us for a user with at most 200 events; 2,000 events: 0.1 ms
    """
    if not user_id:
        return None
    user = hash("u:" + user_id)
    count = histories.count(user)
    # Simulated events stand in front and are in no log: only the others are subtracted from the history.
    first = bisect_left(recent.events, simulated) if simulated else 0
    # a list that is not full has all events, unless it expired
    if not count or (events - simulated < CAP and count <= len(recent.rows) - first):
        return None
    packed = histories.find(user)
    if first < len(recent.rows):
        kinds = [KIND_CODES.get(kind, 0) for kind in recent.kinds[first:]]
        # Both sources have the newest events: without the subtraction they would count twice.
        packed = drop_events(packed, recent.rows[first:], kinds, recent.at_ms[first:])
    if not len(packed):
        return None
    older = unpack_events(packed[::-1])
    if (older.at_ms[1:] <= older.at_ms[:-1]).all():
        return older
    # an import brought old events late
    order = np.argsort(-older.at_ms, kind="stable")
    return UnpackedEvents(older.rows[order], older.at_ms[order], older.weights[order], older.kinds[order])


def take_newest(older: UnpackedEvents, recent_rows: Collection[int], depth: int) -> UnpackedEvents:
    """Return the newest events, until they and the recent rows are about `depth` distinct products."""
    distinct = set(recent_rows)
    count = 0
    for row in older.rows.tolist():
        if len(distinct) >= depth:
            break
        distinct.add(row)
        count += 1
    return UnpackedEvents(older.rows[:count], older.at_ms[:count], older.weights[:count], older.kinds[:count])


def list_older_rows(older: UnpackedEvents, within: ConsumptionTimes) -> list[int]:
    """List the rows of older events that count as consumption within some times."""
    rows = older.rows
    if within is not ALWAYS:
        since_ms = np.array([within.since_ms.get(kind, within.default_ms) for kind in KINDS])
        # the time of an event is its whole minute
        # A minute earlier, because truncation may have moved an event before the limit: rather hide it.
        rows = rows[older.at_ms > since_ms[older.kinds] - MINUTE_MS]
    listed: list[int] = rows.tolist()
    return listed


def drop_events(packed: Packed, rows: Sequence[int], kinds: Sequence[int], at_ms: Sequence[int]) -> Packed:
    """Leave out some events: row, code of the type and time of each.

    Shapes:
        packed: uint64 [m]; returns: uint64 [k], k <= m
    """
    # a time before 1970 is packed as 1970
    minutes = np.maximum(np.array(at_ms, np.int64), 0) // MINUTE_MS
    late = packed & _MINUTES >= np.uint64(minutes.min())
    if not late.any():
        return packed
    dropped = np.array(rows, np.int64) << _ROW_SHIFT | np.array(kinds, np.int64) << _KIND_SHIFT | minutes
    ordered = np.sort(dropped.view(np.uint64))
    # Weights are rounded here and exact there, so events are compared without them.
    events = packed[late] & _WITHOUT_WEIGHT
    # faster than `np.isin` for so few
    places = np.minimum(ordered.searchsorted(events), len(ordered) - 1)
    kept = ~late
    kept[late] = ordered[places] != events
    return packed[kept]


def _pack(events: EventArrays) -> tuple[Packed, Any]:
    """Return events as numbers, and which of them fit into one."""
    # -1..1 becomes 1..63, which fits 6 bits (decision 27).
    steps = np.rint(np.clip(events.weights, -1.0, 1.0) * _WEIGHT_STEPS).astype(np.int64) + _WEIGHT_ZERO
    minutes = np.clip(events.at_ms // MINUTE_MS, 0, int(_MINUTES))
    fits = events.rows < _MOST_ROWS
    rows = np.where(fits, events.rows, 0)
    packed = (
        rows << _ROW_SHIFT | events.kinds.astype(np.int64) << _KIND_SHIFT | steps << _WEIGHT_SHIFT | minutes
    )
    return packed.astype(np.uint64), fits
