"""Arrays that grow: amortised appends, and a view of the filled part."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T", bound=np.generic)

_LEAST = 64


class GrowingArray(Generic[T]):
    """A one-dimensional array with spare capacity at its end."""

    def __init__(self, dtype: type[T], fill: Any = 0) -> None:
        self._fill = fill
        self._room: NDArray[T] = np.full(_LEAST, fill, dtype=dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def nbytes(self) -> int:
        """Return the size in bytes, including the spare capacity."""
        return self._room.nbytes

    @property
    def filled(self) -> NDArray[T]:
        """Return a view of the filled part; valid until the next growth.

        Shapes:
            T [len(self)]
        """
        return self._room[: self._size]

    def extend_to(self, size: int) -> None:
        """Grow to `size` with the fill value; never shrinks."""
        if size > len(self._room):
            # Doubled, so that n appends copy fewer than 2n elements.
            room = np.full(max(size, 2 * len(self._room)), self._fill, dtype=self._room.dtype)
            room[: self._size] = self.filled
            self._room = room
        self._size = max(self._size, size)

    def set(self, at: int, value: Any) -> None:
        """Write one element; grow as needed."""
        if at >= self._size:
            if at >= len(self._room):
                self.extend_to(at + 1)
            self._size = at + 1
        self._room[at] = value

    def write(self, at: int, values: NDArray[T]) -> None:
        """Write consecutive elements from position `at`; grow as needed.

        Shapes:
            values: T [n]
        """
        self.extend_to(at + len(values))
        self._room[at : at + len(values)] = values
