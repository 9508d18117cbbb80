"""Pauses of threads that work beside the event loop: the loop answers for others meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from cluster.clock import Clock

BESIDE_S: Final = 0.0012
"How long a thread works between two pauses."
# a moment of sleep hands the interpreter to the event loop
_PAUSE = partial(time.sleep, 0.0002)


def make_pause(clock: Clock) -> Callable[[], None]:
    """Return a function that a thread calls between short steps; it pauses once in about a millisecond."""
    monotonic_s = clock.monotonic_s
    until_s = monotonic_s() + BESIDE_S

    def pause() -> None:
        nonlocal until_s
        if monotonic_s() >= until_s:
            _PAUSE()
            until_s = monotonic_s() + BESIDE_S

    return pause


def run_with_pauses(steps: Iterator[None], clock: Clock) -> None:
    """Run all steps, with pauses that release the interpreter."""
    pause = make_pause(clock)
    for _ in steps:
        pause()
