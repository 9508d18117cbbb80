"""`kiosk clients`: which clients may use the archive, and how often."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import ValidationError

from cluster.admin.key_admin import KeyAdmin
from cluster.errors import Invalid, NotFound
from cluster.records.archive_client import (
    DEFAULT_CALLS_PER_MINUTE,
    EVERYBODY,
    ClientRule,
    fold_client_name,
    is_client_name,
)
from cluster.store.connect import OpenStores
from deployments.cli import screen
from deployments.cli.installation import Installation, read_clock_ms
from deployments.cli.report import parse_span_ms
from deployments.operations.archive_report import ClientUsage, build_archive_report

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
AppName = Annotated[str, typer.Option("--app", help="The archive's app; default: KIOSK_ARCHIVE_APP.")]


@app.command("list", epilog=EPILOG)
def list_clients(name: AppName = "", as_json: AsJson = False) -> None:
    """List rules, and who called within 30 days."""
    installation = Installation()
    app_id = name or installation.settings.archive_app
    until = read_clock_ms()
    since = until - parse_span_ms("30d")

    async def read(keeping: KeyAdmin, stores: OpenStores) -> tuple[list[ClientRule], list[ClientUsage]]:
        rules = await stores.client_rules.all(app_id)
        calls = await stores.archive_calls.read_since(app_id, since)
        seen = build_archive_report(calls, since=since, until=until, top=1000).clients
        return [rule for _, rule in sorted(rules.items())], seen

    rules, seen = installation.administer(read)
    if as_json:
        callers = [
            {"client_name": one.name, "client_ids": list(one.client_ids), "calls": one.calls} for one in seen
        ]
        screen.print_json({"app_id": app_id, "rules": [rule.model_dump() for rule in rules], "seen": callers})
        return
    table = screen.build_table("client", "may call", "calls per minute", title="Rules")
    if not any(rule.client == EVERYBODY for rule in rules):
        table.add_row("everybody else (*)", "yes", f"{DEFAULT_CALLS_PER_MINUTE:g} a person")
    for rule in rules:
        table.add_row(
            screen.quote_text(rule.client), "yes" if rule.decision == "allow" else "no", _rate(rule)
        )
    screen.out().print(table, "")
    table = screen.build_table("client", "calls", "ids", title="Callers of the last 30 days")
    for one in seen:
        table.add_row(screen.quote_text(one.name), str(one.calls), ", ".join(one.client_ids[:4]))
    screen.out().print(table if seen else "Nobody called within 30 days.")


@app.command("allow", epilog=EPILOG)
def allow(client: Client, name: AppName = "", as_json: AsJson = False) -> None:
    """Allow a client; API replicas apply it within a second."""
    _change(client, name, as_json, decision="allow")


@app.command("deny", epilog=EPILOG)
def deny(client: Client, name: AppName = "", as_json: AsJson = False) -> None:
    """Refuse a client; API replicas apply it within a second."""
    _change(client, name, as_json, decision="deny")


@app.command("rate", epilog=EPILOG)
def rate(
    client: Client,
    per_minute: Annotated[float, typer.Argument(help="Calls per minute; 0: no bound.", min=0)],
    name: AppName = "",
    as_json: AsJson = False,
) -> None:
    """Bound the calls of a client, all its people together; under * those of one person."""
    _change(client, name, as_json, calls_per_minute=per_minute)


@app.command("forget")
def forget(client: Client, name: AppName = "", as_json: AsJson = False) -> None:
    """Remove the rule of a client."""
    installation = Installation()
    app_id = name or installation.settings.archive_app

    async def remove(keeping: KeyAdmin, stores: OpenStores) -> bool:
        return await stores.client_rules.remove(app_id, client)

    if not installation.administer(remove):
        raise NotFound("there is no rule for this client; see `kiosk clients list`")
    if as_json:
        screen.print_json({"app_id": app_id, "client": client, "forgotten": True})
    else:
        screen.out().print(screen.quote_text(f"{client} has no rule any more."))


def _change(client: str, name: str, as_json: bool, **change: object) -> None:
    installation = Installation()
    app_id = name or installation.settings.archive_app

    async def put(keeping: KeyAdmin, stores: OpenStores) -> ClientRule:
        known = (await stores.client_rules.all(app_id)).get(fold_client_name(client))
        try:
            rule = ClientRule.model_validate(
                {**(known.model_dump() if known else {}), "client": client.strip(), **change}
            )
        except ValidationError as error:
            raise Invalid("a client's name has 1 to 200 characters") from error
        await stores.client_rules.put(app_id, rule)
        return rule

    rule = installation.administer(put)
    if as_json:
        screen.print_json({"app_id": app_id, **rule.model_dump()})
        return
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
