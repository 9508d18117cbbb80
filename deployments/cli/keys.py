"""`kiosk keys`: see, replace and revoke API keys."""

from __future__ import annotations

from typing import Annotated

import typer

from cluster.admin.key_admin import KINDS, KeyAdmin, KeyEntry
from cluster.clock import iso_ms
from cluster.errors import Invalid
from cluster.records.access import IssuedKey, KeyKind
from cluster.store.connect import OpenStores
from deployments.cli import screen
from deployments.cli.installation import Installation, read_clock_ms

app = typer.Typer(help="API keys: a secret and a publishable one per app.", no_args_is_help=True)

LIST_EPILOG = """
[bold]Examples[/]

  kiosk keys list                      names and hints only
  kiosk keys list --app development --reveal
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
    name: Annotated[str, typer.Option("--app", help="Only this app's keys.")] = "",
    reveal: Annotated[bool, typer.Option(help="Show the keys themselves.")] = False,
    as_json: AsJson = False,
) -> None:
    """List the keys in use."""

    async def read(keeping: KeyAdmin, stores: OpenStores) -> list[KeyEntry]:
        return await keeping.keys(app_id=name, reveal=reveal)

    entries = Installation().administer(read)
    if as_json:
        screen.print_json({"keys": [entry.to_dict() for entry in entries]})
        return
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
    kinds = _kinds(kind)

    async def change(keeping: KeyAdmin, stores: OpenStores) -> list[IssuedKey]:
        return await keeping.rotate(name, kinds, read_clock_ms())

    keys = {f"{key.record.kind}_key": key.text for key in Installation().administer(change)}
    if as_json:
        screen.print_json({"app_id": name, **keys})
        return
    screen.out().print(f"New keys of {name}; the old ones are refused from now on.")
    screen.print_lines(*(f"  {which:<16} {key}" for which, key in keys.items()))


@app.command("revoke", epilog=REVOKE_EPILOG)
def revoke(
    name: Annotated[str, typer.Argument(metavar="KEY", help="Key id (best), hint, or the key itself.")],
    as_json: AsJson = False,
) -> None:
    """Revoke one key for good."""

    async def change(keeping: KeyAdmin, stores: OpenStores) -> KeyEntry:
        return await keeping.revoke(name)

    entry = Installation().administer(change)
    if as_json:
        screen.print_json({"revoked": True, **entry.to_dict()})
        return
    screen.out().print(
        f"The {entry.key.kind} key {entry.key.hint} of {entry.app.app_id} is revoked. "
        f"`kiosk keys rotate {entry.app.app_id} --kind {entry.key.kind}` makes a new one."
    )


def _kinds(text: str) -> tuple[KeyKind, ...]:
    if text == "both":
        return KINDS
    for known in KINDS:
        if text == known:
            return (known,)
    raise Invalid(f"there is no kind of key called {text!r}; choose secret, publishable or both")
