"""`kiosk keys`: see, replace and revoke API keys."""

from __future__ import annotations

from typing import Annotated

import typer

from cluster.clock import iso_ms
from cluster.errors import Invalid
from deployments.cli.frame import screen
from deployments.cli.frame.installation import Installation
from deployments.operations.access.apps import NewKeys
from deployments.operations.access.keys import KeyList, RevokedKey

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

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]


@app.command("list", epilog=LIST_EPILOG)
def list_keys(
    name: Annotated[str, typer.Argument(metavar="APP", help="Only this app's keys.")] = "",
    app_id: Annotated[str, typer.Option("--app", help="The same, as in earlier releases.")] = "",
    reveal: Annotated[bool, typer.Option(help="Show the keys themselves.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the keys in use."""
    if name and app_id and name != app_id:
        raise Invalid(f"name one app: {name} or {app_id}")
    name = name or app_id
    operation = "keys.reveal" if reveal else "keys.list"
    listed: KeyList = (
        Installation().perform(operation, app_id=name) if name else Installation().perform(f"{operation}_all")
    )
    if as_json:
        screen.print_json(listed.to_dict())
        return
    entries = listed.entries
    table = screen.build_table("app", "kind", "key id", "key", "made")
    for entry in entries:
        key = entry.key
        table.add_row(
            entry.app.app_id, key.kind, key.key_id, entry.text or key.hint, iso_ms(key.created_at)[:19]
        )
    screen.out().print(table if entries else "There are no keys yet; `kiosk up` makes the first ones.")


@app.command("rotate", epilog=ROTATE_EPILOG)
def rotate(
    name: Annotated[str, typer.Argument(help="The app.")],
    kind: Annotated[str, typer.Option(help="secret, publishable or both.")] = "both",
    as_json: AsJson = False,
) -> None:
    """Replace keys: the new ones work and the old ones are refused within a second."""
    made: NewKeys = Installation().perform("keys.rotate", app_id=name, kind=kind)
    if as_json:
        screen.print_json(made.to_dict())
        return
    screen.out().print(f"New keys of {name}; the old ones are refused from now on.")
    screen.print_lines(*(f"  {which:<16} {key}" for which, key in made.keys.items()))


@app.command("revoke", epilog=REVOKE_EPILOG)
def revoke(
    name: Annotated[str, typer.Argument(metavar="KEY", help="Key id (best), hint, or the key itself.")],
    as_json: AsJson = False,
) -> None:
    """Revoke one key for good."""
    revoked: RevokedKey = Installation().perform("keys.revoke_any", key=name)
    if as_json:
        screen.print_json(revoked.to_dict())
        return
    entry = revoked.entry
    screen.out().print(
        f"The {entry.key.kind} key {entry.key.hint} of {entry.app.app_id} is revoked. "
        f"`kiosk keys rotate {entry.app.app_id} --kind {entry.key.kind}` makes a new one."
    )
