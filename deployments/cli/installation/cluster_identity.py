"""`kiosk cluster adopt`: the key and the artifact store of this machine become those of the installation."""

from __future__ import annotations

import asyncio
from typing import Annotated

import typer

from cluster.errors import Invalid
from deployments.cli.framework import screen
from deployments.cli.framework.installation import Installation

ADOPT_EPILOG = """
[bold]Example[/]

  kiosk cluster adopt --yes      after an artifact store was restored into a new bucket or folder

API keys that another master key sealed stay unreadable.
"""


def register_commands(app: typer.Typer) -> None:
    """Add the command to the group `kiosk cluster`."""
    app.command("adopt", epilog=ADOPT_EPILOG)(adopt_local_identity)


def adopt_local_identity(
    yes: Annotated[bool, typer.Option("--yes", help="Do it.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Make this machine's artifact store and master key those of the installation, after either was replaced."""
    # Imported here: every other command starts faster without it.
    from cluster.process.identity_registration import adopt_identity

    installation = Installation()
    if not yes:
        raise Invalid(
            "every process with another key or artifact store is refused afterwards; if so, add --yes"
        )

    async def run() -> str:
        async with installation.open_stores(matching=False) as stores:
            return (await adopt_identity(stores, installation.settings)).installation_id

    installation_id = asyncio.run(run())
    if as_json:
        screen.print_json({"installation_id": installation_id})
        return
    address = installation.settings.artifacts_address
    screen.print_lines(f"{address} belongs to installation {installation_id} from now on.")
