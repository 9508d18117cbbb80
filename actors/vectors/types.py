"""Names for arrays, so that signatures read as mathematics. `n` items, `d` dimensions, `k` wanted, `m` found."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

Matrix: TypeAlias = npt.NDArray[np.float32]
"""float32 [n, d], rows of length 1 unless said otherwise."""

Vector: TypeAlias = npt.NDArray[np.float32]
"""float32 [d]."""

Scores: TypeAlias = npt.NDArray[np.float32]
"""float32 [n] or [m]; larger is better."""

Floats: TypeAlias = npt.NDArray[np.float64]
"""float64 [n] or [m], where sums must stay exact."""

Rows: TypeAlias = npt.NDArray[np.int64]
"""int64 [m], positions of items in a catalog."""

Codes: TypeAlias = npt.NDArray[np.int32]
"""int32 [n], small numbers that stand for values or rows, -1 for none."""

Mask: TypeAlias = npt.NDArray[np.bool_]
"""bool [n], True where an item may appear."""

Array = TypeVar("Array", bound=npt.NDArray[Any])
"An array of any kind that comes back as the same kind."


def ensure_capacity(array: Array, wanted: int, fill: Any = 0) -> Array:
    """Give an array with at least `wanted` places along its first axis, at least doubling when it must grow.

    Shapes:
        array: any dtype [capacity, ...]
        returns: the same array, or a larger copy whose new places hold `fill`
    """
    have = array.shape[0]
    if have >= wanted:
        return array
    larger = np.full((max(wanted, 2 * have, 64), *array.shape[1:]), fill, array.dtype)
    larger[:have] = array
    return cast(Array, larger)
