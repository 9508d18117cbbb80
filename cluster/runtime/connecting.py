"""Keep the names valid by which actors that release 0.2.0 created open their stores.

Ray starts an actor again with the arguments that its release gave it, in a rolling upgrade also on a node of this one.
"""

from __future__ import annotations

from cluster.process.store_connections import open_actor_stores as connect_actor
from cluster.process.store_connections import open_serving_stores as connect_serving_actor

__all__ = ["connect_actor", "connect_serving_actor"]
