"""Types of arrays. In shapes, `n` counts items, `d` dimensions, `k` requested rows and `m` returned rows."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

Matrix: TypeAlias = npt.NDArray[np.float32]
"""float32 [n, d], rows of length 1 unless a docstring differs."""

Vector: TypeAlias = npt.NDArray[np.float32]
"""float32 [d]."""

Scores: TypeAlias = npt.NDArray[np.float32]
"""float32 [n] or [m]; larger is better."""

Floats: TypeAlias = npt.NDArray[np.float64]
"""float64 [n] or [m], for sums that must stay exact."""

Rows: TypeAlias = npt.NDArray[np.int64]
"""int64 [m], positions of items in a catalog."""

Codes: TypeAlias = npt.NDArray[np.int32]
"""int32 [n], codes of values or rows, -1 for none."""

Mask: TypeAlias = npt.NDArray[np.bool_]
"""bool [n], True where an item may appear."""

Array = TypeVar("Array", bound=npt.NDArray[Any])
"An array type that a function accepts and returns."


def ensure_capacity(array: Array, count: int, fill: Any = 0) -> Array:
    """Return an array with at least `count` entries along its first axis. A larger copy at least doubles.

    Shapes:
        array: any dtype [capacity, ...]
        returns: the same array, or a larger copy whose new entries are `fill`
    """
    have = array.shape[0]
    if have >= count:
        return array
    shape = (max(count, 2 * have, 64), *array.shape[1:])
    # zeros take no memory until they are written
    larger = np.full(shape, fill, array.dtype) if fill else np.zeros(shape, array.dtype)
    larger[:have] = array
    return cast(Array, larger)
