"""Proof that locked records are no work for users without access: counted calls, and segments that refuse use."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable
from sys import setprofile
from types import FrameType
from typing import Any


def count_calls(work: Callable[..., object], *arguments: object) -> Counter[str]:
    """Return how often each function is called while the work is done a second time, those of C included."""
    calls = Counter[str]()

    def record(frame: FrameType, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            calls[frame.f_code.co_qualname if event == "call" else argument.__qualname__] += 1

    work(*arguments)
    # a collection calls finalizers of objects of other tests
    gc.disable()
    setprofile(record)
    try:
        work(*arguments)
    finally:
        setprofile(None)
        gc.enable()
    return calls


class Sealed:
    """A part of an index that may not be used; only the given facts may be read."""

    def __init__(self, **facts: object) -> None:
        self.__dict__.update(facts)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} of what is locked was used")

    def __len__(self) -> int:
        raise AssertionError("the size of what is locked was used")
