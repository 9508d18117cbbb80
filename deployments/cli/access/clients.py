"""`kiosk clients`: which clients may use the archive, and how often."""

from __future__ import annotations

from typing import Annotated

import typer

from cluster.records.archive_client import (
    DEFAULT_CALLS_PER_MINUTE,
    EVERYBODY,
    ClientRule,
    is_client_name,
)
from deployments.cli.frame import screen
from deployments.cli.frame.installation import Installation
from deployments.operations.access.archive_clients import (
    ArchiveChoice,
    ArchiveClients,
    ChangedClient,
    ForgottenClient,
)

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

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]
Client = Annotated[str, typer.Argument(help="Id, host:HOST, the name it claims, or * for everybody else.")]
AppName = Annotated[str, typer.Option("--app", help="The archive's app; default: the app that agents read.")]


@app.command("app")
def choose_app(
    name: Annotated[str, typer.Argument(help="The app that agents read from now on; empty: show it.")] = "",
    as_json: AsJson = False,
) -> None:
    """Show or choose the app that agents read; API replicas follow within a second."""
    installation = Installation()
    choice: ArchiveChoice = (
        installation.perform("archive.choose", app_id=name) if name else installation.perform("archive.app")
    )
    if as_json:
        screen.print_json(choice.to_dict())
        return
    screen.out().print(f"Agents read {choice.app_id}.")


def archive_app(installation: Installation) -> str:
    """Return the app that agents read."""
    choice: ArchiveChoice = installation.perform("archive.app")
    return choice.app_id


@app.command("list", epilog=EPILOG)
def list_clients(name: AppName = "", as_json: AsJson = False) -> None:
    """List rules, and who called within 30 days."""
    installation = Installation()
    app_id = name or archive_app(installation)
    listed: ArchiveClients = installation.perform("clients.list", app_id=app_id)
    if as_json:
        screen.print_json(listed.to_dict())
        return
    rules, seen = listed.rules, listed.seen
    table = screen.build_table("client", "may call", "calls per minute", title="Rules")
    if not any(rule.client == EVERYBODY for rule in rules):
        table.add_row("everybody else (*)", "yes", f"{DEFAULT_CALLS_PER_MINUTE:g} a person")
    for rule in rules:
        table.add_row(
            screen.quote_text(rule.client), "yes" if rule.decision == "allow" else "no", _rate(rule)
        )
    screen.out().print(table, "")
    table = screen.build_table("client", "calls", "ids", title="Callers of the last 30 days")
    for client in seen:
        table.add_row(screen.quote_text(client.name), str(client.calls), ", ".join(client.client_ids[:4]))
    screen.out().print(table if seen else "No calls within 30 days.")


@app.command("allow", epilog=EPILOG)
def allow(client: Client, name: AppName = "", as_json: AsJson = False) -> None:
    """Allow a client; API replicas apply it within a second."""
    _change("allow", client, name, as_json)


@app.command("deny", epilog=EPILOG)
def deny(client: Client, name: AppName = "", as_json: AsJson = False) -> None:
    """Refuse a client; API replicas apply it within a second."""
    _change("deny", client, name, as_json)


@app.command("rate", epilog=EPILOG)
def rate(
    client: Client,
    per_minute: Annotated[float, typer.Argument(help="Calls per minute; 0: no bound.", min=0)],
    name: AppName = "",
    as_json: AsJson = False,
) -> None:
    """Bound the calls of a client, all its people together; under * those of one person."""
    _change("rate", client, name, as_json, calls_per_minute=per_minute)


@app.command("forget")
def forget(client: Client, name: AppName = "", as_json: AsJson = False) -> None:
    """Remove the rule of a client."""
    installation = Installation()
    app_id = name or archive_app(installation)
    forgotten: ForgottenClient = installation.perform("clients.forget", app_id=app_id, client=client)
    if as_json:
        screen.print_json(forgotten.to_dict())
    else:
        screen.out().print(screen.quote_text(f"{client} has no rule any more."))


def _change(verb: str, client: str, name: str, as_json: bool, **more: object) -> None:
    installation = Installation()
    app_id = name or archive_app(installation)
    changed: ChangedClient = installation.perform(f"clients.{verb}", app_id=app_id, client=client, **more)
    if as_json:
        screen.print_json(changed.to_dict())
        return
    rule = changed.rule
    may = "may call" if rule.decision == "allow" else "is refused"
    screen.out().print(screen.quote_text(f"{rule.client} {may}; calls per minute: {_rate(rule)}."))
    if rule.decision == "allow" and is_client_name(rule.client):
        screen.out().print("Any client may give itself this name; host:HOST lets in only who answers there.")


def _rate(rule: ClientRule) -> str:
    if rule.calls_per_minute is None:
        return f"{DEFAULT_CALLS_PER_MINUTE:g} a person" if rule.client == EVERYBODY else "as *"
    if rule.calls_per_minute == 0:
        return "no bound"
    return f"{rule.calls_per_minute:g}" + (" a person" if rule.client == EVERYBODY else "")
