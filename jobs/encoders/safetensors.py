"""Safetensors without a library: a header in JSON and plain arrays behind it; nothing in it is ever executed."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from cluster.errors import Invalid

Tensors = Mapping[str, npt.NDArray[np.float32]]

_LONGEST_HEADER = 10 << 20
_KINDS: Mapping[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "F16": np.dtype("<f2")}


def read_safetensors(data: bytes) -> Tensors:
    """Return all floating-point tensors as float32; integer tensors are skipped.

    Shapes:
        returns: float32, by name, each in the shape of the file
    Errors:
        Invalid: the data is no safetensors file, or is truncated
    """
    try:
        (length,) = struct.unpack_from("<Q", data)
        if length > min(_LONGEST_HEADER, len(data) - 8):
            raise Invalid("not a safetensors file: its header is longer than it should be")
        header: dict[str, Any] = orjson.loads(data[8 : 8 + length])
        return dict(_read_tensors(header, data, 8 + length))
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Invalid(f"not a safetensors file: {error}") from error


def _read_tensors(
    header: dict[str, Any], data: bytes, begin: int
) -> Iterator[tuple[str, npt.NDArray[np.float32]]]:
    for name, about in header.items():
        kind = _KINDS.get(about.get("dtype", ""))
        if name == "__metadata__" or kind is None:
            continue
        start, end = about["data_offsets"]
        shape = tuple(int(size) for size in about["shape"])
        if not 0 <= start <= end <= len(data) - begin or (end - start) != kind.itemsize * int(np.prod(shape)):
            raise Invalid(f"not a safetensors file: tensor {name} does not fit")
        array = np.frombuffer(data, kind, (end - start) // kind.itemsize, begin + start)
        yield name, array.reshape(shape).astype(np.float32)
