"""Names of actors, with the release in the name: find or create, look, and sweep away old releases.

A detached actor outlives whoever made it and would go on running old code under a well-known name; so the
release is part of the name (`<role>@<release>`), and whoever starts a release sweeps the others.

    handle = find_or_create("intake", release, "actors.intake.host:IntakeHost", connect, open_artifact_store)
    sweep("intake", keep=release)

Actors are restarted by Ray for ever and take no processor share. Their classes are plain; they are named by
import path, so that nobody here imports an actor. Arguments are kept by Ray and may be shown by its tools:
never pass a password, pass a function that finds it in the actor's own process.
"""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

import ray
import structlog
from ray.util import list_named_actors

NAMESPACE = "kiosk"


def actor_name(role: str, release: str) -> str:
    """Name the actor of a role in a release."""
    return f"{role}@{release}"


def find_or_create(role: str, release: str, kind: str, *args: Any, **kwargs: Any) -> Any:
    """Return the handle of a role's actor; make it when it is not there.

    `kind` is `package.module:Class`. An actor that is already there keeps the arguments it was made with.
    """
    module, _, name = kind.partition(":")
    plain = getattr(importlib.import_module(module), name)
    return (
        ray.remote(plain)
        .options(
            name=actor_name(role, release),
            namespace=NAMESPACE,
            lifetime="detached",
            get_if_exists=True,
            max_restarts=-1,
            num_cpus=0,
            max_concurrency=16,
        )
        .remote(*args, **kwargs)
    )


def find(role: str, release: str) -> Any | None:
    """Return the handle of a role's actor, None when there is none."""
    try:
        return ray.get_actor(actor_name(role, release), namespace=NAMESPACE)
    except ValueError:
        return None


async def health(role: str, release: str, within_s: float = 5.0) -> dict[str, Any] | None:
    """Ask a role's actor how it is; None when there is none or it does not say in time."""
    handle = find(role, release)
    if handle is None:
        return None
    try:
        answer: dict[str, Any] = await asyncio.wait_for(handle.health.remote(), within_s)
    except (asyncio.TimeoutError, ray.exceptions.RayError):
        return None
    return answer


def sweep(role: str, *, keep: str = "") -> list[str]:
    """Kill the role's actors of all releases but one (`keep`); return their names."""
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
            ray.kill(ray.get_actor(name, namespace=NAMESPACE), no_restart=True)
        except ValueError:  # gone meanwhile
            continue
        swept.append(name)
        log.info("actor_swept", actor=name)
    return swept
