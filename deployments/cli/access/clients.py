"""`kiosk clients`: which clients may use the archive, and how often."""

from __future__ import annotations

import typer

from deployments.cli.framework.operation_commands import OperationCommand, add_commands
from deployments.operations.access import archive_clients

app = typer.Typer(help="Clients of the archive: allow, deny, rate.", no_args_is_help=True)

EPILOG = """
A client is named by its id (c-...), by the host its answers go to (host:claude.ai), by the name it gives itself, or
by * for all that have no rule of their own. [bold]A name is the client's own claim: any client may give itself any
name.[/] Allow by host or id. A host is checked: only a program that answers there got in. host:localhost and
host:127.0.0.1 are all programs on people's own machines, host:cursor is the application of the scheme cursor:.

[bold]Examples[/]

  kiosk clients deny "Greedy Bot"
  kiosk clients deny '*' && kiosk clients allow host:claude.ai   only this one
  kiosk clients rate '*' 120                                   calls per minute and person
"""

CLIENT = {"app_id": "--app", "client": "CLIENT"}
COMMANDS = (
    OperationCommand("app", "archive.choose", for_all="archive.app"),
    OperationCommand("list", "clients.list", EPILOG, {"app_id": "--app"}, app_from="archive.app"),
    *(
        OperationCommand(word, f"clients.{word}", EPILOG, CLIENT, app_from="archive.app")
        for word in ("allow", "deny", "forget")
    ),
    OperationCommand(
        "rate",
        "clients.rate",
        EPILOG,
        {**CLIENT, "calls_per_minute": "PER_MINUTE"},
        app_from="archive.app",
    ),
)
add_commands(app, COMMANDS, archive_clients)
