"""`kiosk keys`: see, replace and revoke API keys."""

from __future__ import annotations

from typing import Annotated

import typer

from cluster.errors import Invalid
from deployments.cli.framework.installation import Installation
from deployments.cli.framework.operation_commands import OperationCommand, add_commands, print_result
from deployments.operations.access import keys, user_token_revocation
from deployments.operations.access.keys import KeyList

app = typer.Typer(help="API keys: a secret and a publishable one per app.", no_args_is_help=True)

LIST_EPILOG = """
[bold]Examples[/]

  kiosk keys list                      names and hints only
  kiosk keys list development --reveal
"""
ROTATE_EPILOG = """
[bold]Examples[/]

  kiosk keys rotate development                  both keys
  kiosk keys rotate development --kind secret    only the secret one; tokens signed with it end too
"""
REVOKE_EPILOG = """
[bold]Example[/]

  kiosk keys revoke key-1f0c5d2a9b     refused everywhere within a second
"""

END_TOKENS_EPILOG = """
[bold]Example[/]

  kiosk keys end-tokens bookshop ada   tokens that your server signed for the user before now
"""


@app.command("list", epilog=LIST_EPILOG)
def list_keys(
    name: Annotated[str, typer.Argument(metavar="APP", help="Only this app's keys.")] = "",
    app_id: Annotated[str, typer.Option("--app", help="The same, as in earlier releases.")] = "",
    reveal: Annotated[bool, typer.Option(help="Show the keys themselves.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """List the keys in use."""
    if name and app_id and name != app_id:
        raise Invalid(f"name one app: {name} or {app_id}")
    name = name or app_id
    operation = "keys.reveal" if reveal else "keys.list"
    listed: KeyList = (
        Installation().perform(operation, app_id=name) if name else Installation().perform(f"{operation}_all")
    )
    print_result(listed, as_json)


COMMANDS = (
    OperationCommand("rotate", "keys.rotate", ROTATE_EPILOG),
    OperationCommand("revoke", "keys.revoke_any", REVOKE_EPILOG, {"key": "KEY"}),
    OperationCommand("end-tokens", "users.end_tokens", END_TOKENS_EPILOG, {"user_id": "USER"}),
)
add_commands(app, COMMANDS, keys, user_token_revocation)
