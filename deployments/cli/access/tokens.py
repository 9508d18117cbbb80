"""`kiosk tokens`: personal tokens for administration over HTTP."""

from __future__ import annotations

import typer

from deployments.cli.framework.operation_commands import OperationCommand, add_commands
from deployments.operations.access import personal_tokens

app = typer.Typer(help="Personal tokens: administration over HTTP.", no_args_is_help=True)

CREATE_EPILOG = """
[bold]Examples[/]

  kiosk tokens create "nightly report" --user ada
  kiosk tokens create deploy --user ada --role editor --app bookshop --days 30
  curl -H "Authorization: Bearer kat_..." http://127.0.0.1:8000/v1/admin/me
"""
REVOKE_EPILOG = """
[bold]Example[/]

  kiosk tokens revoke tok-1f0c5d2a9b3e     refused everywhere within a second
"""

COMMANDS = (
    OperationCommand(
        "create", "tokens.create", CREATE_EPILOG, {"name": "NAME", "username": "--user", "apps": "--app"}
    ),
    OperationCommand("list", "tokens.list", options={"everyone": ""}),
    OperationCommand("revoke", "tokens.revoke", REVOKE_EPILOG),
)
add_commands(app, COMMANDS, personal_tokens)
