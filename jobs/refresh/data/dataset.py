"""Interactions as arrays: user, item, time and weight.

A learner gets no other data. Rows are sorted by user, then time, then input order, so the order of users in the input
has no effect. Invalid rows (no user, no product, not a number) are dropped and counted; they never stop a training.
An event with a time after its write gets the time of the write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from actors.recommender.state.events import EVENT_WEIGHTS, offset_times_ms, weigh_events
from actors.vectors.types import Codes, Floats, Mask, Rows, Scores
from actors.vectors.vocabulary import Vocabulary
from cluster.errors import Invalid
from jobs.refresh.data.profiles import Profiles

# Frames of users may bring weights of any size; beyond this one event would outweigh all others.
_LARGEST_WEIGHT = 1_000.0


@dataclass(frozen=True, slots=True)
class Interactions:
    """Events of one item each, sorted by user, then time.

    Shapes:
        reader, item, basket: int64 [m]; at_s: float64 [m]; weight: float32 [m]; kind: int32 [m]
    Units:
        at_s: seconds since 1970, or the position in the user's sequence if `clock` is false
    """

    reader: Rows
    item: Rows
    at_s: Floats
    weight: Scores
    "A negative weight is evidence against the item."
    basket: Rows
    "Equal for the lines of one purchase."
    kind: Codes
    "Position in `kinds`."
    readers: Vocabulary
    items: Vocabulary
    kinds: tuple[str, ...] = ("",)
    clock: bool = True
    "True if `at_s` are times; otherwise no decay by days applies."
    dropped: int = 0
    "Number of invalid rows."
    content: Any = None
    """Content vectors of the items: float32 [n, d] or CSR, rows of length 1, or zeros for items without content. None
    without content."""
    profiles: Profiles | None = None
    "Profiles of the users; None if the recipe has no cohorts."

    def __len__(self) -> int:
        return len(self.item)

    @property
    def n_readers(self) -> int:
        return len(self.readers)

    @property
    def n_items(self) -> int:
        return len(self.items)

    @property
    def now_s(self) -> float:
        """Return the time of the newest event in seconds, 0 without events."""
        return float(self.at_s.max(initial=0.0))

    def pick(self, which: Mask | Rows) -> Interactions:
        """Return the events of some rows, with unchanged vocabularies.

        Shapes:
            which: bool [e], or int64 [m], ascending positions of events
        """
        return replace(
            self,
            reader=self.reader[which],
            item=self.item[which],
            at_s=self.at_s[which],
            weight=self.weight[which],
            basket=self.basket[which],
            kind=self.kind[which],
        )

    def of_kinds(self, kinds: tuple[str, ...]) -> Interactions:
        """Return the events of some types; all events if `kinds` is empty."""
        return self.pick(self.mark_kinds(kinds)) if kinds else self

    def mark_kinds(self, kinds: tuple[str, ...]) -> Mask:
        """Mark the events of some types; all events if `kinds` is empty.

        Shapes:
            returns: bool [m]
        """
        codes = [code for code, kind in enumerate(self.kinds) if kind in kinds or not kinds]
        return np.isin(self.kind, codes)

    def with_content(self, content: Any) -> Interactions:
        """Return the same events with content vectors of the items.

        Shapes:
            content: float32 [n, d] or scipy CSR, rows of length 1 or zeros
        Errors:
            Invalid: the number of rows is not the number of items
        """
        if content.shape[0] != self.n_items:
            raise Invalid(f"there are contents of {content.shape[0]} items, the data has {self.n_items}")
        return replace(self, content=content)

    def starts(self) -> Rows:
        """Return the first row of each user, and the number of rows as last value.

        Shapes:
            returns: int64 [users + 1]
        """
        starts_by_user: Rows = np.searchsorted(self.reader, np.arange(self.n_readers + 1)).astype(np.int64)
        return starts_by_user


@dataclass(frozen=True, slots=True)
class FrameColumns:
    """Column names of a frame; only `reader` (the user) and `item` are required."""

    reader: str = "reader"
    item: str = "item"
    at: str | None = "at"
    "A datetime, or a number of seconds; None if rows are in the order of the events."
    weight: str | None = None
    basket: str | None = None
    kind: str | None = None


def interactions_from_frame(frame: pl.DataFrame, columns: FrameColumns | None = None) -> Interactions:
    """Return the interactions of a polars frame; without a time column, rows are in the order of the events.

    Errors:
        Invalid: a column is missing, or the time is neither a date nor a number
    """
    columns = columns or FrameColumns()
    named = [columns.reader, columns.item, columns.at, columns.weight, columns.basket, columns.kind]
    missing = [name for name in named if name is not None and name not in frame.columns]
    if missing:
        raise Invalid(f"columns are missing: {', '.join(missing)}; there are {', '.join(frame.columns)}")
    count = frame.height
    at_s = (
        np.arange(count, dtype=np.float64) if columns.at is None else _seconds_from_series(frame[columns.at])
    )
    weight = np.ones(count) if columns.weight is None else _numbers_from_series(frame[columns.weight])
    kinds: tuple[str, ...] = ("",)
    kind: Codes = np.zeros(count, np.int32)
    if columns.kind is not None:
        vocabulary = Vocabulary.from_names(_texts_from_series(frame[columns.kind]))
        kinds = tuple(vocabulary.names.to_pylist())
        kind = vocabulary.codes(_texts_from_series(frame[columns.kind])).astype(np.int32)
    basket = np.arange(count) if columns.basket is None else _codes_from_series(frame[columns.basket])
    return _build_interactions(
        _texts_from_series(frame[columns.reader]),
        _texts_from_series(frame[columns.item]),
        at_s,
        weight,
        basket,
        kind,
        kinds,
        clock=columns.at is not None,
    )


def interactions_from_segments(table: Any, factors: Mapping[str, float] | None = None) -> Interactions:
    """Return the interactions of compacted segments (columns `LOADED_INTERACTIONS` of `segment_format`).

    `factors` scale the weights of some types, as `event_factors` returns them, within -1 to 1; an event of weight 0 is
    dropped. The time of an event is limited to the time of its write, because the clock of a client may be wrong.

    Cost:
        1.1 s for 1,000,000 interactions on one core
    """
    table = table.combine_chunks()
    lists = _one_chunk(table["product_ids"])
    # Shape [lines]: the interaction of each product; all arrays below are expanded by it.
    owner = np.repeat(np.arange(len(table)), lists.value_lengths().fill_null(0).to_numpy())
    encoded = _one_chunk(table["type"]).dictionary_encode()
    names = tuple("" if name is None else name for name in encoded.dictionary.to_pylist()) or ("",)
    kind = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int32)
    values = np.nan_to_num(table["value"].fill_null(0).to_numpy().astype(np.float64))
    factors = factors or {}
    factor_of_kind = np.array([factors.get(name, 1.0) for name in names])
    # Bound as the weights of equation 2: ratings and durations can weigh more than their type.
    weights = np.clip(weigh_events(names, kind, values) * factor_of_kind[kind], -1.0, 1.0)
    at_ms = table["at_ms"].fill_null(0).to_numpy()
    if "offset" in table.column_names:
        # Clients may send times of the future; nothing happened after it was written.
        at_ms = np.minimum(at_ms, offset_times_ms(_one_chunk(table["offset"])))
    return _build_interactions(
        _one_chunk(table["reader"]).take(pa.array(owner)),
        lists.flatten(),
        at_ms[owner] / 1000.0,
        weights[owner],
        owner,
        kind[owner],
        names,
        clock=True,
    )


def sessionize_events(data: Interactions, gap_minutes: float | None) -> Rows:
    """Return the session number of each event; a session ends with its user's events or before a long pause.

    Shapes:
        returns: int64 [m], ascending from 0
    """
    breaks = np.zeros(len(data), np.bool_)
    # A new session begins with another user, or after a gap; the running sum of the breaks numbers them.
    breaks[1:] = data.reader[1:] != data.reader[:-1]
    if gap_minutes is not None and data.clock:
        breaks[1:] |= data.at_s[1:] - data.at_s[:-1] > 60.0 * gap_minutes
    numbers: Rows = np.cumsum(breaks).astype(np.int64)
    return numbers


def event_factors(changed: Mapping[str, float]) -> Mapping[str, float]:
    """Return by what the default weights of some event types are multiplied to get the given weights.

    Errors:
        Invalid: an event type does not exist
    """
    unknown = sorted(set(changed) - set(EVENT_WEIGHTS))
    if unknown:
        kinds = ", ".join(sorted(EVENT_WEIGHTS))
        raise Invalid(f"no such type of event: {', '.join(unknown)}; known are {kinds}")
    # Factors and no weights: the weight of an event may also depend on its value.
    return {kind: weight / EVENT_WEIGHTS[kind] for kind, weight in changed.items()}


def _build_interactions(
    users: Any,
    items: Any,
    at_s: Floats,
    weight: npt.NDArray[Any],
    basket: Rows,
    kind: Codes,
    kinds: tuple[str, ...],
    *,
    clock: bool,
) -> Interactions:
    """Drop invalid rows, number users and items, and sort the rows."""
    named = users.is_valid().to_numpy(zero_copy_only=False) & items.is_valid().to_numpy(zero_copy_only=False)
    # A NaN weight becomes infinite here, so one comparison drops both.
    sound = named & np.isfinite(at_s) & (np.abs(np.nan_to_num(weight, nan=np.inf)) <= _LARGEST_WEIGHT)
    kept = np.flatnonzero(sound & (weight != 0))
    positions = pa.array(kept)
    users = users.take(positions)
    items = items.take(positions)
    user_names = Vocabulary.from_names(users)
    item_names = Vocabulary.from_names(items)
    user = user_names.codes(users)
    item = item_names.codes(items)
    at_s = at_s[kept]
    # Stable: events of one moment keep their order of the input.
    order = np.lexsort((at_s, user))
    if not clock:
        # Without a clock the position in the user's sequence stands for the time; `argsort` inverts the
        # order.
        at_s = np.arange(len(order), dtype=np.float64)[np.argsort(order)]
        starts = np.searchsorted(user[order], user)
        at_s -= starts
    lines = kept[order]
    return Interactions(
        reader=user[order],
        item=item[order],
        at_s=at_s[order],
        weight=weight[lines].astype(np.float32),
        basket=np.unique(basket[lines], return_inverse=True)[1].astype(np.int64),
        kind=kind[lines].astype(np.int32),
        readers=user_names,
        items=item_names,
        kinds=kinds,
        clock=clock,
        dropped=int(len(sound) - np.count_nonzero(sound)),
    )


def _one_chunk(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _texts_from_series(series: pl.Series) -> Any:
    return _one_chunk(series.cast(pl.String).to_arrow()).cast(pa.string())


def _numbers_from_series(series: pl.Series) -> Floats:
    """Return numbers; other values become NaN, so that their rows are dropped later."""
    return series.cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy()


def _codes_from_series(series: pl.Series) -> Rows:
    return series.rank("dense").fill_null(0).to_numpy().astype(np.int64)


def _seconds_from_series(series: pl.Series) -> Floats:
    if series.dtype.is_temporal():
        return _numbers_from_series(series.cast(pl.Datetime("ms")).dt.epoch("ms")) / 1000.0
    if series.dtype.is_numeric():
        return _numbers_from_series(series)
    raise Invalid(
        f"column {series.name!r} holds {series.dtype}, a time must be a date or a number of seconds"
    )
