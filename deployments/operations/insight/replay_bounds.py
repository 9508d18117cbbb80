"""Bounds on the past of apps that this process loads for replays: one at a time, and only into free memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager

from cluster.errors import TooMany, Unavailable
from cluster.machine_memory import available_memory

_SPARE = 256 << 20
"Bytes of memory that a replay leaves free."


class ReplayBounds:
    """Lets one replay run, and remembers whose past is kept."""

    def __init__(self, read_free: Callable[[], int] = available_memory) -> None:
        self._read_free = read_free
        self._is_busy = False
        self._kept: Hashable = None

    @contextmanager
    def reserve(self, needed: int, key: Hashable, drop: Callable[[Hashable], None]) -> Iterator[None]:
        """Run one replay of an app; `drop` forgets the past that an earlier one kept under its key.

        Units:
            needed: bytes of memory (`actors.serving.replay.past_app.estimate_memory`)
        Errors:
            TooMany: another replay runs
            Unavailable: the machine has too little memory
        """
        if self._is_busy:
            raise TooMany("another answer is ranked again just now; try again", retry_after_s=5)
        # Before the free memory is read, so that what the other app took counts as free.
        if self._kept not in (None, key):
            drop(self._kept)
        free = self._read_free()
        if needed + _SPARE > free:
            raise Unavailable(
                f"the past of this app takes about {needed >> 20:,} MB and {free >> 20:,} MB are free, so it is not "
                "loaded beside what serves; run `kiosk replay` on a machine with more memory",
                told=True,
            )
        self._is_busy = True
        self._kept = key
        try:
            yield
        finally:
            self._is_busy = False
