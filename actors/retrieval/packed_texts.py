"""Many texts as uploaded, in one array of bytes that can be mapped from a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from actors.vectors.snapshot_arrays import ModelState
from actors.vectors.types import Rows
from actors.vectors.vocabulary import Vocabulary
from cluster.errors import Fault


@dataclass(frozen=True, slots=True)
class PackedTexts:
    """Texts by number.

    Shapes:
        blob: uint8 [b], UTF-8; ends: int64 [n + 1], where each text begins and the last one ends
    """

    blob: npt.NDArray[np.uint8]
    ends: Rows

    @classmethod
    def of(cls, texts: Iterable[str]) -> PackedTexts:
        """Join texts; lone surrogates are kept."""
        pieces = [text.encode("utf-8", "surrogatepass") for text in texts]
        ends = np.zeros(len(pieces) + 1, np.int64)
        np.cumsum([len(piece) for piece in pieces], out=ends[1:])
        return cls(np.frombuffer(b"".join(pieces), np.uint8), ends)

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, text: int) -> str:
        encoded: bytes = self.blob[int(self.ends[text]) : int(self.ends[text + 1])].tobytes()
        return encoded.decode("utf-8", "surrogatepass")

    def __iter__(self) -> Iterator[str]:
        return (self[text] for text in range(len(self)))


def load_product_ids(parts: ModelState, extra: str) -> Vocabulary:
    """Return the ids in the arrays `products.blob` and `products.ends` of an extra of a snapshot.

    Errors:
        Fault: the arrays do not fit together
    """
    texts = PackedTexts(np.asarray(parts.array("products.blob")), np.asarray(parts.array("products.ends")))
    if texts.blob.dtype != np.uint8 or not has_valid_offsets(texts.ends, len(texts.blob)):
        raise Fault(f"snapshot is damaged: {extra}: product ids do not fit", path=extra)
    # Arrow's plain strings have offsets of 32 bits, so all ids together stay below 2 GB.
    offsets = pa.py_buffer(texts.ends.astype(np.int32))
    blob = pa.py_buffer(np.ascontiguousarray(texts.blob))
    strings = pa.StringArray.from_buffers(len(texts), offsets, blob)
    try:
        strings.validate(full=True)
    except pa.ArrowInvalid as error:
        raise Fault(f"snapshot is damaged: {extra}: product ids: {error}", path=extra) from error
    names = Vocabulary(strings)
    # Codes are looked up by binary search, which unsorted ids would mislead without an error.
    if not names.is_ordered:
        raise Fault(f"snapshot is damaged: {extra}: product ids are not sorted", path=extra)
    return names


def has_valid_offsets(ends: npt.NDArray[Any], last: int) -> bool:
    """Return whether ends ascend from 0 to the last position.

    Shapes:
        ends: int64 [n + 1]
    """
    if ends.ndim != 1 or ends.dtype != np.int64 or not len(ends):
        return False
    return bool(ends[0] == 0 and ends[-1] == last and (np.diff(ends) >= 0).all())
