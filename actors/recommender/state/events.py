"""Interactions as arrays: weight, user, row and time of each event.

Live changes (JSON) and compacted interactions (a table, read at start) become the same `EventArrays`. A restarted
recommender therefore has exactly the counts of one that never stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cluster.records.validation.recent_events import GROUP

Ints = npt.NDArray[np.int64]

EventTuple = tuple[int, int, int, float, int]
"Code of the user, row, milliseconds since 1970, weight, code of the type: one event of `EventArrays`."

EVENT_WEIGHTS: Mapping[str, float] = {
    "checkout": 1.0,
    "add_to_cart": 0.7,
    "subscribe": 0.6,
    "add_to_collection": 0.6,
    "bookmark": 0.6,
    "like": 0.6,
    "share": 0.6,
    "complete": 0.6,
    "read": 0.3,
    "watch": 0.3,
    "listen": 0.3,
    "product_detail_page_view": 0.3,
    "click": 0.3,
    "product_image_view": 0.2,
    "promo_page_view": 0.1,
    "custom": 0.1,
    "submit": 0.1,
    "rate": 0.1,
    "remove_from_cart": -0.3,
    "remove_from_collection": -0.4,
    "unsubscribe": -0.6,
    "refund": -0.7,
    "dislike": -1.0,
}
"Event type -> evidence of interest that one event gives. Other types have weight 0."

KINDS = ("", *EVENT_WEIGHTS)
"Event types by code; 0 is a type without a name."
KIND_CODES: Mapping[str, int] = {kind: code for code, kind in enumerate(KINDS)}
_CHECKOUT = KIND_CODES["checkout"]

EXPOSURE = frozenset(("impression", "viewable_impression"))
"Types that only show a product. All other types are actions of the user."

_CONSUMPTION = frozenset(("read", "watch", "listen"))
_SHORT_VIEW_S = 5.0
_LONG_CONSUMPTION_S = 120.0
# A duration of 0 s is kept apart from one that was not sent, which is stored as 0.
_SHORTEST_S = 0.001
# Weighs 0.1, as `rate` without stars in equation 2.
_NO_RATING = 3.0
_RATINGS = (0.0, 2.0, 3.0, 3.5, 5.0)
_RATING_WEIGHTS = (-0.5, -0.1, 0.1, 0.4, 1.0)


@dataclass(frozen=True, slots=True)
class EventArrays:
    """Events about one row each, in the order they were written."""

    users: Ints
    "Codes of users."
    rows: Ints
    at_ms: Ints
    weights: npt.NDArray[np.float64]
    kinds: npt.NDArray[np.uint8]
    "Codes of event types."

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def bought(self) -> npt.NDArray[np.bool_]:
        """Return which events are lines of a checkout.

        Shapes:
            returns: bool [m]
        """
        bought: npt.NDArray[np.bool_] = np.equal(self.kinds, _CHECKOUT)
        return bought

    def select(self, which: npt.NDArray[Any] | slice) -> EventArrays:
        """Return the events that a mask, positions or a slice select.

        Shapes:
            which: bool [m] or int64 [k]
        """
        return EventArrays(
            self.users[which], self.rows[which], self.at_ms[which], self.weights[which], self.kinds[which]
        )

    @classmethod
    def of(cls, events: Iterable[EventTuple]) -> EventArrays:
        """Build arrays from tuples in the order of the fields."""
        columns = list(zip(*events, strict=True)) or [(), (), (), (), ()]
        return cls(
            np.array(columns[0], np.int64),
            np.array(columns[1], np.int64),
            np.array(columns[2], np.int64),
            np.array(columns[3], np.float64),
            np.array(columns[4], np.uint8),
        )

    @classmethod
    def concatenate(cls, first: EventArrays, second: EventArrays) -> EventArrays:
        """Return the events of both, the first before the second."""
        return cls(
            np.concatenate((first.users, second.users)),
            np.concatenate((first.rows, second.rows)),
            np.concatenate((first.at_ms, second.at_ms)),
            np.concatenate((first.weights, second.weights)),
            np.concatenate((first.kinds, second.kinds)),
        )


def weigh_event(event_type: str, value: float = 0.0) -> float:
    """Return the weight of one event, -1 to 1.

    Units:
        value: seconds for views and consumption (0 = not sent), 0 to 5 for ratings, else ignored
    Source:
        docs/concepts/scoring.md, equation 2
    """
    # Unknown types weigh nothing: a newer release may have written types that this one does not know.
    weight = EVENT_WEIGHTS.get(event_type, 0.0)
    if value and event_type == "product_detail_page_view":
        return weight if value >= _SHORT_VIEW_S else 0.0
    if value and event_type in _CONSUMPTION:
        return 0.05 + 0.45 * min(value / _LONG_CONSUMPTION_S, 1.0)
    if event_type == "rate":
        return float(np.interp(value, _RATINGS, _RATING_WEIGHTS))
    return weight


def weigh_events(
    names: Sequence[str], kind: npt.NDArray[Any], values: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Return the weights of many events, each that of `weigh_event`: engines and trainings weigh by this function.

    Shapes:
        names: the event types
        kind: int [m], positions in `names`
        values: float64 [m], as of `weigh_event`
        returns: float64 [m]
    """
    weights = np.zeros(len(kind))
    for code, name in enumerate(names):
        those = kind == code
        value = values[those]
        weight = EVENT_WEIGHTS.get(name, 0.0)
        if name == "rate":
            weights[those] = np.interp(value, _RATINGS, _RATING_WEIGHTS)
        elif name == "product_detail_page_view":
            weights[those] = np.where((value == 0) | (value >= _SHORT_VIEW_S), weight, 0.0)
        elif name in _CONSUMPTION:
            watched = 0.05 + 0.45 * np.minimum(value / _LONG_CONSUMPTION_S, 1.0)
            weights[those] = np.where(value == 0, weight, watched)
        else:
            weights[those] = weight
    return weights


def parse_interactions(
    items: Iterable[Mapping[str, Any]],
    *,
    user_code: Callable[[str], int],
    row_of: Callable[[str], int],
    latest_ms: int,
) -> list[EventTuple]:
    """Return one event for each product of the interactions of a change, without events of weight 0.

    `latest_ms` is the time of the write. Later timestamps are set to it: otherwise an event that a client dates years
    ahead would trend until then.
    """
    events: list[EventTuple] = []
    for item in items:
        kind = item["type"]
        weight = weigh_event(kind, _read_value(item))
        user_key = user_key_from_item(item)
        if weight == 0 or not user_key:
            continue
        names = [
            *(item.get("product_ids") or ()),
            *(GROUP + name for name in item.get("product_group_ids") or ()),
        ]
        rows = [row for name in names if (row := row_of(name)) >= 0]
        if rows:  # only users with counted events get a code: otherwise the visitors of a crawl would fill the memory
            code = user_code(user_key)
            at_ms = min(_time_from_text_ms(item.get("timestamp"), latest_ms), latest_ms)
            events += [(code, row, at_ms, weight, KIND_CODES[kind]) for row in rows]
    return events


def events_from_table(
    table: Any,
    *,
    user_code: Callable[[str], int],
    row_of: Callable[[str], int],
) -> EventArrays:
    """Return the events of compacted interactions (columns of `cluster.artifacts.segment_format.LOADED_INTERACTIONS`).

    Cost:
        about 1 s for 1,000,000 interactions
    """
    kinds = table["type"].combine_chunks().dictionary_encode()
    user_keys = table["reader"].combine_chunks().dictionary_encode()
    names = kinds.dictionary.to_pylist()
    kind = kinds.indices.to_numpy(zero_copy_only=False)
    weights = weigh_events(names, kind, table["value"].fill_null(0).to_numpy())
    # No later than the write, as in `parse_interactions`: both ways must give equal events.
    at_ms = np.minimum(table["at_ms"].to_numpy(), offset_times_ms(table["offset"].combine_chunks()))
    lists = table["product_ids"].combine_chunks()
    products = lists.flatten().dictionary_encode()
    rows = np.array([row_of(product) for product in products.dictionary.to_pylist()], np.int64)
    owner = np.repeat(np.arange(len(table)), lists.value_lengths().fill_null(0).to_numpy())
    row = rows[products.indices.to_numpy(zero_copy_only=False)] if len(rows) else np.zeros(0, np.int64)
    counts = (weights[owner] != 0) & (row >= 0)
    owner = owner[counts]
    row = row[counts]
    # only users with counted events get a code: most visitors of a large site only have exposures
    who, place = np.unique(user_keys.indices.to_numpy(zero_copy_only=False)[owner], return_inverse=True)
    codes = [user_code(user) for user in user_keys.dictionary.take(pa.array(who)).to_pylist()]
    user = np.array(codes, np.int64)[place]
    codes_of_kinds = np.array([*(KIND_CODES.get(name, 0) for name in names), 0], np.uint8)
    return EventArrays(user, row, at_ms[owner], weights[owner], codes_of_kinds[kind[owner]])


def user_key_from_item(item: Mapping[str, Any]) -> str:
    """Return the key of the user: `u:` and `user_id`, else `a:` and `anonymous_id`; empty without both."""
    if item.get("user_id"):
        return "u:" + str(item["user_id"])
    return "a:" + str(item["anonymous_id"]) if item.get("anonymous_id") else ""


def offset_time_ms(offset: str) -> int:
    """Return the time of an offset."""
    return int(offset.partition("-")[0])


def _read_value(item: Mapping[str, Any]) -> float:
    """Read seconds or rating as recent lists and segments hold them."""
    if item["type"] == "rate":
        rating = item.get("rating")
        return _NO_RATING if rating is None else float(rating)
    duration_s = item.get("duration")
    return 0.0 if duration_s is None else max(float(duration_s), _SHORTEST_S)


def offset_times_ms(offsets: Any) -> Ints:
    """Return the times of an Arrow array of offsets.

    Shapes:
        returns: int64 [m]
    """
    encoded = offsets.dictionary_encode()
    # All interactions of one upload share an offset, so few texts are parsed.
    times = np.array([offset_time_ms(offset) for offset in encoded.dictionary.to_pylist()], np.int64)
    return times[encoded.indices.to_numpy(zero_copy_only=False)] if len(times) else times


def _time_from_text_ms(timestamp: Any, default: int) -> int:
    if not timestamp:
        return default
    # before Python 3.11, fromisoformat does not parse `Z`
    return int(datetime.fromisoformat(str(timestamp).replace("Z", "+00:00")).timestamp() * 1000)
