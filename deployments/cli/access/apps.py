"""`kiosk apps`: make apps, list them, set their rate limits and switches."""

from __future__ import annotations

from typing import Annotated

import typer

from cluster.errors import Invalid
from deployments.cli.frame.installation import Installation
from deployments.cli.frame.operation_commands import OperationCommand, add_commands, print_result
from deployments.operations.access import apps
from deployments.operations.access.apps import AppDetails, AppLimits, AppSwitches

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

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]
COMMANDS = (
    OperationCommand("list", "apps.list"),
    OperationCommand("create", "apps.create", CREATE_EPILOG, {"app_id": "NAME"}),
    OperationCommand(
        "display-name", "apps.set_display_name", DISPLAY_NAME_EPILOG, {"display_name": "DISPLAY_NAME"}
    ),
)
add_commands(app, COMMANDS, apps)


@app.command("limit", epilog=LIMIT_EPILOG)
def limit(
    name: Annotated[str, typer.Argument(help="The app.")],
    queries: Annotated[float | None, typer.Option(help="Queries per second and key.", min=0.1)] = None,
    writes: Annotated[
        float | None, typer.Option(help="Uploads and deletes per second and key.", min=0.1)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show or change an app's rate limits."""
    given = {"queries_per_s": queries, "writes_per_s": writes}
    changes = {word: value for word, value in given.items() if value is not None}
    if changes:
        changed: AppLimits = Installation().perform("apps.set_limits", app_id=name, **changes)
    else:
        shown: AppDetails = Installation().perform("apps.get", app_id=name)
        changed = AppLimits(name, shown.app.settings.limits)
    print_result(changed, as_json)


@app.command("switch", epilog=SWITCH_EPILOG)
def switch(
    name: Annotated[str, typer.Argument(help="The app.")],
    changes: Annotated[list[str] | None, typer.Argument(help="SWITCH=VALUE, can be repeated.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show or change an app's switches; API replicas apply it within a second."""
    given: dict[str, str] = {}
    for change in changes or ():
        word, sign, value = change.partition("=")
        if not sign:
            raise Invalid(f"{change!r} is no SWITCH=VALUE; for example bot_rule=log")
        given[word.strip()] = value.strip()
    if given:
        changed: AppSwitches = Installation().perform("apps.set_switches", app_id=name, switches=given)
    else:
        shown: AppDetails = Installation().perform("apps.get", app_id=name)
        changed = AppSwitches(name, shown.app.settings)
    print_result(changed, as_json)
