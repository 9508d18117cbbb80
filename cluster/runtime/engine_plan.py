"""Which Serve applications engines should have, and the next steps towards that. Plain Python; no Ray in here.

    moving to `own`    deploy -> its replicas answer -> doors are sent there
    moving to `door`   doors are sent back -> nobody has asked for a while -> remove
    scaled             deploy again under the same name; replicas stay unless what one of them takes changed
    deleted            remove

Steps are worked out from what is seen, never from what was done before, so whoever takes them may die at any time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster.records.engine import Engine, EngineStatus, Placement

QUIET_MS = 4_000
"Doors follow an engine's record within a second and tell every second how often they asked."
PREFIX = "recommender."


@dataclass(frozen=True, slots=True)
class EngineApplication:
    """One Serve application of an engine as Serve tells it."""

    name: str
    ours: bool
    "Deployed by us; what stands in a configuration file belongs to whoever wrote that."
    running: bool
    failed: bool = False
    ending: bool = False
    replicas: int = 0
    target: int = 0
    arguments: Mapping[str, Any] | None = None
    "It was built with; None when that is not known."
    message: str = ""

    @property
    def answers(self) -> bool:
        """Does at least one replica take queries?"""
        return self.running and self.replicas > 0


@dataclass(frozen=True, slots=True)
class DeployEngine:
    """Build the engine's application, or build it anew with other arguments."""

    engine: Engine


@dataclass(frozen=True, slots=True)
class RouteEngine:
    """Route the engine's queries to `placement` from now on."""

    engine: Engine
    placement: Placement


@dataclass(frozen=True, slots=True)
class RemoveApplication:
    """Take an application away."""

    name: str


Step = DeployEngine | RouteEngine | RemoveApplication


def plan_steps(
    engines: Sequence[Engine],
    seen: Mapping[str, EngineApplication],
    last_own_ms: Mapping[str, int],
    now_ms: int,
) -> list[Step]:
    """Work out what to do next. `seen` and `last_own_ms` (asked in its own place) go by application name."""
    names = {engine.application for engine in engines}
    orphans = [
        RemoveApplication(one.name)
        for one in seen.values()
        if one.ours and not one.ending and one.name not in names
    ]
    return [*orphans, *(step for engine in engines for step in _steps(engine, seen, last_own_ms, now_ms))]


def _steps(
    engine: Engine, seen: Mapping[str, EngineApplication], last_own_ms: Mapping[str, int], now_ms: int
) -> Iterator[Step]:
    one = seen.get(engine.application)
    if engine.target_placement == "own":
        if one is None or (one.ours and not one.ending and one.arguments != engine.deployment_arguments()):
            yield DeployEngine(engine)
        elif engine.moving_to is not None and one.answers and not one.ending:
            yield RouteEngine(engine, "own")
        return
    if engine.moving_to is not None:
        yield RouteEngine(engine, "door")
    elif one is not None and one.ours and not one.ending:
        busy_ms = max(engine.moved_at, last_own_ms.get(engine.application, 0))
        # a clock that was set back must not keep an application for ever
        if not 0 <= now_ms - busy_ms < QUIET_MS:
            yield RemoveApplication(one.name)


def is_at_target(engine: Engine, seen: Mapping[str, EngineApplication]) -> bool:
    """Is the engine where it is meant to be, and does it answer there?"""
    one = seen.get(engine.application)
    if engine.moving_to is not None:
        return False
    if engine.placement == "door":
        return one is None or not one.ours
    return (
        one is not None and one.answers and (not one.ours or one.arguments == engine.deployment_arguments())
    )


def engine_status(engine: Engine, one: EngineApplication | None, now_ms: int) -> EngineStatus | None:
    """Return the status of an engine's deployment; None when it has none and needs none."""
    if one is None and engine.target_placement == "door":
        return None
    state, replicas, target, message = "starting", 0, 0, ""
    if one is not None:
        replicas, target, message = one.replicas, one.target, one.message
        if one.ending or engine.target_placement == "door":
            state = "ending"
        elif one.failed:
            state = "failed"
        elif one.answers:
            state = "running"
    return EngineStatus(
        app_id=engine.app_id,
        engine_id=engine.engine_id,
        state=state,
        replicas=replicas,
        target=target,
        message=message,
        at=now_ms,
    )
