"""`kiosk users`: who may sign in, and what they allowed."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from cluster.admin.accounts import AccountAdmin, account_to_dict
from cluster.admin.key_admin import KeyAdmin
from cluster.clock import iso_ms
from cluster.errors import Invalid
from cluster.records.account import Account, Role
from cluster.store.connect import OpenStores
from cluster.store.ports.accounts import ActiveGrant
from deployments.cli import screen
from deployments.cli.installation import Installation, read_clock_ms

T = TypeVar("T")

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
DELETE_EPILOG = """
[bold]Example[/]

  kiosk users delete ada       account, sign-ins and connections are gone; the last administrator stays
"""
FRESH_EPILOG = """
[bold]Example[/]

  kiosk users password ada     a new one is made up and shown once; old sign-ins and connections end
"""
CLIENTS_EPILOG = """
[bold]Examples[/]

  kiosk users clients ada                          agents she connected
  kiosk users disconnect ada g1f0c5d2a9b...        end one connection
  kiosk users disconnect ada                       end all of them
"""

AsJson = Annotated[bool, typer.Option("--json", help="One JSON object.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The user name.")]
FromInput = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from the first line of standard input.")
]


@app.command("create", epilog=CREATE_EPILOG)
def create(
    name: Name,
    role: Annotated[str, typer.Option(help="reader or administrator.")] = "reader",
    password_stdin: FromInput = False,
    as_json: AsJson = False,
) -> None:
    """Make an account."""
    wanted, given = _role(role), _read_password(password_stdin)
    account, password = _run_admin(lambda people: people.create(name, wanted, given, read_clock_ms()))
    told = {} if given else {"password": password}
    if as_json:
        screen.print_json({**account_to_dict(account), **told})
        return
    screen.out().print(f"{account.username} may sign in now.")
    if told:
        screen.print_lines(f"  password  {password}   (shown this once)")


@app.command("list")
def list_users(as_json: AsJson = False) -> None:
    """List accounts. Passwords are kept as slow hashes and can't be shown."""
    accounts: list[Account] = _run_admin(lambda people: people.all())
    if as_json:
        screen.print_json({"users": [account_to_dict(account) for account in accounts]})
        return
    table = screen.build_table("name", "role", "state", "made")
    for account in accounts:
        state = "disabled" if account.disabled else "active"
        table.add_row(account.username, account.role, state, iso_ms(account.created_at)[:19])
    screen.out().print(table if accounts else "There are no accounts yet; `kiosk up` makes the first one.")


@app.command("disable", epilog=DISABLE_EPILOG)
def disable(name: Name, as_json: AsJson = False) -> None:
    """Lock an account: no sign-in, and its agents are refused within a second."""
    ended = _run_admin(lambda people: people.lock(name, read_clock_ms()))
    if as_json:
        screen.print_json({"username": name.lower(), "disabled": True, "disconnected": ended})
        return
    screen.out().print(f"{name} can't sign in any more; {_describe_count(ended)} cut off.")


@app.command("delete", epilog=DELETE_EPILOG)
def delete(name: Name, as_json: AsJson = False) -> None:
    """Delete an account for good, with its sign-ins and connected agents."""

    async def run(keeping: KeyAdmin, stores: OpenStores) -> int:
        ended = await AccountAdmin(stores.accounts, stores.grants).delete(name, read_clock_ms())
        await stores.erasures.request_log_rewrite(read_clock_ms())
        return ended

    ended = Installation().administer(run)
    if as_json:
        screen.print_json({"username": name.lower(), "deleted": True, "disconnected": ended})
        return
    screen.out().print(f"{name} is deleted; {_describe_count(ended)} cut off.")


@app.command("enable")
def enable(name: Name, as_json: AsJson = False) -> None:
    """Unlock an account; the person signs in and connects their agents again, with the password they have."""
    _run_admin(lambda people: people.unlock(name))
    if as_json:
        screen.print_json({"username": name.lower(), "disabled": False})
        return
    screen.out().print(f"{name} may sign in again.")


@app.command("password", epilog=FRESH_EPILOG)
def password(name: Name, password_stdin: FromInput = False, as_json: AsJson = False) -> None:
    """Give a new password; browsers are signed out and connected agents cut off."""
    given = _read_password(password_stdin)
    fresh = _run_admin(lambda people: people.set_password(name, given, read_clock_ms()))
    if as_json:
        screen.print_json({"username": name.lower(), **({} if given else {"password": fresh})})
        return
    screen.out().print(f"{name} has a new password.")
    if not given:
        screen.print_lines(f"  password  {fresh}   (shown this once)")


@app.command("clients", epilog=CLIENTS_EPILOG)
def clients(name: Name, as_json: AsJson = False) -> None:
    """List the agents a person connected."""
    held: list[ActiveGrant] = _run_admin(lambda people: people.clients(name))
    if as_json:
        named = [
            {
                "connection": one.grant.grant_id,
                "client_name": one.grant.client_name,
                "created_at": one.grant.created_at,
                "used_at": one.used_at,
            }
            for one in held
        ]
        screen.print_json({"username": name.lower(), "clients": named})
        return
    table = screen.build_table("connection", "client", "since", "last renewed")
    for one in held:
        since, used = iso_ms(one.grant.created_at)[:19], iso_ms(one.used_at)[:19]
        table.add_row(one.grant.grant_id, one.grant.client_name, since, used)
    screen.out().print(table if held else f"{name} has connected nothing.")


@app.command("disconnect", epilog=CLIENTS_EPILOG)
def disconnect(
    name: Name,
    connection: Annotated[str, typer.Argument(help="From `kiosk users clients`; else all.")] = "",
    as_json: AsJson = False,
) -> None:
    """End one connection of a person, or all of them."""
    ended = _run_admin(lambda people: people.disconnect(name, connection, read_clock_ms()))
    if as_json:
        screen.print_json({"username": name.lower(), "disconnected": ended})
        return
    screen.out().print(f"{_describe_count(ended)} cut off.")


def _run_admin(work: Callable[[AccountAdmin], Awaitable[T]]) -> T:
    async def run(keeping: KeyAdmin, stores: OpenStores) -> T:
        return await work(AccountAdmin(stores.accounts, stores.grants))

    return Installation().administer(run)


def _role(text: str) -> Role:
    if text == "reader":
        return "reader"
    if text == "administrator":
        return "administrator"
    raise Invalid(f"there is no role called {text!r}; choose reader or administrator")


def _read_password(from_input: bool) -> str:
    if not from_input:
        return ""
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise Invalid("no password came on standard input")
    return line


def _describe_count(clients: int) -> str:
    return "1 connected agent is" if clients == 1 else f"{clients} connected agents are"
