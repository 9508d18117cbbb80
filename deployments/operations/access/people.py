"""People: accounts, their passwords, their roles in apps, their second factor, and the agents they connected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from cluster.admin.accounts import AccountAdmin, account_to_dict
from cluster.clock import iso_ms
from cluster.errors import Conflict, Forbidden, Invalid, NotFound
from cluster.records.account import Account, Role
from cluster.records.administration import APP_ROLES, ROLE_TEXTS, AppRole
from cluster.store.administration.grants import ActiveGrant
from deployments.operations.access.apps import app_admin
from deployments.operations.access.archives import end_grants, exclude_archives
from deployments.operations.framework.operation import Arguments, OfApp, operation
from deployments.operations.framework.result_table import PlainResult, ResultLines, ResultTable
from deployments.operations.framework.services import AdminServices


@dataclass(frozen=True, slots=True)
class AccountList:
    """Accounts by name."""

    accounts: list[Account]

    def to_dict(self) -> dict[str, Any]:
        return {"users": [account_to_dict(account) for account in self.accounts]}

    def to_lines(self) -> ResultLines:
        """Return a table of the accounts."""
        rows = [
            (
                account.username,
                account.role,
                "disabled" if account.disabled else "active",
                iso_ms(account.created_at)[:19],
            )
            for account in self.accounts
        ]
        empty = "There are no accounts yet; `kiosk up` makes the first one."
        return (ResultTable(("name", "role", "state", "made"), rows, empty),)


@dataclass(frozen=True, slots=True)
class AccountDetails:
    """One account; with its password where a new one was generated."""

    account: Account
    password: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {**account_to_dict(self.account), **({"password": self.password} if self.password else {})}

    def to_lines(self) -> ResultLines:
        """Return that the person may sign in, and the password."""
        return (f"{self.account.username} may sign in now.", *_show_once(self.password))

    def roles(self) -> AccountRoles:
        """Return its roles."""
        return AccountRoles(self.account)


@dataclass(frozen=True, slots=True)
class AccountRoles:
    """The roles of an account."""

    account: Account

    def to_dict(self) -> dict[str, Any]:
        account = self.account
        is_administrator = account.role == "administrator"
        return {"username": account.username, "administrator": is_administrator, "roles": account.roles}

    def to_lines(self) -> ResultLines:
        """Return a table of the roles."""
        account = self.account
        if account.role == "administrator":
            return (f"{account.username} is an administrator and owns every app.",)
        rows = [(app_id, role, ROLE_TEXTS[role]) for app_id, role in sorted(account.roles.items())]
        return (ResultTable(("app", "role", "may"), rows, f"{account.username} has no role in any app."),)


@dataclass(frozen=True, slots=True)
class Connections:
    """Agents that a person connected, the last used first."""

    username: str
    grants: list[ActiveGrant]

    def to_dict(self) -> dict[str, Any]:
        """Return the connections for JSON."""
        named = [
            {
                "connection": active.grant.grant_id,
                "client_name": active.grant.client_name,
                "created_at": active.grant.created_at,
                "used_at": active.used_at,
            }
            for active in self.grants
        ]
        return {"username": self.username, "clients": named}

    def to_lines(self) -> ResultLines:
        """Return a table of the connections."""
        rows = [
            (
                active.grant.grant_id,
                active.grant.client_name,
                iso_ms(active.grant.created_at)[:19],
                iso_ms(active.used_at)[:19],
            )
            for active in self.grants
        ]
        empty = f"{self.username} has connected nothing."
        return (ResultTable(("connection", "client", "since", "last renewed"), rows, empty),)


def _show_once(password: str) -> ResultLines:
    return (f"  password  {password}   (shown this once)",) if password else ()


_TEMPORARY = (
    "Whether the person must choose another password at the next sign-in to the console; absent: yes for a generated "
    "one, except on the command line."
)


class OfPerson(Arguments):
    """Arguments of an operation on one account."""

    username: str = Field(max_length=64)


class CreatePerson(OfPerson):
    """Arguments of `people.create`."""

    role: str = Field("reader", description="reader or administrator.")
    password: str = Field("", max_length=256, description="At least 10 characters; empty: one is generated.")
    temporary: bool | None = Field(None, description=_TEMPORARY)


class SetPassword(OfPerson):
    """Arguments of `people.set_password`."""

    password: str = Field("", max_length=256, description="At least 10 characters; empty: one is generated.")
    temporary: bool | None = Field(None, description=_TEMPORARY)


class Disconnect(OfPerson):
    """Arguments of `people.disconnect`."""

    connection: str = Field("", max_length=64, description="Id of one connection; empty: all of them.")


class OfAppPerson(OfApp):
    """Arguments of an operation on the role of one account in an app."""

    username: str = Field(max_length=64)


class GrantRole(OfAppPerson):
    """Arguments of `people.grant_role`."""

    role: str = Field(description="viewer, analyst, editor or owner.")


@operation("people.list", "GET", "/people", "owner", scope="installation")
async def list_people(services: AdminServices, _: Arguments) -> AccountList:
    """List the accounts of the installation."""
    return AccountList(await account_admin(services).all())


@operation("people.get", "GET", "/people/{username}", "owner", scope="installation")
async def read_person(services: AdminServices, given: OfPerson) -> AccountDetails:
    """Show one account.

    Errors:
        NotFound: no such account
    """
    return AccountDetails(await account_admin(services).find(given.username))


@operation(
    "people.create",
    "POST",
    "/people",
    "owner",
    scope="installation",
    secret_fields={"password"},
    secret_results={"password"},
)
async def create_person(services: AdminServices, given: CreatePerson) -> AccountDetails:
    """Make an account; a generated password is shown once.

    Errors:
        Invalid: the name, the role or the password is not allowed
        Conflict: the name is taken
    """
    role = account_role(given.role)
    account, password = await account_admin(services).create(
        given.username,
        role,
        given.password,
        services.now_ms(),
        is_temporary=_is_temporary(services, given),
    )
    return AccountDetails(account, "" if given.password else password)


def _is_temporary(services: AdminServices, given: CreatePerson | SetPassword) -> bool:
    """Return whether the person must replace the password; on the command line, programs use generated ones."""
    if given.temporary is not None:
        return given.temporary
    return not given.password and services.principal.way != "command line"


@operation("people.lock", "POST", "/people/{username}/lock", "owner", scope="installation")
async def lock_person(services: AdminServices, given: OfPerson) -> PlainResult:
    """Lock an account; its sessions, tokens and connections end within a second.

    Errors:
        NotFound: no such account
    """
    ended = await account_admin(services).lock(given.username, services.now_ms())
    return _changed(
        given, "{name} can't sign in any more; {agents} cut off.", disabled=True, disconnected=ended
    )


@operation("people.unlock", "POST", "/people/{username}/unlock", "owner", scope="installation")
async def unlock_person(services: AdminServices, given: OfPerson) -> PlainResult:
    """Unlock an account.

    Errors:
        NotFound: no such account
    """
    await account_admin(services).unlock(given.username)
    return _changed(given, "{name} may sign in again.", disabled=False)


@operation(
    "people.delete", "DELETE", "/people/{username}", "owner", scope="installation", read_before=read_person
)
async def delete_person(services: AdminServices, given: OfPerson) -> PlainResult:
    """Delete an account for good, with its sign-ins and connected agents.

    Errors:
        NotFound: no such account
        Conflict: it is the only administrator
    """
    people = account_admin(services)
    account = await people.find(given.username)
    excluded = await exclude_archives(services, account.username)
    ended = await people.delete(given.username, services.now_ms())
    # After the account, without which its tokens open nothing: a failure in between leaves no way in.
    await services.stores.admin_tokens.remove_user(account.user_id)
    # The append-only file of Redis has the account until it is rewritten.
    await services.stores.erasures.request_log_rewrite(services.now_ms())
    facts = {"deleted": True, "disconnected": ended, **({"excluded": excluded} if excluded else {})}
    return _changed(given, "{name} is deleted; {agents} cut off.", **facts)


@operation(
    "people.set_password",
    "PUT",
    "/people/{username}/password",
    "owner",
    scope="installation",
    secret_fields={"password"},
    secret_results={"password"},
)
async def set_password(services: AdminServices, given: SetPassword) -> PlainResult:
    """Set a password; a generated one is shown once.

    Sessions, tokens and connections of the account end.

    Errors:
        NotFound: no such account
        Invalid: the password is not allowed
        Forbidden: it is the principal's own account
    """
    _refuse_same_account(services, given)
    fresh = await account_admin(services).set_password(
        given.username,
        given.password,
        services.now_ms(),
        is_temporary=_is_temporary(services, given),
    )
    facts = {} if given.password else {"password": fresh}
    return _changed(given, "{name} has a new password.", **facts)


@operation(
    "people.reset_second_factor", "DELETE", "/people/{username}/second-factor", "owner", scope="installation"
)
async def reset_second_factor(services: AdminServices, given: OfPerson) -> PlainResult:
    """Remove the second factor of a person who lost it; browsers are signed out.

    Errors:
        NotFound: no such account
        Forbidden: it is the principal's own account
    """
    _refuse_same_account(services, given)
    account = await account_admin(services).reset_second_factor(given.username)
    return _changed(
        given, "{name} signs in with the password alone now.", second_factor=account.has_second_factor
    )


@operation("people.list_connections", "GET", "/people/{username}/connections", "owner", scope="installation")
async def list_connections(services: AdminServices, given: OfPerson) -> Connections:
    """List the agents that a person connected.

    Errors:
        NotFound: no such account
    """
    return Connections(given.username.lower(), await account_admin(services).clients(given.username))


@operation("people.disconnect", "DELETE", "/people/{username}/connections", "owner", scope="installation")
async def disconnect(services: AdminServices, given: Disconnect) -> PlainResult:
    """End one connection of a person, or all of them.

    Errors:
        NotFound: no such account, or no such connection of it
    """
    ended = await account_admin(services).disconnect(given.username, given.connection, services.now_ms())
    return _changed(given, "{agents} cut off.", disconnected=ended)


@operation("people.list_of_app", "GET", "/apps/{app_id}/people", "owner")
async def list_app_people(services: AdminServices, given: OfApp) -> PlainResult:
    """List the people with a role in an app.

    Errors:
        NotFound: no such app
    """
    await app_admin(services).app(given.app_id)
    accounts = [account for account in await account_admin(services).all() if given.app_id in account.roles]
    named = [
        {"username": account.username, "role": account.roles[given.app_id], "disabled": account.disabled}
        for account in accounts
    ]
    return PlainResult({"app_id": given.app_id, "users": named})


async def _read_role(services: AdminServices, given: OfAppPerson) -> dict[str, Any]:
    account = await services.stores.accounts.get(given.username.lower())
    return {"role": None if account is None else account.roles.get(given.app_id)}


@operation("people.grant_role", "PUT", "/apps/{app_id}/people/{username}", "owner", read_before=_read_role)
async def grant_role(services: AdminServices, given: GrantRole) -> PlainResult:
    """Give a person a role in an app.

    Errors:
        NotFound: no such app or account
        Invalid: no such role
        Conflict: the account is an administrator; owners of an app get NotFound
    """
    await app_admin(services).app(given.app_id)
    return await _set_role(services, given, app_role(given.role))


@operation(
    "people.revoke_role", "DELETE", "/apps/{app_id}/people/{username}", "owner", read_before=_read_role
)
async def revoke_role(services: AdminServices, given: OfAppPerson) -> PlainResult:
    """Take a person's role in an app away; agents lose an archive that is for its members.

    Errors:
        NotFound: no such account, or it has no role in the app
    """
    change = await _set_role(services, given, None)
    app = (await services.stores.access.read_all()).apps.get(given.app_id)
    # After the role, without which nobody can connect again in between.
    if app is not None and app.archive is not None and app.archive.members_only:
        await end_grants(services, given.app_id, usernames=(change.facts["username"],))
    return change


def account_admin(services: AdminServices) -> AccountAdmin:
    """Return the administration of accounts."""
    return AccountAdmin(services.stores.accounts, services.stores.grants)


def _refuse_same_account(services: AdminServices, given: OfPerson) -> None:
    """Refuse to change one's own credentials without proof of them: a stolen session or token has none.

    Errors:
        Forbidden: it is the principal's own account
    """
    principal = services.principal
    if principal.way != "command line" and given.username.lower() == principal.username:
        raise Forbidden("change your own password and second factor under My account, or on the command line")


def _changed(given: OfPerson, sentence: str, **facts: Any) -> PlainResult:
    """Return the change of an account; `{agents}` in the sentence is how many connected agents were cut off."""
    name = given.username.lower()
    count = facts.get("disconnected")
    agents = "1 connected agent is" if count == 1 else f"{count} connected agents are"
    lines = (sentence.format(name=name, agents=agents), *_describe_excluded(facts.get("excluded", {})))
    return PlainResult({"username": name, **facts}, (*lines, *_show_once(facts.get("password", ""))))


async def _set_role(services: AdminServices, given: OfAppPerson, role: AppRole | None) -> PlainResult:
    """Set a role; an owner of an app does not learn which other accounts there are, and who administers."""
    # before the role ends, so that nothing stays included if this process dies in between
    excluded = (
        {} if role == "owner" else await exclude_archives(services, given.username.lower(), (given.app_id,))
    )
    try:
        account = await account_admin(services).set_role(given.username, given.app_id, role)
        return _role_changed(given, account, excluded)
    except (NotFound, Conflict):
        if services.principal.may("owner", ""):
            raise
        raise NotFound(f"no role of {given.username} in {given.app_id} can be changed") from None


def _role_changed(given: OfAppPerson, account: Account, excluded: Mapping[str, list[str]]) -> PlainResult:
    facts: dict[str, Any] = {"app_id": given.app_id, "role": account.roles.get(given.app_id)}
    if excluded:
        facts["excluded"] = excluded
    return PlainResult({"username": account.username, **facts}, _describe_excluded(excluded))


def _describe_excluded(excluded: Mapping[str, list[str]]) -> ResultLines:
    return tuple(
        f"{app_id} includes {', '.join(others)} no more: nobody owns both."
        for app_id, others in excluded.items()
    )


def account_role(text: str) -> Role:
    """Return a role of the installation from its name.

    Errors:
        Invalid: no such role
    """
    if text == "reader":
        return "reader"
    if text == "administrator":
        return "administrator"
    raise Invalid(f"there is no role called {text!r}; choose reader or administrator")


def app_role(text: str) -> AppRole:
    """Return a role in an app from its name.

    Errors:
        Invalid: no such role
    """
    for role in APP_ROLES:
        if text == role:
            return role
    raise Invalid(f"there is no role called {text!r}; choose one of {', '.join(APP_ROLES)}")
