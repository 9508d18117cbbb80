"""`kiosk users`: who may sign in, and what they allowed."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from cluster.errors import Invalid
from cluster.records.administration import ROLE_TEXTS
from deployments.cli.frame import screen
from deployments.cli.frame.installation import Installation
from deployments.cli.frame.operation_commands import OperationCommand, add_commands
from deployments.operations.access import invitations, people, tiers
from deployments.operations.access.invitations import NewInvitation
from deployments.operations.access.people import AccountDetails, PersonChange

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
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The user name.")]
FromInput = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from the first line of standard input.")
]

Temporary = Annotated[
    bool, typer.Option("--temporary", help="The person chooses another password at the next sign-in.")
]


@app.command("create", epilog=CREATE_EPILOG)
def create(
    name: Name,
    role: Annotated[str, typer.Option(help="reader or administrator.")] = "reader",
    password_stdin: FromInput = False,
    temporary: Temporary = False,
    as_json: AsJson = False,
) -> None:
    """Make an account; `kiosk users invite` lets the person choose the password."""
    given = _read_password(password_stdin)
    made: AccountDetails = Installation().perform(
        "people.create", username=name, role=role, password=given, temporary=temporary
    )
    if as_json:
        screen.print_json(made.to_dict())
        return
    screen.out().print(f"{made.account.username} may sign in now.")
    if made.password:
        screen.print_lines(f"  password  {made.password}   (shown this once)")


@app.command("invite", epilog=INVITE_EPILOG)
def invite(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="The user name; default: they choose it.")
    ] = "",
    role: Annotated[str, typer.Option(help="reader or administrator.")] = "reader",
    role_in: Annotated[
        list[str] | None, typer.Option(help="APP=ROLE, can be repeated: viewer, analyst, editor or owner.")
    ] = None,
    hours: Annotated[int, typer.Option(help="Hours until the link expires.", min=1, max=168)] = 72,
    as_json: AsJson = False,
) -> None:
    """Invite a person by a link that works once; they choose the password."""
    roles = dict(_parse_role(change) for change in role_in or ())
    made: NewInvitation = Installation().perform(
        "invitations.create", username=name, role=role, roles=roles, hours=hours
    )
    if as_json:
        screen.print_json(made.to_dict())
        return
    screen.out().print(f"Invitation {made.record.invitation_id} works once, for {hours} hours.")
    screen.print_lines(f"  link  {made.to_dict()['link']}   (shown this once)")
    if not made.base_url:
        screen.out().print("Put the address of the installation before it, or set KIOSK_PUBLIC_URL.")


@app.command("revoke-invitation")
def revoke_invitation(
    invitation: Annotated[str, typer.Argument(help="Its id, from `kiosk users invitations`.")],
    as_json: AsJson = False,
) -> None:
    """Revoke an invitation; its link stops working at once."""
    revoked = Installation().perform("invitations.revoke", invitation_id=invitation)
    if as_json:
        screen.print_json(revoked)
        return
    screen.out().print(f"Invitation {invitation} is revoked.")


@app.command("password", epilog=FRESH_EPILOG)
def password(
    name: Name, password_stdin: FromInput = False, temporary: Temporary = False, as_json: AsJson = False
) -> None:
    """Give a new password; browsers are signed out and connected agents cut off."""
    given = _read_password(password_stdin)
    change: PersonChange = Installation().perform(
        "people.set_password", username=name, password=given, temporary=temporary
    )
    if as_json:
        screen.print_json(change.to_dict())
        return
    screen.out().print(f"{name} has a new password.")
    if not given:
        screen.print_lines(f"  password  {change.facts['password']}   (shown this once)")


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
    account = person.account
    if as_json:
        facts = {"administrator": account.role == "administrator", "roles": account.roles}
        screen.print_json({"username": account.username, **facts})
        return
    if account.role == "administrator":
        screen.out().print(f"{account.username} is an administrator and owns every app.")
        return
    table = screen.build_table("app", "role", "may")
    for app_id, app_role in sorted(account.roles.items()):
        table.add_row(app_id, app_role, ROLE_TEXTS[app_role])
    screen.out().print(table if account.roles else f"{account.username} has no role in any app.")


def _parse_role(change: str) -> tuple[str, str]:
    app_id, sign, role = change.partition("=")
    if not sign or not app_id:
        raise Invalid(f"{change!r} is no APP=ROLE; for example bookshop=editor")
    return app_id, role


def _read_password(from_input: bool) -> str:
    if not from_input:
        return ""
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise Invalid("no password came on standard input")
    return line


COMMANDS = (
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
