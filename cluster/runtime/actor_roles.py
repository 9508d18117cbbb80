"""Keep the name valid of the roles that the engine operator of release 0.2.0 got; see `connecting`."""

from __future__ import annotations

from cluster.runtime.actors.actor_roles import ActorRole

__all__ = ["ActorRole"]
