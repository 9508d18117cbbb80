"""Use cases of the archive: its use, the rules for its clients, and the applications that people connected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field, ValidationError

from cluster.admin.app_key_admin import AppKeyAdmin
from cluster.clock import iso_ms
from cluster.errors import Invalid, NotFound
from cluster.records.apps import find_archive_app
from cluster.records.archive.archive_client import (
    API_CLIENT,
    BY_SIGNATURE,
    DEFAULT_CALLS_PER_MINUTE,
    EVERYBODY,
    UNSIGNED,
    ClientRule,
    fold_client_name,
    is_client_name,
    short_id,
)
from cluster.records.archive.named_archive import archive_of
from cluster.store.administration.grants import ActiveGrant
from deployments.operations.access.archives import load_grants
from deployments.operations.framework.app_lookup import require_app
from deployments.operations.framework.operation import Arguments, OfApp, operation
from deployments.operations.framework.result_table import PlainResult, ResultLines, ResultTable
from deployments.operations.framework.services import AdminServices
from deployments.operations.insight.archive.readership import load_callers
from deployments.operations.insight.archive.usage_report import ClientUsage

SEEN_DAYS = "30d"
_MOST_SEEN = 1_000


class ReadArchiveApp(Arguments):
    """Arguments of `archive.app`."""

    app_id: str = Field(
        "", description="An app in which the caller has a role; empty: only administrators may read."
    )


class OfClient(OfApp):
    """A client of the archive: its id, `host:` and a host, `agent:` and a host, the name it claims, or `*`."""

    client: str = Field(
        description="Id, `host:` and a host, `agent:` and the host of an agent that signs, the name it claims, or `*` "
        "for everybody else. `agent:*`: whoever signs; `agent:none`: who does not; `agent:invalid`: who signs wrongly."
    )


class RateClient(OfClient):
    """How often a client may call."""

    calls_per_minute: float = Field(ge=0, description="Calls of all its people together; 0: no bound.")


class OfConnection(OfApp):
    """A connected application."""

    client_id: str = Field(description="Short id of the client, `c-...`.")


@dataclass(frozen=True, slots=True)
class ArchiveChoice:
    """The app that agents read."""

    app_id: str
    is_chosen: bool
    "Whether somebody chose it; else it is the one of KIOSK_ARCHIVE_APP."

    def to_lines(self) -> ResultLines:
        return (f"Agents read {self.app_id}.",)


@dataclass(frozen=True, slots=True)
class ArchiveClients:
    """The rules for clients, and who called of late."""

    app_id: str
    rules: tuple[ClientRule, ...]
    seen: tuple[ClientUsage, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return rules and callers as JSON."""
        callers = [
            {"client_name": usage.name, "client_ids": list(usage.client_ids), "calls": usage.calls}
            for usage in self.seen
        ]
        return {"app_id": self.app_id, "rules": [rule.model_dump() for rule in self.rules], "seen": callers}

    def to_lines(self) -> ResultLines:
        """Return a table of the rules, and one of the callers."""
        rows = [
            (rule.client, "yes" if rule.decision == "allow" else "no", _format_rate(rule))
            for rule in self.rules
        ]
        if not any(rule.client == EVERYBODY for rule in self.rules):
            rows.insert(0, ("everybody else (*)", "yes", f"{DEFAULT_CALLS_PER_MINUTE:g} a person"))
        callers = [(usage.name, str(usage.calls), ", ".join(usage.client_ids[:4])) for usage in self.seen]
        title = "Callers of the last 30 days"
        return (
            ResultTable(("client", "may call", "calls per minute"), rows, title="Rules"),
            "",
            ResultTable(("client", "calls", "ids"), callers, "No calls within 30 days.", title=title),
        )


def _format_rate(rule: ClientRule) -> str:
    of_each = " a person" if rule.client in (EVERYBODY, UNSIGNED, *BY_SIGNATURE.values()) else ""
    if rule.calls_per_minute is None:
        return f"{DEFAULT_CALLS_PER_MINUTE:g}{of_each}" if rule.client == EVERYBODY else "as *"
    return f"{rule.calls_per_minute:g}{of_each}" if rule.calls_per_minute else "no bound"


@dataclass(frozen=True, slots=True)
class ConnectedApplication:
    """A client that people gave access to; it names none of them."""

    client_id: str
    name: str
    "The client's own claim."
    target: str
    "Where its codes were sent."
    people: int
    since: int
    used_at: int

    def to_dict(self) -> dict[str, Any]:
        """Return the application as JSON."""
        return {
            "client_id": self.client_id,
            "client_name": self.name,
            "target": self.target,
            "people": self.people,
            "since": iso_ms(self.since),
            "used_at": iso_ms(self.used_at),
        }


@dataclass(frozen=True, slots=True)
class ConnectedApplications:
    """Connected applications, the last used first."""

    applications: tuple[ConnectedApplication, ...]


async def _read_choice(services: AdminServices, given: OfApp) -> ArchiveChoice:
    return await read_archive_app(services, ReadArchiveApp(app_id=given.app_id))


async def _read_rule(services: AdminServices, given: OfClient) -> dict[str, Any] | None:
    rule = (await services.stores.client_rules.all(given.app_id)).get(fold_client_name(given.client))
    return None if rule is None else rule.model_dump()


@operation("archive.app", "GET", "/archive")
async def read_archive_app(services: AdminServices, _: ReadArchiveApp) -> ArchiveChoice:
    """Show the app that agents read."""
    apps = (await services.stores.access.read_all()).apps
    app_id = find_archive_app(apps, services.config.archive_app)
    return ArchiveChoice(app_id, any(app.archive_since for app in apps.values()))


@operation(
    "archive.choose",
    "POST",
    "/apps/{app_id}/archive/choose",
    "owner",
    scope="installation",
    read_before=_read_choice,
)
async def choose_archive_app(services: AdminServices, given: OfApp) -> ArchiveChoice:
    """Let agents read an app from now on.

    API replicas follow within a second.

    Errors:
        NotFound: no such app
    """
    keys = AppKeyAdmin(services.stores.access, services.vault)
    chosen = await keys.choose_archive_app(given.app_id, services.now_ms())
    return ArchiveChoice(chosen.app_id, True)


@operation("clients.list", "GET", "/apps/{app_id}/archive/clients")
async def list_client_rules_and_callers(services: AdminServices, given: OfApp) -> ArchiveClients:
    """List rules for clients of the archive, and who called within 30 days.

    Errors:
        NotFound: no such app
    """
    await require_app(services.stores, given.app_id)
    rules = await services.stores.client_rules.all(given.app_id)
    callers: list[ClientUsage] = await services.cache.get(
        ("clients.list", given.app_id), lambda: load_callers(services, given.app_id, SEEN_DAYS)
    )
    seen = [usage for usage in callers if usage.name != API_CLIENT][:_MOST_SEEN]
    return ArchiveClients(given.app_id, tuple(rule for _, rule in sorted(rules.items())), tuple(seen))


@operation("clients.allow", "POST", "/apps/{app_id}/archive/clients/allow", "owner", read_before=_read_rule)
async def allow_client(services: AdminServices, given: OfClient) -> PlainResult:
    """Allow a client of the archive.

    Errors:
        Invalid: its name is empty or too long; NotFound: no such app
    """
    return await _change(services, given, decision="allow")


@operation("clients.deny", "POST", "/apps/{app_id}/archive/clients/deny", "owner", read_before=_read_rule)
async def deny_client(services: AdminServices, given: OfClient) -> PlainResult:
    """Refuse a client of the archive.

    Errors:
        Invalid: its name is empty or too long; NotFound: no such app
    """
    return await _change(services, given, decision="deny")


@operation("clients.rate", "POST", "/apps/{app_id}/archive/clients/rate", "owner", read_before=_read_rule)
async def rate_client(services: AdminServices, given: RateClient) -> PlainResult:
    """Bound the calls of a client of the archive.

    All its people together; under `*` those of one person.

    Errors:
        Invalid: its name is empty or too long; NotFound: no such app
    """
    return await _change(services, given, calls_per_minute=given.calls_per_minute)


@operation("clients.forget", "POST", "/apps/{app_id}/archive/clients/forget", "owner", read_before=_read_rule)
async def forget_client(services: AdminServices, given: OfClient) -> PlainResult:
    """Remove the rule of a client of the archive.

    Errors:
        NotFound: it has none
    """
    if not await services.stores.client_rules.remove(given.app_id, given.client):
        raise NotFound("there is no rule for this client; see `kiosk clients list`")
    return PlainResult(
        {"app_id": given.app_id, "client": given.client, "forgotten": True},
        (f"{given.client} has no rule any more.",),
    )


async def _change(services: AdminServices, given: OfClient, **change: object) -> PlainResult:
    await require_app(services.stores, given.app_id)
    stored = (await services.stores.client_rules.all(given.app_id)).get(fold_client_name(given.client))
    try:
        rule = ClientRule.model_validate(
            {**(stored.model_dump() if stored else {}), "client": given.client.strip(), **change}
        )
    except ValidationError as error:
        raise Invalid("a client's name has 1 to 200 characters") from error
    await services.stores.client_rules.put(given.app_id, rule)
    is_allowed = rule.decision == "allow"
    may = "may call" if is_allowed else "is refused"
    line = f"{rule.client} {may}; calls per minute: {_format_rate(rule)}."
    hint = "Any client may give itself this name; host:HOST lets in only who answers there."
    lines = (line, hint) if is_allowed and is_client_name(rule.client) else (line,)
    return PlainResult({"app_id": given.app_id, **rule.model_dump()}, lines)


async def _load_grants(services: AdminServices, app_id: str) -> list[ActiveGrant]:
    """Return the grants for the archives of an app: that of its own address, and the default one.

    Errors:
        NotFound: agents do not read the app
    """
    book = await services.stores.access.read_all()
    chosen = find_archive_app(book.apps, services.config.archive_app)
    app = book.apps.get(app_id)
    names = {*([""] if app_id == chosen else []), *([app_id] if app is not None and app.archive else [])}
    if not names:
        raise NotFound(f"agents do not read {app_id}; they read {chosen}")
    grants = await load_grants(
        services, [account.user_id for account in await services.stores.accounts.all()]
    )
    return [active for active in grants if archive_of(active.grant.resource) in names]


def _summarize_grants(client_id: str, grants: Sequence[ActiveGrant]) -> ConnectedApplication:
    newest = max(grants, key=lambda active: active.used_at)
    return ConnectedApplication(
        short_id(client_id),
        newest.grant.client_name,
        newest.grant.target,
        len({active.grant.user_id for active in grants}),
        min(active.grant.created_at for active in grants),
        newest.used_at,
    )


@operation("connections.list", "GET", "/apps/{app_id}/archive/connections")
async def list_connections(services: AdminServices, given: OfApp) -> ConnectedApplications:
    """List the applications that people connected to the archive.

    No person is named.

    Errors:
        NotFound: agents do not read the app
    """
    by_client: dict[str, list[ActiveGrant]] = {}
    for active in await _load_grants(services, given.app_id):
        by_client.setdefault(active.grant.client_id, []).append(active)
    applications = [_summarize_grants(client_id, grants) for client_id, grants in by_client.items()]
    return ConnectedApplications(
        tuple(sorted(applications, key=lambda application: (-application.used_at, application.client_id)))
    )


@operation("connections.end", "DELETE", "/apps/{app_id}/archive/connections/{client_id}", "owner")
async def disconnect_application(services: AdminServices, given: OfConnection) -> PlainResult:
    """Disconnect an application from the archive.

    All grants of it end; people may connect it again unless it is refused.

    Errors:
        NotFound: agents do not read the app, or the client has no grant
    """
    grants = [
        grant
        for grant in await _load_grants(services, given.app_id)
        if short_id(grant.grant.client_id) == given.client_id
    ]
    if not grants:
        raise NotFound(f"there is no connected application {given.client_id}")
    ended = 0
    for active in grants:
        ended += await services.stores.grants.revoke(active.grant.grant_id, now_ms=services.now_ms())
    return PlainResult({"client_id": given.client_id, "ended": ended})
