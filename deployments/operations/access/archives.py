"""Use cases of named archives: apps that agents read at an address of their own."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from cluster.admin.citation_signing_keys import CitationSigningKeys
from cluster.errors import Conflict, Invalid, NotFound
from cluster.records.account import Account
from cluster.records.archive.named_archive import RESERVED_NAMES, NamedArchive, archive_of, mcp_path
from cluster.store.administration.grants import ActiveGrant
from deployments.operations.access.apps import app_admin
from deployments.operations.framework.operation import OfApp, operation
from deployments.operations.framework.result_table import PlainResult, ResultLines, ResultTable
from deployments.operations.framework.services import AdminServices

MOST_INCLUDED = 8
"Archives that an archive searches too."
_READ_AT_ONCE = 50
"Accounts whose grants are read at once."
_LINE = r"^[^\x00-\x1f\x7f{}]*$"
_LANGUAGE = re.compile(r"[a-z]{2,3}")


class OpenArchive(OfApp):
    """Settings of an archive; an absent one stays as it is."""

    title: str | None = Field(
        None,
        min_length=1,
        max_length=100,
        pattern=_LINE,
        description="What it is called, on its pages and to agents; at first the display name of the app.",
    )
    subjects: str | None = Field(
        None, max_length=200, pattern=_LINE, description="What it covers, as world, politics, sport."
    )
    languages: list[str] | None = Field(
        None, max_length=20, description="ISO 639-1 codes of the languages of its articles."
    )
    licence: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        pattern=_LINE,
        description="Licence of articles that name none of their own; at first: All rights reserved.",
    )
    citation: str | None = Field(
        None,
        max_length=500,
        pattern=_LINE,
        description="A sentence added to what agents are told about citing.",
    )
    connectors: bool | None = Field(
        None, description="Whether agents of the older MCP revisions see the tools search and fetch too."
    )
    teasers: bool | None = Field(
        None,
        description="Whether answers name locked articles that fit a question, by title and link; at first: no.",
    )
    includes: list[str] | None = Field(
        None,
        max_length=MOST_INCLUDED,
        description="Other archives whose articles are searched too; you must own them. Empty: none.",
    )
    members_only: bool | None = Field(
        None,
        description="Whether only accounts with a role in the app may connect agents; at first: yes.",
    )


@dataclass(frozen=True, slots=True)
class ArchiveDetails:
    """The archive of an app."""

    app_id: str
    archive: NamedArchive

    def to_dict(self) -> dict[str, Any]:
        return {"app_id": self.app_id, "path": mcp_path(self.app_id), **self.archive.model_dump(mode="json")}

    def to_lines(self) -> ResultLines:
        """Return the settings as a table."""
        fields = self.to_dict()
        rows = [
            (name, ", ".join(value) if isinstance(value, list) else str(value))
            for name, value in fields.items()
        ]
        return (ResultTable(("setting", "value"), rows, ""),)


async def _read_settings(services: AdminServices, given: OfApp) -> dict[str, Any] | None:
    archive = (await app_admin(services).app(given.app_id)).archive
    return None if archive is None else archive.model_dump(mode="json")


_PATH = "/apps/{app_id}/archive/address"


@operation("archive.show", "GET", _PATH)
async def show_archive(services: AdminServices, given: OfApp) -> ArchiveDetails:
    """Show the archive that agents read at an address of its own.

    Errors:
        NotFound: no such app, or it has no such address
    """
    archive = (await app_admin(services).app(given.app_id)).archive
    if archive is None:
        raise NotFound(
            f"agents do not read {given.app_id} at an address of its own; open one with archive.open"
        )
    return ArchiveDetails(given.app_id, archive)


@operation("archive.open", "PUT", _PATH, "owner", read_before=_read_settings)
async def open_archive(services: AdminServices, given: OpenArchive) -> ArchiveDetails:
    """Let agents read an app at an address of its own, or change the settings of its archive.

    API replicas follow within a second. Where `members_only` is turned on, connections of other accounts end.

    Errors:
        NotFound: no such app
        Forbidden: an included archive belongs to an app that the caller does not own
        Invalid: the address of the app belongs to another page, a language is no code, or an app that is to be
            included has no archive of its own
    """
    wrong = [language for language in given.languages or () if not _LANGUAGE.fullmatch(language)]
    if wrong:
        raise Invalid(f"{wrong[0][:20]!r} is no code of a language; write en, de or fra")
    if given.app_id in RESERVED_NAMES:
        raise Invalid(f"{mcp_path(given.app_id)} is another page; an archive needs an app of another name")
    app = await app_admin(services).app(given.app_id)
    await _check_included(services, given.app_id, given.includes or ())
    before = app.archive or NamedArchive(title=app.display_name or app.app_id)
    change = given.model_dump(exclude={"app_id"}, exclude_none=True)
    archive = NamedArchive.model_validate({**before.model_dump(), **change})
    await app_admin(services).set_archive(given.app_id, archive)
    # After the change, so that nobody without a role connects again in between.
    if archive.members_only and not before.members_only:
        await end_grants(services, given.app_id, members_stay=True)
    return ArchiveDetails(given.app_id, archive)


async def _check_included(services: AdminServices, app_id: str, included: Iterable[str]) -> None:
    apps = (await services.stores.access.read_all()).apps
    for other_id in included:
        # Otherwise the owner of one app could read another app through an archive that includes it.
        services.principal.require("owner", other_id)
        other = apps.get(other_id)
        if other_id == app_id or other is None or other.archive is None:
            raise Invalid(
                f"{other_id} is no other archive; open one with archive.open, then include it in {app_id}"
            )


@operation("archive.close", "DELETE", _PATH, "owner", read_before=_read_settings)
async def close_archive(services: AdminServices, given: OfApp) -> PlainResult:
    """Take the address of an app's archive away, and disconnect its agents.

    The default archive at `/mcp` stays, also if it is this app. API replicas follow within a second.

    Errors:
        NotFound: no such app
        Conflict: it has no such address
    """
    if (await app_admin(services).app(given.app_id)).archive is None:
        raise Conflict(f"agents do not read {given.app_id} at an address of its own")
    # The address first: a client that connects in between would keep its grant.
    await app_admin(services).set_archive(given.app_id, None)
    ended = await end_grants(services, given.app_id)
    return PlainResult(
        {"app_id": given.app_id, "closed": True, "ended": ended},
        (
            f"Agents do not read {given.app_id} at {mcp_path(given.app_id)} any more; {ended} connections ended.",
        ),
    )


@operation("archive.rotate_key", "POST", "/apps/{app_id}/archive/key", "owner")
async def rotate_key(services: AdminServices, given: OfApp) -> PlainResult:
    """Sign statements about citations with a new key.

    API replicas follow within two seconds. Earlier public keys stay published, so earlier statements can be verified.

    Errors:
        NotFound: no such app
    """
    await app_admin(services).app(given.app_id)
    keys = CitationSigningKeys(services.vault, services.stores.publisher_keys, services.clock)
    key_id = (await keys.rotate(given.app_id)).key_id
    return PlainResult(
        {"app_id": given.app_id, "key_id": key_id},
        (
            f"Statements about {given.app_id} carry the key {key_id} from now on; earlier keys stay published.",
        ),
    )


class RemoveKey(OfApp):
    """A public key of an archive."""

    key_id: str = Field(min_length=1, max_length=64, description="Its `kid` in /mcp/jwks.json.")


@operation("archive.remove_key", "DELETE", "/apps/{app_id}/archive/key", "owner")
async def remove_key(services: AdminServices, given: RemoveKey) -> PlainResult:
    """Remove a public key that leaked; statements that it signed stop being verifiable.

    If it is the current key, statements are signed with a new one. API replicas follow within two seconds.
    Whoever saved the keys must read them again.

    Errors:
        NotFound: no such app, or it has no such key
    """
    await app_admin(services).app(given.app_id)
    keys = CitationSigningKeys(services.vault, services.stores.publisher_keys, services.clock)
    current = (await keys.remove(given.app_id, given.key_id)).key_id
    return PlainResult(
        {"app_id": given.app_id, "removed": given.key_id, "key_id": current},
        (
            f"The key {given.key_id} of {given.app_id} is published no more.",
            f"Statements carry {current} from now on.",
        ),
    )


async def exclude_archives(
    services: AdminServices, username: str, app_ids: Collection[str] | None = None
) -> dict[str, list[str]]:
    """Take archives out of those that include them, before an account stops to own apps (None: all of its apps).

    An archive stays included while another account owns both. Administrators may include it again. Returns what was
    taken out, by the app that included it.
    """
    owned = list_owned_apps(await services.stores.accounts.all())
    before = owned.pop(username, frozenset())
    lost = before if app_ids is None else before.intersection(app_ids)
    excluded: dict[str, list[str]] = {}
    if not lost:
        return excluded
    for app_id, app in (await services.stores.access.read_all()).apps.items():
        if app.archive is None:
            continue
        pairs = {other_id: {app_id, other_id} for other_id in app.archive.includes}
        gone = [
            other_id
            for other_id, pair in pairs.items()
            if pair & lost and pair <= before and not any(pair <= others for others in owned.values())
        ]
        if gone:
            stay = tuple(other_id for other_id in app.archive.includes if other_id not in gone)
            archive = app.archive.model_copy(update={"includes": stay})
            await app_admin(services).set_archive(app_id, archive)
            excluded[app_id] = gone
    return excluded


def list_owned_apps(accounts: Iterable[Account]) -> dict[str, frozenset[str]]:
    """Return the apps that each account owns; administrators are left out, they own all."""
    return {
        account.username: frozenset(app_id for app_id, role in account.roles.items() if role == "owner")
        for account in accounts
        if account.role != "administrator"
    }


async def end_grants(
    services: AdminServices, app_id: str, *, usernames: Iterable[str] = (), members_stay: bool = False
) -> int:
    """End the grants for a named archive, of all accounts or of some, and return how many ended."""
    only = frozenset(usernames)
    accounts = [
        account
        for account in await services.stores.accounts.all()
        if (not only or account.username in only)
        and not (members_stay and (account.role == "administrator" or app_id in account.roles))
    ]
    ended = 0
    for active in await load_grants(services, [account.user_id for account in accounts]):
        if archive_of(active.grant.resource) == app_id:
            ended += await services.stores.grants.revoke(active.grant.grant_id, now_ms=services.now_ms())
    return ended


async def load_grants(services: AdminServices, user_ids: list[str]) -> list[ActiveGrant]:
    """Return the grants of accounts, some accounts at once."""
    active: list[ActiveGrant] = []
    for start in range(0, len(user_ids), _READ_AT_ONCE):
        some = user_ids[start : start + _READ_AT_ONCE]
        for grants in await asyncio.gather(*map(services.stores.grants.of_user, some)):
            active += grants
    return active
