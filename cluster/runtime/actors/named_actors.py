"""Names of actors with the release in the name: find, create, and remove those of old releases.

A detached actor outlives its creator and would keep running old code under a well-known name. So the release is
part of the name (`<role>@<release>`), and the start of a release kills the others.

    handle = find_or_create("intake", release, "actors.intake.host:IntakeHost", connect, open_artifact_store)
    kill_releases("intake", keep=release)

Ray restarts actors for ever; they reserve no CPU. Their classes are plain and named by import path, so that this
module imports no actor. Ray keeps arguments and its tools may show them:
never pass a password, pass a function that finds it in the actor's own process.
"""

from __future__ import annotations

import importlib
from typing import Any

import ray
import structlog
from ray.util import list_named_actors

from cluster.build_info import installed_version
from cluster.runtime.actors.actor_roles import STANDBY, ActorRole

NAMESPACE = "kiosk"


def actor_name(role: str, release: str) -> str:
    """Return the name of a role's actor in a release."""
    return f"{role}@{release}"


def find_or_create(
    role: str, release: str, kind: str, *args: Any, placement: Any = None, **kwargs: Any
) -> Any:
    """Return the handle of a role's actor; create it when it is absent.

    `kind` is `package.module:Class`; `placement` is a scheduling strategy of Ray. An existing actor keeps its
    arguments and its node.
    """
    module, _, name = kind.partition(":")
    plain = getattr(importlib.import_module(module), name)
    # `get_if_exists`: of several processes that create at once, one wins, and all get its handle.
    return (
        ray.remote(plain)
        .options(
            name=actor_name(role, release),
            namespace=NAMESPACE,
            # Else it would end with the bootstrap process that creates it.
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            # An actor must start also where replicas have reserved all processors.
            num_cpus=0,
            max_concurrency=16,
            scheduling_strategy=placement,
        )
        .remote(*args, **kwargs)
    )


def ensure_actor(actor: ActorRole) -> Any:
    """Return the handle of a role's actor of this release; create it, and end those of other releases."""
    release = installed_version()
    # Ended first, or two releases of one role would run beside each other.
    kill_releases(actor.role, keep=release)
    kill_releases(actor.role + STANDBY, keep=release)
    return find_or_create(actor.role, release, actor.kind, *actor.arguments, **actor.options)


def find_actor(role: str, release: str) -> Any | None:
    """Return the handle of a role's actor, None when it is absent."""
    try:
        return ray.get_actor(actor_name(role, release), namespace=NAMESPACE)
    except ValueError:
        return None


def locate_actors(release: str) -> dict[str, str]:
    """Return the node of each alive named actor of a release, by role."""
    end = "@" + release
    return {
        actor["Name"].removesuffix(end): actor["Address"]["NodeID"]
        for actor in ray._private.state.actors().values()
        if actor["State"] == "ALIVE" and actor["Name"].endswith(end)
    }


def kill_releases(role: str, *, keep: str = "") -> list[str]:
    """Kill the role's actors of all releases, except those of release `keep`; return their names."""
    log = structlog.get_logger()
    swept = []
    for actor in list_named_actors(all_namespaces=True):
        name = actor["name"]
        if (
            actor["namespace"] != NAMESPACE
            or not name.startswith(role + "@")
            or name == actor_name(role, keep)
        ):
            continue
        try:
            # Without `no_restart` Ray starts it again at once (`max_restarts`).
            ray.kill(ray.get_actor(name, namespace=NAMESPACE), no_restart=True)
        except ValueError:  # it ended meanwhile
            continue
        swept.append(name)
        log.info("actor_swept", actor=name)
    return swept
