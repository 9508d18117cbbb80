"""Becoming a driver of the installation's Ray, for commands that fan work out."""

from __future__ import annotations

import os

from cluster.runtime.ray_environment import driver_environment
from deployments.cli import screen
from deployments.cli.installation import Installation


def connect_to_ray(installation: Installation) -> bool:
    """Connect to the running installation's Ray; False when it does not run, or its Ray can't be reached.

    What Ray reads from the environment must stand there before it is imported.
    """
    state = installation.state
    if state is None or not state.ray_address:
        return False
    os.environ |= driver_environment(installation.places)
    from cluster.runtime.bootstrap import connect_ray

    try:
        connect_ray(state.ray_address)
    except (ConnectionError, RuntimeError, ValueError) as error:
        screen.err().print(f"Ray can't be reached ({error}); the work is done here instead.")
        return False
    return True
