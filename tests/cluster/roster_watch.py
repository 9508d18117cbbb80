"""Waiting for an actor that is found by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.suites.waiting import until

RELEASE = "test"


async def health_of(kind: str, is_so: Callable[[dict[str, Any]], bool] = bool) -> dict[str, Any]:
    """Wait until an actor says of itself what is wanted; return what it says."""
    from cluster.runtime import roster

    told: dict[str, Any] = {}

    async def says_so() -> bool:
        told.update(await roster.health(kind, RELEASE) or {})
        return bool(told) and is_so(told)

    await until(says_so)
    return told
