"""Define the named actors of an installation, and create them with their stand-bys.

Intake, trainer, tracker and engine operator hold a lease in Redis while they work. On a cluster of several
nodes each has a stand-by on another node. The stand-by is idle until it gets the lease, a few seconds after
the first actor's node died. Ray would need more than a minute to notice the dead node and to start the actor
elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from cluster.process.artifact_access import open_artifact_store, open_patient_artifact_store
from cluster.process.store_connections import open_actor_stores, open_serving_stores
from cluster.runtime.meter import RayMeter
from cluster.settings import Settings

ENGINE_OPERATOR = "cluster.runtime.engine_operator:EngineOperator"
STANDBY = "-standby"
"The suffix of a stand-by's role."


@dataclass(frozen=True, slots=True)
class ActorRole:
    """One named actor: its role, its class by import path, and the arguments of its constructor.

    Ray keeps the arguments, so they hold no secret: only functions that find one.
    """

    role: str
    kind: str
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


def intake_role(kind: str) -> ActorRole:
    """Return the role of the intake.

    It uses the multiplexed connection: over redis-py a batch of 10,000 records took half as long again.
    """
    return ActorRole("intake", kind, (open_serving_stores, open_artifact_store), {"meter": RayMeter})


def trainer_role(kind: str, settings: Settings) -> ActorRole:
    """Return the role of the trainer; its workers write below the data directory's `scratch`."""
    arguments = (open_actor_stores, open_patient_artifact_store, str(settings.data_dir / "scratch"))
    return ActorRole("trainer", kind, arguments, {"meter": RayMeter})


def assigner_role(kind: str) -> ActorRole:
    """Return the role of the actor that assigns variants to users."""
    return ActorRole("assigner", kind, (open_serving_stores,))


def tracker_role(kind: str, services: str) -> ActorRole:
    """Return the role of the actor that watches history threads; `services` is an import path."""
    return ActorRole("tracker", kind, (open_actor_stores, services, open_artifact_store), {"meter": RayMeter})


def engine_operator_role(build: str, leased: Sequence[ActorRole] = ()) -> ActorRole:
    """Return the role of the engine operator, which also keeps the stand-bys of `leased` and of itself."""
    return ActorRole("engines", ENGINE_OPERATOR, (open_actor_stores, build, tuple(leased)))


@dataclass(frozen=True, slots=True)
class StandbyStep:
    """A step for one role: create its stand-by on a node, or move it there from a wrong place."""

    kind: Literal["create", "move"]
    role: str
    node: str


def plan_standbys(
    roles: Sequence[str], places: Mapping[str, str], nodes: Mapping[str, int]
) -> list[StandbyStep]:
    """Return the steps that give each role a stand-by on another node.

        nodes   actor on     stand-by on   step
        a       a            -             none: there is no other node
        a b     a            -             create the stand-by on b
        a b     a            b             none
        a b     a            a             move it: Ray restarted one of them beside the other
        a b     (restarts)   b             none: the stand-by has the lease

    `places` maps an actor's role to the node on which it is alive. `nodes` maps each alive node to the number of
    Kiosk's actors on it; a stand-by goes to the node with the fewest.
    """
    counts = dict(nodes)
    steps = []
    for role in roles:
        first = places.get(role)
        second = places.get(role + STANDBY)
        if first is None or len(counts) < 2 or (second is not None and second != first):
            continue
        node = min(
            (candidate for candidate in counts if candidate != first),
            key=lambda candidate: (counts[candidate], candidate),
        )
        counts[node] += 1
        steps.append(StandbyStep("create" if second is None else "move", role, node))
    return steps
