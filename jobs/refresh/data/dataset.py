"""What happened, as arrays: who dealt with which item, when, and what it is worth.

Everything a learner sees is here. Rows stand by user, then time, then the order in which they came; equal input in
any order of users gives equal arrays. Absurd rows (no user, no product, not a number) are left out and counted,
they never stop a training; what is dated after it was written happened when it was written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from actors.recommender.state.events import EVENT_WEIGHTS, weigh_event
from actors.vectors.types import Codes, Floats, Mask, Rows, Scores
from actors.vectors.vocabulary import Vocabulary
from cluster.errors import Invalid
from jobs.refresh.data.profiles import Profiles

_LARGEST_WEIGHT = 1_000.0

EventWeigher = Callable[[str, float], float]
"Says what one event of a type with a value is worth, -1 to 1; 0 leaves it out."


@dataclass(frozen=True, slots=True)
class Interactions:
    """Events about one item each, by user, then time.

    Shapes:
        reader, item, basket: int64 [m]; at_s: float64 [m]; weight: float32 [m]; kind: int32 [m]
    Units:
        at_s: seconds since 1970, or the place in the sequence when there is no clock
    """

    reader: Rows
    item: Rows
    at_s: Floats
    weight: Scores
    "Below zero speaks against the item."
    basket: Rows
    "Equal for lines that belong together, as those of one purchase."
    kind: Codes
    "Position in `kinds`."
    readers: Vocabulary
    items: Vocabulary
    kinds: tuple[str, ...] = ("",)
    clock: bool = True
    "Are the times real? Without a clock nothing fades by days."
    dropped: int = 0
    "Rows that made no sense."
    content: Any = None
    """What items are like: float32 [n, d] or CSR, rows of length 1 (zeros where nothing is known); none when no
    content is at hand."""
    profiles: Profiles | None = None
    "What users are like; none when nobody needs it."

    def __len__(self) -> int:
        return len(self.item)

    @property
    def n_readers(self) -> int:
        """Number of users in the vocabulary."""
        return len(self.readers)

    @property
    def n_items(self) -> int:
        """Number of items in the vocabulary."""
        return len(self.items)

    @property
    def now_s(self) -> float:
        """The newest moment."""
        return float(self.at_s.max(initial=0.0))

    def pick(self, which: Mask | Rows) -> Interactions:
        """Return the events of some rows; vocabularies stay whole.

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
        """Take the rows of some kinds; all when none is named."""
        if not kinds:
            return self
        wanted = [code for code, kind in enumerate(self.kinds) if kind in kinds]
        return self.pick(np.isin(self.kind, wanted))

    def with_content(self, content: Any) -> Interactions:
        """Give the same events with what the items are like.

        Shapes:
            content: float32 [n, d] or scipy CSR, rows of length 1 or zeros
        Errors:
            Invalid: it is about another number of items
        """
        if content.shape[0] != self.n_items:
            raise Invalid(f"there are contents of {content.shape[0]} items, the data has {self.n_items}")
        return replace(self, content=content)

    def starts(self) -> Rows:
        """Say where each user's rows begin.

        Shapes:
            returns: int64 [readers + 1]
        """
        found: Rows = np.searchsorted(self.reader, np.arange(self.n_readers + 1)).astype(np.int64)
        return found


@dataclass(frozen=True, slots=True)
class FrameColumns:
    """Which columns of a frame hold what; only `reader` and `item` must be there."""

    reader: str = "reader"
    item: str = "item"
    at: str | None = "at"
    "A datetime, or a number of seconds."
    weight: str | None = None
    basket: str | None = None
    kind: str | None = None


def interactions_from_frame(frame: pl.DataFrame, columns: FrameColumns | None = None) -> Interactions:
    """Read interactions from a polars frame; without a time the order of the rows is the order of things.

    Errors:
        Invalid: a column is missing, or a time is neither a date nor a number
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
        found = Vocabulary.of(_texts_from_series(frame[columns.kind]))
        kinds = tuple(found.names.to_pylist())
        kind = found.codes(_texts_from_series(frame[columns.kind])).astype(np.int32)
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


def interactions_from_segments(table: Any, weigh: EventWeigher = weigh_event) -> Interactions:
    """Read settled interactions (columns of `cluster.artifacts.tables.LOADED_INTERACTIONS`).

    Nothing can have happened later than it was written, whatever the sender's clock says.

    Cost:
        1.1 s for 1,000,000 interactions on one core
    """
    table = table.combine_chunks()
    lists = _one_chunk(table["product_ids"])
    owner = np.repeat(np.arange(len(table)), lists.value_lengths().fill_null(0).to_numpy())
    encoded = _one_chunk(table["type"]).dictionary_encode()
    names = tuple("" if name is None else name for name in encoded.dictionary.to_pylist()) or ("",)
    kind = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int32)
    values = np.nan_to_num(table["value"].fill_null(0).to_numpy().astype(np.float64))
    at_ms = table["at_ms"].fill_null(0).to_numpy()
    if "offset" in table.column_names:
        at_ms = np.minimum(at_ms, _written_ms(_one_chunk(table["offset"])))
    return _build_interactions(
        _one_chunk(table["reader"]).take(pa.array(owner)),
        lists.flatten(),
        at_ms[owner] / 1000.0,
        _event_weights(names, kind, values, weigh)[owner],
        owner,
        kind[owner],
        names,
        clock=True,
    )


def number_sessions(data: Interactions, gap_minutes: float | None) -> Rows:
    """Number the sessions of ordered events: a new one for each user and after each long pause.

    Shapes:
        returns: int64 [m], ascending from 0
    """
    breaks = np.zeros(len(data), np.bool_)
    breaks[1:] = data.reader[1:] != data.reader[:-1]
    if gap_minutes is not None and data.clock:
        breaks[1:] |= data.at_s[1:] - data.at_s[:-1] > 60.0 * gap_minutes
    numbers: Rows = np.cumsum(breaks).astype(np.int64)
    return numbers


def event_weigher(changed: Mapping[str, float]) -> EventWeigher:
    """Weigh events as the platform does, with other weights for some types.

    Errors:
        Invalid: there is no such type of event
    """
    unknown = sorted(set(changed) - set(EVENT_WEIGHTS))
    if unknown:
        known = ", ".join(sorted(EVENT_WEIGHTS))
        raise Invalid(f"no such type of event: {', '.join(unknown)}; known are {known}")
    factors = {kind: weight / EVENT_WEIGHTS[kind] for kind, weight in changed.items()}

    def weigh(kind: str, value: float) -> float:
        return weigh_event(kind, value) * factors.get(kind, 1.0)

    return weigh


def _build_interactions(
    readers: Any,
    items: Any,
    at_s: Floats,
    weight: npt.NDArray[Any],
    basket: Rows,
    kind: Codes,
    kinds: tuple[str, ...],
    *,
    clock: bool,
) -> Interactions:
    """Drop what makes no sense, number users and items, and put rows in order."""
    named = readers.is_valid().to_numpy(zero_copy_only=False) & items.is_valid().to_numpy(
        zero_copy_only=False
    )
    sound = named & np.isfinite(at_s) & (np.abs(np.nan_to_num(weight, nan=np.inf)) <= _LARGEST_WEIGHT)
    kept = np.flatnonzero(sound & (weight != 0))
    positions = pa.array(kept)
    readers, items = readers.take(positions), items.take(positions)
    reader_names, item_names = Vocabulary.of(readers), Vocabulary.of(items)
    reader, item = reader_names.codes(readers), item_names.codes(items)
    at_s = at_s[kept]
    order = np.lexsort((at_s, reader))
    if not clock:
        at_s = np.arange(len(order), dtype=np.float64)[np.argsort(order)]
        starts = np.searchsorted(reader[order], reader)
        at_s -= starts
    lines = kept[order]
    return Interactions(
        reader=reader[order],
        item=item[order],
        at_s=at_s[order],
        weight=weight[lines].astype(np.float32),
        basket=np.unique(basket[lines], return_inverse=True)[1].astype(np.int64),
        kind=kind[lines].astype(np.int32),
        readers=reader_names,
        items=item_names,
        kinds=kinds,
        clock=clock,
        dropped=int(len(sound) - np.count_nonzero(sound)),
    )


def _event_weights(names: tuple[str, ...], kind: Codes, values: Floats, weigh: EventWeigher) -> Floats:
    """Weigh every event; a type with a value is asked once for each value to the tenth."""
    weights = np.zeros(len(kind))
    for code, name in enumerate(names):
        those = kind == code
        found, inverse = np.unique(np.round(values[those], 1), return_inverse=True)
        weights[those] = np.array([weigh(name, value) for value in found.tolist()])[inverse]
    return weights


def _one_chunk(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _written_ms(offsets: Any) -> Rows:
    encoded = offsets.dictionary_encode()
    times = np.array([int(text.partition("-")[0]) for text in encoded.dictionary.to_pylist()], np.int64)
    return times[encoded.indices.to_numpy(zero_copy_only=False)] if len(times) else times


def _texts_from_series(series: pl.Series) -> Any:
    return _one_chunk(series.cast(pl.String).to_arrow()).cast(pa.string())


def _numbers_from_series(series: pl.Series) -> Floats:
    """Read numbers; what is none becomes NaN, and the row is left out later."""
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
