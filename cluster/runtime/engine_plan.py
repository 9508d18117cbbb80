"""Compute the target Serve applications of engines, and the next steps. Plain Python without Ray.

    moving to `own`    deploy -> its replicas answer -> API replicas route there
    moving to `door`   API replicas route back -> no requests for a while -> remove
    scaled             deploy again under the same name; replicas stay unless an argument of theirs changed
    deleted            remove

Steps follow only from the observed state, never from earlier steps, so the operator may die at any time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster.records.engine import Engine, EngineStatus, Placement

QUIET_MS = 4_000
"API replicas follow an engine's record within a second and report their requests every second."
PREFIX = "recommender."


@dataclass(frozen=True, slots=True)
class EngineApplication:
    """One Serve application of an engine as Serve reports it."""

    name: str
    ours: bool
    "Deployed by the operator; applications of a configuration file belong to its author."
    running: bool
    failed: bool = False
    ending: bool = False
    replicas: int = 0
    target: int = 0
    arguments: Mapping[str, Any] | None = None
    "The arguments of its build; None when unknown."
    message: str = ""

    @property
    def answers(self) -> bool:
        """Return whether at least one replica accepts queries."""
        return self.running and self.replicas > 0


@dataclass(frozen=True, slots=True)
class DeployEngine:
    """Build the engine's application, or rebuild it with other arguments."""

    engine: Engine


@dataclass(frozen=True, slots=True)
class RerouteEngine:
    """Route the engine's queries to `placement` from now on."""

    engine: Engine
    placement: Placement


@dataclass(frozen=True, slots=True)
class RemoveApplication:
    """Remove an application."""

    name: str


Step = DeployEngine | RerouteEngine | RemoveApplication


def plan_steps(
    engines: Sequence[Engine],
    seen: Mapping[str, EngineApplication],
    last_dedicated_ms: Mapping[str, int],
    now_ms: int,
) -> list[Step]:
    """Return the next steps. `seen` and `last_dedicated_ms` (last dedicated request) are by application name."""
    names = {engine.application for engine in engines}
    orphans = [
        RemoveApplication(application.name)
        for application in seen.values()
        if application.ours and not application.ending and application.name not in names
    ]
    return [
        # Applications of deleted engines. Those of a configuration file are left to its author.
        *orphans,
        *(step for engine in engines for step in _steps(engine, seen, last_dedicated_ms, now_ms)),
    ]


def _steps(
    engine: Engine, seen: Mapping[str, EngineApplication], last_dedicated_ms: Mapping[str, int], now_ms: int
) -> Iterator[Step]:
    application = seen.get(engine.application)
    if engine.target_placement == "own":
        # One that is ending can't be deployed again; a later round sees it gone and builds it.
        if application is None or (
            application.ours
            and not application.ending
            and application.arguments != engine.deployment_arguments()
        ):
            yield DeployEngine(engine)
        # Only when a replica answers: until then requests stay where they are answered now.
        elif engine.moving_to is not None and application.answers and not application.ending:
            yield RerouteEngine(engine, "own")
        return
    if engine.moving_to is not None:
        yield RerouteEngine(engine, "door")
    elif application is not None and application.ours and not application.ending:
        # An API replica that has not read the new record yet still sends queries to the application.
        busy_ms = max(engine.moved_at, last_dedicated_ms.get(engine.application, 0))
        # a clock that was set back must not keep an application permanently
        if not 0 <= now_ms - busy_ms < QUIET_MS:
            yield RemoveApplication(application.name)


def is_at_target(engine: Engine, seen: Mapping[str, EngineApplication]) -> bool:
    """Return whether the engine has its target placement and answers in it."""
    application = seen.get(engine.application)
    if engine.moving_to is not None:
        return False
    if engine.placement == "door":
        return application is None or not application.ours
    return (
        application is not None
        and application.answers
        and (not application.ours or application.arguments == engine.deployment_arguments())
    )


def engine_status(engine: Engine, application: EngineApplication | None, now_ms: int) -> EngineStatus | None:
    """Return the status of an engine's deployment; None when it has none and needs none."""
    if application is None and engine.target_placement == "door":
        return None
    state = "starting"
    replicas = 0
    target = 0
    message = ""
    if application is not None:
        replicas = application.replicas
        target = application.target
        message = application.message
        if application.ending or engine.target_placement == "door":
            state = "ending"
        elif application.failed:
            state = "failed"
        elif application.answers:
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
