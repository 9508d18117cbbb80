"""Interactions as arrays: what each is worth, who did it, to which row, when.

The live road (JSON of one change) and the road after a restart (a table of settled interactions) end in the same
`Events`, so a restarted recommender counts exactly as one that never stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cluster.records.validation.recent_events import GROUP

Ints = npt.NDArray[np.int64]

EventTuple = tuple[int, int, int, float, bool]
"Reader's code, row, milliseconds since 1970, weight, bought: one entry of `Events`."

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
"What one event says about the reader's interest; types that are absent say nothing."

EXPOSURE = frozenset(("impression", "viewable_impression"))
"Types that only show a product; everything else is something the reader did."

_CONSUMPTION = frozenset(("read", "watch", "listen"))
VALUED = _CONSUMPTION | {"product_detail_page_view", "rate"}
"Types whose weight depends on their value."

_SHORT_VIEW_S = 5.0
_LONG_CONSUMPTION_S = 120.0
_SHORTEST_S, _NO_RATING = 0.001, 3.0
_RATINGS, _RATING_WEIGHTS = (0.0, 2.0, 3.0, 3.5, 5.0), (-0.5, -0.1, 0.1, 0.4, 1.0)


@dataclass(frozen=True, slots=True)
class EventArrays:
    """Events about one row each, in the order they were written."""

    readers: Ints
    "Codes of readers."
    rows: Ints
    at_ms: Ints
    weights: npt.NDArray[np.float64]
    bought: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, which: npt.NDArray[Any]) -> EventArrays:
        """Take some of them, by mask or by position."""
        return EventArrays(
            self.readers[which], self.rows[which], self.at_ms[which], self.weights[which], self.bought[which]
        )

    @classmethod
    def of(cls, found: Iterable[EventTuple]) -> EventArrays:
        """Make events from tuples in the order of the fields."""
        columns = list(zip(*found, strict=True)) or [(), (), (), (), ()]
        return cls(
            np.array(columns[0], np.int64),
            np.array(columns[1], np.int64),
            np.array(columns[2], np.int64),
            np.array(columns[3], np.float64),
            np.array(columns[4], np.bool_),
        )

    @classmethod
    def concatenate(cls, first: EventArrays, second: EventArrays) -> EventArrays:
        """Put two lots behind each other."""
        return cls(
            np.concatenate((first.readers, second.readers)),
            np.concatenate((first.rows, second.rows)),
            np.concatenate((first.at_ms, second.at_ms)),
            np.concatenate((first.weights, second.weights)),
            np.concatenate((first.bought, second.bought)),
        )


def weigh_event(event_type: str, value: float = 0.0) -> float:
    """Say what one event is worth, -1 to 1.

    Units:
        value: seconds for views and consumption (0 = not sent), 0 to 5 for ratings, else ignored
    Source:
        docs/concepts/scoring.md, equation 2
    """
    weight = EVENT_WEIGHTS.get(event_type, 0.0)
    if value and event_type == "product_detail_page_view":
        return weight if value >= _SHORT_VIEW_S else 0.0
    if value and event_type in _CONSUMPTION:
        return 0.05 + 0.45 * min(value / _LONG_CONSUMPTION_S, 1.0)
    if event_type == "rate":
        return float(np.interp(value, _RATINGS, _RATING_WEIGHTS))
    return weight


def parse_interactions(
    items: Iterable[Mapping[str, Any]],
    *,
    reader_code: Callable[[str], int],
    row_of: Callable[[str], int],
    latest_ms: int,
) -> list[EventTuple]:
    """Read interactions of a change, one event a product. Those that say nothing are left out.

    `latest_ms` is when they were written: nothing can have happened later, whatever the caller's clock says, or a
    single event dated years ahead would trend until then.
    """
    found: list[EventTuple] = []
    for item in items:
        kind = item["type"]
        weight = weigh_event(kind, _read_value(item))
        reader = user_key_from_item(item)
        if weight == 0 or not reader:
            continue
        names = [
            *(item.get("product_ids") or ()),
            *(GROUP + name for name in item.get("product_group_ids") or ()),
        ]
        rows = [row for name in names if (row := row_of(name)) >= 0]
        if rows:  # a reader is only known by events that count, or visitors of a crawl would fill the memory
            code = reader_code(reader)
            at_ms = min(_time_from_text_ms(item.get("timestamp"), latest_ms), latest_ms)
            found += [(code, row, at_ms, weight, kind == "checkout") for row in rows]
    return found


def events_from_table(
    table: Any,
    *,
    reader_code: Callable[[str], int],
    row_of: Callable[[str], int],
) -> EventArrays:
    """Read settled interactions (columns of `cluster.artifacts.tables.LOADED_INTERACTIONS`).

    Cost:
        about 1 s for 1,000,000 interactions
    """
    kinds = table["type"].combine_chunks().dictionary_encode()
    readers = table["reader"].combine_chunks().dictionary_encode()
    names = kinds.dictionary.to_pylist()
    kind = kinds.indices.to_numpy(zero_copy_only=False)
    weights = _table_weights(names, kind, table["value"].fill_null(0).to_numpy())
    at_ms = np.minimum(table["at_ms"].to_numpy(), _offset_times_ms(table["offset"].combine_chunks()))
    lists = table["product_ids"].combine_chunks()
    products = lists.flatten().dictionary_encode()
    rows = np.array([row_of(product) for product in products.dictionary.to_pylist()], np.int64)
    owner = np.repeat(np.arange(len(table)), lists.value_lengths().fill_null(0).to_numpy())
    row = rows[products.indices.to_numpy(zero_copy_only=False)] if len(rows) else np.zeros(0, np.int64)
    counts = (weights[owner] != 0) & (row >= 0)
    owner, row = owner[counts], row[counts]
    # only readers whose events count get a code: most visitors of a large site did nothing but see
    who, place = np.unique(readers.indices.to_numpy(zero_copy_only=False)[owner], return_inverse=True)
    codes = [reader_code(reader) for reader in readers.dictionary.take(pa.array(who)).to_pylist()]
    reader = np.array(codes, np.int64)[place]
    bought = np.array([name == "checkout" for name in names], np.bool_)
    return EventArrays(
        reader, row, at_ms[owner], weights[owner], bought[kind[owner]] if len(names) else owner > 0
    )


def user_key_from_item(item: Mapping[str, Any]) -> str:
    """Name who did it: the user when known, else the visitor."""
    if item.get("user_id"):
        return "u:" + str(item["user_id"])
    return "a:" + str(item["anonymous_id"]) if item.get("anonymous_id") else ""


def offset_time_ms(offset: str) -> int:
    """Read the time out of an offset."""
    return int(offset.partition("-")[0])


def _read_value(item: Mapping[str, Any]) -> float:
    """Read seconds or rating as recent lists and segments hold them."""
    if item["type"] == "rate":
        rating = item.get("rating")
        return _NO_RATING if rating is None else float(rating)
    duration_s = item.get("duration")
    return 0.0 if duration_s is None else max(float(duration_s), _SHORTEST_S)


def _table_weights(
    names: list[str], kind: npt.NDArray[Any], values: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    weights = np.zeros(len(kind))
    for code, name in enumerate(names):
        those = kind == code
        if name == "rate":
            weights[those] = np.interp(values[those], _RATINGS, _RATING_WEIGHTS)
        elif name in VALUED:
            found, inverse = np.unique(values[those], return_inverse=True)
            weights[those] = np.array([weigh_event(name, value) for value in found.tolist()])[inverse]
        else:
            weights[those] = weigh_event(name)
    return weights


def _offset_times_ms(offsets: Any) -> Ints:
    encoded = offsets.dictionary_encode()
    times = np.array([offset_time_ms(offset) for offset in encoded.dictionary.to_pylist()], np.int64)
    return times[encoded.indices.to_numpy(zero_copy_only=False)] if len(times) else times


def _time_from_text_ms(timestamp: Any, default: int) -> int:
    if not timestamp:
        return default
    # `Z` is not understood by fromisoformat before 3.11
    return int(datetime.fromisoformat(str(timestamp).replace("Z", "+00:00")).timestamp() * 1000)
