"""`kiosk apps`: make apps, list them, set their rate limits and switches."""

from __future__ import annotations

from typing import Annotated

import typer

from cluster.admin.key_admin import FIRST_APPS
from cluster.errors import Invalid
from cluster.records.access import SWITCHES
from deployments.cli.frame import screen
from deployments.cli.frame.installation import Installation
from deployments.operations.access.apps import AppDetails, AppLimits, AppList, AppSwitches, NewKeys

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

PROOF_CHOICE = (
    "With the publishable key, a user_id needs its user_hash; the anonymous_id of a visitor needs no proof. To ask for "
    "one, once your pages send anonymous_hash: kiosk apps switch {} strict_user_hash=true"
)

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]


@app.command("list")
def list_apps(as_json: AsJson = False) -> None:
    """List all apps."""
    listed: AppList = Installation().perform("apps.list")
    if as_json:
        screen.print_json(listed.to_dict())
        return
    found = listed.apps
    table = screen.build_table("app", "display name", "environment", "queries/s", "writes/s", "")
    for one in found:
        limits = one.settings.limits
        note = "read-only" if one.read_only else ""
        table.add_row(
            one.app_id,
            one.display_name,
            one.environment,
            f"{limits.queries_per_s:g}",
            f"{limits.writes_per_s:g}",
            note,
        )
    screen.out().print(table if found else "There are no apps yet; `kiosk up` makes the first three.")


@app.command("create", epilog=CREATE_EPILOG)
def create(
    name: Annotated[str, typer.Argument(help="Up to 64 lower case letters, digits and -.")],
    environment: Annotated[str, typer.Option(help=f"One of {', '.join(FIRST_APPS)}.")] = "development",
    display_name: Annotated[str, typer.Option(help="The name that the console shows; default: the id.")] = "",
    as_json: AsJson = False,
) -> None:
    """Make an app with a secret and a publishable key; API replicas know it within a second."""
    made: NewKeys = Installation().perform(
        "apps.create", app_id=name, environment=environment, display_name=display_name
    )
    if as_json:
        screen.print_json(made.to_dict())
        return
    screen.out().print(f"App {name} is made.")
    screen.print_lines(*(f"  {kind:<16} {key}" for kind, key in made.keys.items()))
    if environment == "production":
        screen.out().print(PROOF_CHOICE.format(name), soft_wrap=True)


@app.command("display-name", epilog=DISPLAY_NAME_EPILOG)
def set_display_name(
    name: Annotated[str, typer.Argument(help="The app.")],
    display_name: Annotated[str, typer.Argument(help="The name that the console shows; empty: the id.")],
    as_json: AsJson = False,
) -> None:
    """Change the name that the console shows for an app; programs keep the id."""
    changed: AppDetails = Installation().perform(
        "apps.set_display_name", app_id=name, display_name=display_name
    )
    if as_json:
        screen.print_json(changed.to_dict())
        return
    screen.out().print(f"The console shows {changed.app.display_name or name}.")


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
    if as_json:
        screen.print_json(changed.to_dict())
        return
    limits = changed.limits
    screen.out().print(
        f"{name}: {limits.queries_per_s:g} queries/s (burst {limits.query_burst}), "
        f"{limits.writes_per_s:g} writes/s (burst {limits.write_burst})"
    )


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
    told = changed.to_dict()
    if as_json:
        screen.print_json(told)
        return
    table = screen.build_table("switch", "value", "means")
    for word in SWITCHES:
        table.add_row(word, _format_switch(told[word]), SWITCHES[word])
    screen.out().print(table)


def _format_switch(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple | list) else str(value)
