"""`kiosk apps`: make apps, list them, set their rate limits and switches."""

from __future__ import annotations

import typer

from deployments.cli.framework.operation_commands import OperationCommand, add_commands
from deployments.operations.access import apps
from deployments.operations.access.apps import AppDetails

app = typer.Typer(help="Apps: data spaces with two keys each.", no_args_is_help=True)

CREATE_EPILOG = """
[bold]Examples[/]

  kiosk apps create bookshop --environment production
  kiosk apps create trial                              an app of the development environment
"""
DISPLAY_NAME_EPILOG = """
[bold]Example[/]

  kiosk apps display-name bookshop "The Book Shop"
"""
LIMIT_EPILOG = """
[bold]Example[/]

  kiosk apps limit bookshop --queries 200 --writes 50
"""
SWITCH_EPILOG = """
[bold]Examples[/]

  kiosk apps switch bookshop                                     show them all
  kiosk apps switch bookshop bot_rule=log strict_user_hash=true
"""

COMMANDS = (
    OperationCommand("list", "apps.list"),
    OperationCommand("create", "apps.create", CREATE_EPILOG, {"app_id": "NAME"}),
    OperationCommand(
        "display-name", "apps.set_display_name", DISPLAY_NAME_EPILOG, {"display_name": "DISPLAY_NAME"}
    ),
    OperationCommand(
        "limit",
        "apps.set_limits",
        LIMIT_EPILOG,
        {"queries_per_s": "--queries", "writes_per_s": "--writes"},
        shows="apps.get",
        view=AppDetails.limits,
    ),
    OperationCommand(
        "switch",
        "apps.set_switches",
        SWITCH_EPILOG,
        {"switches": "SWITCH=VALUE"},
        shows="apps.get",
        view=AppDetails.switches,
    ),
)
add_commands(app, COMMANDS, apps)
