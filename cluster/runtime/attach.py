"""`kiosk cluster attach`: create apps, keys and the five named actors on an existing Ray cluster.

The command then deploys the API replicas from a configuration in `cluster/serve/`. A second run creates only
what is missing. The command runs on a node of the cluster; the environment names Redis and the master key.
"""

from __future__ import annotations

import asyncio
import os
import sys

import structlog

from cluster.errors import KioskError
from cluster.log import set_up_logging
from cluster.process.identity_registration import mark_identity
from cluster.process.installation_identity_check import prepare_external_key
from cluster.process.signing_upgrade import sign_unsigned
from cluster.runtime.actors.actor_roles import assigner_role, engine_operator_role
from cluster.runtime.actors.named_actors import ensure_actor
from cluster.runtime.bootstrap import connect_ray, ensure_apps, leased_roles, start_schema
from cluster.runtime.start_plan import ASSIGNER, ENGINES, StartPlan
from cluster.settings import Settings


def main() -> int:
    """Create everything that is missing and return 0."""
    set_up_logging()
    settings = Settings()
    try:
        prepare_external_key(settings)
        # The schema, then the identity, then signatures: `bring_up` has the reasons.
        asyncio.run(start_schema(settings))
        asyncio.run(mark_identity(settings))
        asyncio.run(sign_unsigned(settings))
        fresh = asyncio.run(ensure_apps(settings))
        connect_ray(os.environ.get("RAY_ADDRESS", "auto"))
        leased = leased_roles(StartPlan("", 0, True, [], ""), settings)
        for actor in (*leased, assigner_role(ASSIGNER), engine_operator_role(ENGINES, leased)):
            ensure_actor(actor)
    except KioskError as error:
        structlog.get_logger().error("not_attached", reason=error.message)
        return 1
    structlog.get_logger().info("attached", first_start=fresh)
    return 0


if __name__ == "__main__":
    sys.exit(main())
