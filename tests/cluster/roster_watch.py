"""Waiting for an actor that is found by its name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from cluster.deadline import run_within
from cluster.runtime.actors.actor_roles import STANDBY
from tests.suites.waiting import until

RELEASE = "test"


async def health_of(kind: str, is_so: Callable[[dict[str, Any]], bool] = bool) -> dict[str, Any]:
    """Wait until the health report of an actor satisfies `is_so`; return the report."""
    health: dict[str, Any] = {}

    async def has_state() -> bool:
        health.update(await read_health(kind, RELEASE) or {})
        return bool(health) and is_so(health)

    await until(has_state)
    return health


async def read_health(role: str, release: str) -> dict[str, Any] | None:
    """Return the health of a role's actor; None when it is absent or does not answer within five seconds.

    The stand-by's health is returned when it works in the actor's place.
    """
    first, second = await asyncio.gather(_health(role, release), _health(role + STANDBY, release))
    # After the first one's node died, the stand-by works, while the first may still be listed.
    return second if second is not None and (first is None or second.get("working")) else first


async def _health(role: str, release: str) -> dict[str, Any] | None:
    import ray

    from cluster.runtime.actors import named_actors

    handle = named_actors.find_actor(role, release)
    if handle is None:
        return None
    try:
        answer: dict[str, Any] = await run_within(handle.health.remote(), 5.0)
    except (asyncio.TimeoutError, ray.exceptions.RayError):
        return None
    return answer
