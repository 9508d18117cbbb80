"""Waiting for an actor that is found by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.suites.waiting import until

RELEASE = "test"


async def health_of(kind: str, is_so: Callable[[dict[str, Any]], bool] = bool) -> dict[str, Any]:
    """Wait until the health report of an actor satisfies `is_so`; return the report."""
    from cluster.runtime.actors import roster

    health: dict[str, Any] = {}

    async def has_state() -> bool:
        health.update(await roster.read_health(kind, RELEASE) or {})
        return bool(health) and is_so(health)

    await until(has_state)
    return health
