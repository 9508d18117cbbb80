"""Keep a stand-by of each actor that holds a lease, on another node than the actor itself.

nodes   actor on   stand-by on   step
a       a          -             none: one node has nothing to stand by for
a b     a          -             create the stand-by on b
a b     a          b             none
a b     a          a             move it: Ray restarted one of them beside the other
a b     (restarts) b             none: the stand-by has the lease
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import ray
import structlog
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster.runtime.actors import named_actors
from cluster.runtime.actors.actor_roles import STANDBY, ActorRole, StandbyStep, plan_standbys

LOOK_S = 10.0
"Seconds between two looks at where the actors are."

_log = structlog.get_logger()


class StandbyKeeper:
    """Looks every ten seconds where the actors are, and takes the planned steps."""

    def __init__(self, actors: Sequence[ActorRole], release: str) -> None:
        self._actors = {actor.role: actor for actor in actors}
        self._release = release

    async def keep(self) -> list[StandbyStep]:
        """Take all steps once and return them."""
        return await asyncio.to_thread(self._keep)

    def _keep(self) -> list[StandbyStep]:
        places = named_actors.locate_actors(self._release)
        nodes = {node["NodeID"]: 0 for node in ray.nodes() if node["Alive"]}
        for node in places.values():
            if node in nodes:
                nodes[node] += 1
        # An actor whose node is gone is still listed as alive for a while.
        alive = {role: node for role, node in places.items() if node in nodes}
        steps = plan_standbys(list(self._actors), alive, nodes)
        for step in steps:
            self._execute(step)
        return steps

    def _execute(self, step: StandbyStep) -> None:
        actor = self._actors[step.role]
        role = step.role + STANDBY
        # Ray can't move an actor: it is ended and created elsewhere.
        if step.kind == "move":
            named_actors.kill_releases(role)
        named_actors.find_or_create(
            role,
            self._release,
            actor.kind,
            *actor.arguments,
            **actor.options,
            # hard: when that node dies, the stand-by ends, and the next look creates one elsewhere
            placement=NodeAffinitySchedulingStrategy(step.node, soft=False),
        )
        _log.info("standby_placed", role=step.role, node=step.node[:8], moved=step.kind == "move")
