"""Interactions of the simplest form, accepted without validating each one against the schema.

    a type that requires no other field, a user, product ids, a time in the stored form, and no other field

The schema validates every distinct id once, and the result is cached. `cluster.records.validation.upload` validates
all other interactions. Both ways produce the same records.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from operator import itemgetter
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter

from cluster.records.field_types.fields import NamedId
from cluster.records.field_types.times import is_stored_moment
from cluster.records.validation.accepted_uploads import AcceptedInteractions
from jobs.ingest.files.columns import format_timestamps

PLAIN_TYPES: Final = frozenset(
    (
        "remove_from_cart",
        "refund",
        "subscribe",
        "unsubscribe",
        "add_to_collection",
        "remove_from_collection",
        "like",
        "dislike",
        "share",
        "bookmark",
        "complete",
        "click",
        "submit",
        "product_image_view",
        "product_detail_page_view",
        "promo_page_view",
        "read",
        "watch",
        "listen",
        "add_to_cart",
        "checkout",
    )
)
"Types that refer to products and require no other field."

MOST_IDS = 100
# About 100 MB of Python texts for ids of ten characters.
MOST_CACHED_IDS = 1_000_000
IDS: TypeAdapter[list[str]] = TypeAdapter(list[NamedId])
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  everything in this file is UTC without saying so


class PlainInteractions:
    """Accepts chunks of plain interactions and caches valid ids."""

    def __init__(self) -> None:
        self._valid_ids: set[str] = set()

    def accept(self, records: list[dict[str, Any]], now_ms: int) -> AcceptedInteractions | None:
        """Return the accepted chunk; None if a row is not plain, or not valid.

        Cost:
            3 microseconds an interaction
        """
        recents: list[tuple[int, tuple[str, str, bytes]]] = []
        unknown: set[str] = set()
        try:
            for record in records:
                recents.append(self._build_event(record, now_ms, unknown))
            if unknown:
                self._validate_ids(unknown)
        except (
            KeyError,
            TypeError,
            ValueError,
        ):  # includes refusals of the schema and rows that are not plain
            return None
        # By time alone and stable: events of one millisecond stay in the order of the file.
        recents.sort(key=itemgetter(0))
        payload = orjson.dumps(records)
        return AcceptedInteractions(payload, tuple(entry for _, entry in recents), (), len(records))

    def _build_event(
        self, record: dict[str, Any], now_ms: int, unknown: set[str]
    ) -> tuple[int, tuple[str, str, bytes]]:
        kind = record["type"]
        ids = record["product_ids"]
        user_id = record.get("user_id", "")
        visitor_id = record.get("anonymous_id", "")
        named = [name for name in (user_id, visitor_id) if name]
        if kind not in PLAIN_TYPES or type(ids) is not list or not 0 < len(ids) <= MOST_IDS:
            raise ValueError("not plain")
        # type, product_ids and timestamp, and a user: any further field needs the schema.
        if not named or len(record) != 3 + len(named):
            raise ValueError("not plain")
        if not self._valid_ids.issuperset(ids):
            unknown.update(ids)
        if not self._valid_ids.issuperset(named):
            unknown.update(named)
        # A clock that runs ahead must not put an event in the future, where it would stay the newest for
        # ever.
        at_ms = min(_parse_timestamp(record["timestamp"]), now_ms)
        # formatting copies the bytes into a block of their size; the writer's default block has 1 kB
        return at_ms, (user_id, visitor_id, b"%b" % orjson.dumps((kind, ids, at_ms, 0.0)))

    def _validate_ids(self, unknown: set[str]) -> None:
        IDS.validate_python(list(unknown))
        if len(self._valid_ids) > MOST_CACHED_IDS:
            self._valid_ids.clear()
        self._valid_ids |= unknown


def _parse_timestamp(text: Any) -> int:
    """Return the milliseconds of a timestamp in the stored form.

    Errors:
        ValueError, TypeError: anything else
    """
    if type(text) is not str or not text.isascii() or not is_stored_moment(text):
        raise ValueError("not in the stored form")
    fraction = text[20:23]
    if text[4] != "-" or text[7] != "-" or text[13] != ":" or text[16] != ":" or not fraction.isdigit():
        raise ValueError("not in the stored form")
    gone = datetime.fromisoformat(text[:19]) - _EPOCH
    return (gone.days * 86_400 + gone.seconds) * 1000 + int(fraction)


# The result has the same bytes as from rows: in the log, in the recent lists, and in the payload that an interrupted
# ingest looks for. If one row of a chunk is not plain, the chunk is validated as rows. A text that JSON must escape
# also makes a row not plain.
_ACTORS = ("user_id", "anonymous_id")
_FIELDS = frozenset((*_ACTORS, "type", "product_ids", "timestamp"))
_SECONDS_BELOW = 100_000_000_000
_DATES_FROM = (19_000_000, 19_000_000_000_000)

# Created once: pyarrow looks for pandas each time it creates a scalar, which takes longer than the work.
_NOTHING = pa.scalar("")
_QUOTE = pa.scalar('"')
_CLOSE = pa.scalar('"]')
_NEXT = pa.scalar('","')
_FIRST = pa.scalar('["')
_ROW_END = pa.scalar("},")
_TO_IDS = pa.scalar('",["')
_TO_MOMENT = pa.scalar('"],')
_EVENT_END = pa.scalar(",0.0]")
_NAMES = {
    name: pa.scalar(f',"{name}":["' if name == "product_ids" else f',"{name}":"') for name in sorted(_FIELDS)
}


class PlainColumns:
    """Accepts chunks of plain interactions in columnar form; caches valid ids."""

    def __init__(self) -> None:
        self._valid_ids: set[str] = set()

    def accept(self, table: Any, now_ms: int) -> AcceptedInteractions | None:
        """Return the accepted chunk; None if a row is not plain, or not valid.

        Cost:
            1 to 2 microseconds an interaction, half of it outside the interpreter's lock
        """
        try:
            return self._accept(table, now_ms)
        except (KeyError, ValueError, TypeError, OverflowError, pa.ArrowException):
            return None  # includes schema refusals, rows that are not plain, and values beyond Python

    def _accept(self, table: Any, now_ms: int) -> AcceptedInteractions:
        columns = _select_columns(table)
        kinds = _text_column(columns["type"])
        ids = _id_lists(columns["product_ids"])
        stamps = columns["timestamp"]
        texts = format_timestamps(stamps)
        if kinds.null_count or stamps.null_count or texts is None:
            raise ValueError("not plain")
        if not PLAIN_TYPES.issuperset(pc.unique(kinds).to_pylist()):
            raise ValueError("not plain")
        actors = {name: _text_column(columns[name]) for name in _ACTORS if name in columns}
        named = {name: _actor_column(column) for name, column in actors.items()}
        if not actors or not np.logical_or.reduce([is_present for _, is_present in named.values()]).all():
            raise ValueError("somebody is nobody")
        who = {name: values for name, (values, _) in named.items()}
        self._check_ids(ids.flatten().to_numpy(zero_copy_only=False).tolist(), *who.values())

        joined = pc.binary_join(ids, _NEXT)
        parts = {
            "type": _concatenate(_NAMES["type"], kinds, _QUOTE),
            "product_ids": _concatenate(_NAMES["product_ids"], joined, _CLOSE),
            "timestamp": _concatenate(_NAMES["timestamp"], texts, _QUOTE),
        }
        for name, column in actors.items():
            whole = _concatenate(_NAMES[name], pc.fill_null(column, _NOTHING), _QUOTE)
            parts[name] = pc.if_else(pa.array(named[name][1]), whole, _NOTHING)
        payload = _json_array(_concatenate(*(parts[name] for name in columns)))

        # Among recent events one of the future would stay the newest.
        at_ms = np.minimum(stamps.cast(pa.int64()).to_numpy(), now_ms)
        at_text = pa.array(at_ms).cast(pa.string())
        packed = _concatenate(_FIRST, kinds, _TO_IDS, joined, _TO_MOMENT, at_text, _EVENT_END)
        nobody = [""] * len(kinds)
        recents = zip(
            who.get("user_id", nobody),
            who.get("anonymous_id", nobody),
            packed.cast(pa.binary()).to_numpy(zero_copy_only=False).tolist(),
            strict=True,
        )
        # Recent lists are pushed oldest first, and files are usually sorted by time already.
        in_order = tuple(_sort_by_time(list(recents), at_ms))
        return AcceptedInteractions(payload, in_order, (), len(kinds))

    def _check_ids(self, *many: Iterable[str]) -> None:
        """Check that all ids are valid and need no JSON escapes."""
        unknown = set().union(*many) - self._valid_ids
        # Stands for "no user of this kind" in a column, and is no id.
        unknown.discard("")
        if not unknown:
            return
        fresh = list(unknown)
        IDS.validate_python(fresh)
        if orjson.dumps(fresh) != ('["' + '","'.join(fresh) + '"]').encode():
            raise ValueError("JSON escapes it")
        if len(self._valid_ids) > MOST_CACHED_IDS:
            self._valid_ids.clear()
        self._valid_ids |= unknown


def _select_columns(table: Any) -> dict[str, Any]:
    """Return the non-empty columns in the order of the file, with timestamps in milliseconds.

    Errors:
        ValueError: a column is no field of a plain interaction
    """
    columns: dict[str, Any] = {}
    for name, column in zip(table.schema.names, table.columns, strict=True):
        if column.null_count == len(column):
            continue
        if name not in _FIELDS:
            raise ValueError("not plain")
        # The steps below need one contiguous array; a single chunk is used without a copy.
        whole = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        columns[name] = _timestamps_ms(whole) if name == "timestamp" else whole
    return columns


def _timestamps_ms(column: Any) -> Any:
    """Return timestamps in milliseconds, from times or from numbers: seconds or milliseconds since 1970."""
    if pa.types.is_integer(column.type):
        if column.null_count:
            raise ValueError("some have none")
        numbers = column.cast(pa.int64()).to_numpy()
        # Rows read such numbers as dates if their digits are: 20240131 or 20240131235959.
        if any(((numbers >= first) & (numbers < 21 * first // 19)).any() for first in _DATES_FROM):
            raise ValueError("perhaps dates")
        # Two comparisons in place of `abs`, which overflows for the smallest int64.
        in_ms = np.where((numbers > -_SECONDS_BELOW) & (numbers < _SECONDS_BELOW), numbers * 1000, numbers)
        return pa.array(in_ms, pa.timestamp("ms", "UTC"))
    if not pa.types.is_timestamp(column.type):
        raise TypeError("no moments")
    return column.cast(pa.timestamp("ms", "UTC"), safe=False)


def _text_column(column: Any) -> Any:
    """Return a column of names as text; numbers become their text."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if not _is_name_type(column.type):
        raise TypeError("no names")
    return column.cast(pa.string())


def _is_name_type(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind))


def _id_lists(column: Any) -> Any:
    """Return lists of ids; none may be missing, empty or too long."""
    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)) or not _is_name_type(kind.value_type):
        raise TypeError("no lists of names")
    lists = column.cast(pa.list_(pa.string()))
    lengths = pc.min_max(pc.list_value_length(lists)).as_py()
    flat = lists.flatten()
    if lists.null_count or flat.null_count or not 0 < lengths["min"] <= lengths["max"] <= MOST_IDS:
        raise ValueError("not plain")
    if not pc.binary_length(flat).to_numpy().all():
        raise ValueError("an id is empty")
    return lists


def _actor_column(column: Any) -> tuple[list[str], Any]:
    """Return the id of each row's user (empty without one), and the mask of rows with a user."""
    filled = pc.fill_null(column, _NOTHING)
    is_present = pc.binary_length(filled).to_numpy() > 0
    return filled.to_numpy(zero_copy_only=False).tolist(), is_present


def _concatenate(*pieces: Any) -> Any:
    return pc.binary_join_element_wise(*pieces, _NOTHING)


def _json_array(members: Any) -> bytes:
    """Write rows of `,"name":value...` as a JSON array of objects."""
    objects = pc.binary_replace_slice(_concatenate(members, _ROW_END), 0, 1, "{")
    # Arrow stores the bytes of an array of texts consecutively
    _, offsets, data = objects.buffers()
    ends = np.frombuffer(offsets, np.int32)[objects.offset : objects.offset + len(objects) + 1]
    # Without the last comma; the buffer is taken as it is, so no Python text per row is created.
    joined: bytes = data[int(ends[0]) : int(ends[-1]) - 1].to_pybytes()
    return b"[" + joined + b"]"


def _sort_by_time(recents: list[Any], at_ms: Any) -> list[Any]:
    if (at_ms[1:] >= at_ms[:-1]).all():
        return recents
    return [recents[at] for at in np.argsort(at_ms, kind="stable").tolist()]
