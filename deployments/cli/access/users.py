"""`kiosk users`: who may sign in, and what they allowed."""

from __future__ import annotations

from typing import Annotated

import typer

from cluster.errors import Invalid
from deployments.cli.framework.installation import Installation
from deployments.cli.framework.operation_commands import OperationCommand, add_commands, print_result
from deployments.operations.access import invitations, people, tiers
from deployments.operations.access.people import AccountDetails

app = typer.Typer(help="Accounts: who may sign in and connect agents.", no_args_is_help=True)

CREATE_EPILOG = """
[bold]Examples[/]

  kiosk users create ada                           a password is made up and shown once
  echo "$PASSWORD" | kiosk users create ada --password-stdin
  kiosk users create grace --role administrator
"""
DISABLE_EPILOG = """
[bold]Example[/]

  kiosk users disable ada      cannot sign in; connected agents are refused within a second
"""
TIERS_EPILOG = """
[bold]Examples[/]

  kiosk users set-tiers ada --tier subscriber --until 2027-01-01
  kiosk users set-tiers ada                    the subscription has ended; agents lose locked articles within a second
  kiosk users tiers ada
"""
DELETE_EPILOG = """
[bold]Example[/]

  kiosk users delete ada       account, sign-ins and connections are gone; the last administrator stays
"""
FRESH_EPILOG = """
[bold]Example[/]

  kiosk users password ada     a new one is made up and shown once; old sign-ins and connections end
"""
INVITE_EPILOG = """
[bold]Examples[/]

  kiosk users invite ada --role-in bookshop=editor     a link that works once, for 72 hours
  kiosk users invite --role administrator --hours 4    the invited person chooses the user name
  kiosk users invitations                              list them
  kiosk users revoke-invitation inv-1f0c5d2a9b3e
"""
CLIENTS_EPILOG = """
[bold]Examples[/]

  kiosk users clients ada                          agents she connected
  kiosk users disconnect ada g1f0c5d2a9b...        end one connection
  kiosk users disconnect ada                       end all of them
"""

ROLES_EPILOG = """
[bold]Examples[/]

  kiosk users roles ada                             show them
  kiosk users roles ada bookshop=editor news=viewer
  kiosk users roles ada bookshop=                   take the role away
"""
RESET_EPILOG = """
[bold]Example[/]

  kiosk users reset-second-factor ada
"""

NAMED = {"username": "NAME"}
WITH_PASSWORD = {**NAMED, "password": "--password-stdin"}
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The user name.")]


@app.command("roles", epilog=ROLES_EPILOG)
def roles(
    name: Name,
    changes: Annotated[
        list[str] | None, typer.Argument(help="APP=ROLE, can be repeated; APP= takes the role away.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show or change the roles of a person: viewer, analyst, editor or owner of an app."""
    installation = Installation()
    for change in changes or ():
        app_id, role = _parse_role(change)
        if role:
            installation.perform("people.grant_role", app_id=app_id, username=name, role=role)
        else:
            installation.perform("people.revoke_role", app_id=app_id, username=name)
    person: AccountDetails = installation.perform("people.get", username=name)
    print_result(person.roles(), as_json)


def _parse_role(change: str) -> tuple[str, str]:
    app_id, sign, role = change.partition("=")
    if not sign or not app_id:
        raise Invalid(f"{change!r} is no APP=ROLE; for example bookshop=editor")
    return app_id, role


COMMANDS = (
    OperationCommand("create", "people.create", CREATE_EPILOG, WITH_PASSWORD),
    OperationCommand(
        "invite", "invitations.create", INVITE_EPILOG, {"username": "NAME", "roles": "--role-in"}
    ),
    OperationCommand("revoke-invitation", "invitations.revoke", options={"invitation_id": "INVITATION"}),
    OperationCommand("password", "people.set_password", FRESH_EPILOG, WITH_PASSWORD),
    OperationCommand("list", "people.list"),
    OperationCommand("disable", "people.lock", DISABLE_EPILOG, NAMED),
    OperationCommand("delete", "people.delete", DELETE_EPILOG, NAMED),
    OperationCommand("enable", "people.unlock", options=NAMED),
    OperationCommand("clients", "people.list_connections", CLIENTS_EPILOG, NAMED),
    OperationCommand(
        "disconnect", "people.disconnect", CLIENTS_EPILOG, {**NAMED, "connection": "CONNECTION"}
    ),
    OperationCommand("invitations", "invitations.list"),
    OperationCommand("tiers", "tiers.show", TIERS_EPILOG, NAMED),
    OperationCommand(
        "set-tiers", "tiers.set", TIERS_EPILOG, {**NAMED, "tiers": "--tier"}, defaults={"tiers": ()}
    ),
    OperationCommand("reset-second-factor", "people.reset_second_factor", RESET_EPILOG, NAMED),
)
add_commands(app, COMMANDS, people, invitations, tiers)
