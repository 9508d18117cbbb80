"""Use cases of named archives: open, change and close one; connections that end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.admin.accounts import AccountAdmin
from cluster.errors import Conflict, Forbidden, Invalid, NotFound
from cluster.records.account import AppRole, Code, Grant
from cluster.records.archive.archive_client import short_id
from cluster.records.archive.named_archive import NamedArchive, archive_of, mcp_path
from deployments.cli.doctor.doctor import check_inclusions
from deployments.operations.access.archives import close_archive, open_archive
from deployments.operations.access.people import OfPerson, delete_person
from deployments.operations.framework.principal import Principal
from deployments.operations.framework.services import AdminConfig
from tests.fakes.admin_shop import AdminShop, open_admin_shop
from tests.fakes.archive_oauth import an_account
from tests.fakes.corner_shop import APP, NOW_MS


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[AdminShop]:
    async with open_admin_shop(tmp_path) as opened:
        opened.services = replace(opened.services, config=AdminConfig(archive_app="news"))
        yield opened


async def connect(
    shop: AdminShop, username: str, archive_id: str, roles: dict[str, AppRole] | None = None
) -> None:
    """Store a grant of an account for an archive."""
    accounts, grants = shop.services.stores.accounts, shop.services.stores.grants
    if await accounts.get(username) is None:
        await accounts.add(an_account(username).model_copy(update={"roles": roles or {}}))
    grant_id = f"g-{username}-{archive_id}"
    facts: dict[str, Any] = {
        "grant_id": grant_id, "client_id": "long-id", "client_name": "Reader", "user_id": f"usr-{username}",
        "resource": "https://news.example.com" + mcp_path(archive_id), "username": username, "created_at": NOW_MS,
    }  # fmt: skip
    code = Code(**facts, redirect_uri="https://x.example", challenge="c", expires_at=NOW_MS + 1000)
    await grants.put_code(grant_id, code)
    await grants.redeem(grant_id, Grant(**facts), f"refresh-{grant_id}", now_ms=NOW_MS)


async def archives_of(shop: AdminShop, username: str) -> list[str]:
    grants = await shop.services.stores.grants.of_user(f"usr-{username}")
    return sorted(archive_of(active.grant.resource) for active in grants)


async def test_an_archive_is_opened_changed_and_closed(shop: AdminShop) -> None:
    with pytest.raises(NotFound, match="at an address of its own"):
        await shop.perform("archive.show", role="viewer")
    opened = await shop.perform("archive.open", title="Books", languages=["en", "de"])
    assert opened.to_dict() == {
        "app_id": APP, "path": f"/mcp/{APP}", "title": "Books", "subjects": "", "languages": ["en", "de"],
        "licence": "All rights reserved", "citation": "", "connectors": False, "teasers": False, "includes": [],
        "members_only": True,
    }  # fmt: skip
    changed = await shop.perform("archive.open", licence="CC BY 4.0", connectors=True)
    assert (changed.archive.title, changed.archive.licence) == ("Books", "CC BY 4.0")
    await shop.corner.keyring.refresh()
    assert shop.corner.keyring.find_archive(APP) == changed.archive
    assert shop.corner.keyring.list_archives() == {APP: changed.archive}
    assert (await shop.perform("archive.show", role="viewer")).archive == changed.archive
    assert ("languages", "en, de") in (await shop.perform("archive.show")).to_lines()[0].rows
    row = shop.audit.rows[-1]
    assert (row.before["licence"], row.after["licence"]) == ("All rights reserved", "CC BY 4.0")
    closed = await shop.perform("archive.close")
    assert closed.to_dict() == {"app_id": APP, "closed": True, "ended": 0}
    assert "0 connections ended" in closed.to_lines()[0]
    await shop.corner.keyring.refresh()
    assert shop.corner.keyring.find_archive(APP) is None
    with pytest.raises(Conflict):
        await shop.perform("archive.close")


@pytest.mark.parametrize(
    "wrong",
    [
        {"title": ""}, {"title": "a\nb"}, {"title": "x" * 101}, {"subjects": "{x}"}, {"languages": ["english"]},
        {"languages": ["en"] * 21}, {"licence": ""}, {"citation": "x" * 501}, {"members_only": "perhaps"},
        {"name": "x"},
    ],
)  # fmt: skip
async def test_wrong_settings_are_refused(shop: AdminShop, wrong: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        await shop.perform("archive.open", **wrong)
    assert (await shop.services.stores.access.read_all()).apps[APP].archive is None


async def test_only_archives_of_the_same_owner_are_included(shop: AdminShop) -> None:
    access = shop.services.stores.access
    wine = (await access.read_all()).apps[APP].model_copy(update={"app_id": "wine"})
    await access.put_app(wine)
    plain = shop.services
    shop.services = plain.for_principal(Principal("ada", "1", "console", roles={APP: "owner"}))
    with pytest.raises(Forbidden, match="you have no role in wine"):
        await shop.perform("archive.open", includes=["wine"])
    shop.services = plain.for_principal(
        Principal("ada", "1", "console", roles={APP: "owner", "wine": "owner"})
    )
    with pytest.raises(Invalid, match="wine is no other archive; open one"):
        await shop.perform("archive.open", includes=["wine"])
    with pytest.raises(Invalid, match="is no other archive"):
        await shop.perform("archive.open", includes=[APP])
    await access.put_app(wine.model_copy(update={"archive": NamedArchive(title="Wine")}))
    opened = await shop.perform("archive.open", includes=["wine"])
    assert opened.archive.includes == ("wine",)
    assert (await shop.perform("archive.open", title="Books")).archive.includes == ("wine",)
    assert (await shop.perform("archive.open", includes=[])).archive.includes == ()


async def test_an_owner_opens_and_an_editor_does_not(shop: AdminShop) -> None:
    for operation in (open_archive, close_archive):
        with pytest.raises(Forbidden):
            await shop.perform(operation.__dict__["operation"].name, role="editor")


async def test_the_address_of_another_page_is_refused(shop: AdminShop) -> None:
    access = shop.services.stores.access
    app = (await access.read_all()).apps[APP]
    await access.put_app(app.model_copy(update={"app_id": "server-card"}))
    with pytest.raises(Invalid, match="/mcp/server-card is another page"):
        await open_archive(shop.services, open_archive.__dict__["operation"].arguments(app_id="server-card"))


async def test_connections_end_with_the_archive_and_those_of_others_stay(shop: AdminShop) -> None:
    await shop.perform("archive.open")
    for username, archive_id in (("ada", APP), ("ada", ""), ("bob", APP), ("bob", "other")):
        await connect(shop, username, archive_id)
    (application,) = (await shop.perform("connections.list", role="viewer")).applications
    assert (application.client_id, application.people) == (short_id("long-id"), 2)
    assert (await shop.perform("archive.close")).facts["ended"] == 2
    assert await archives_of(shop, "ada") == [""]
    assert await archives_of(shop, "bob") == ["other"]
    with pytest.raises(NotFound, match="agents do not read shop; they read news"):
        await shop.perform("connections.list")


async def test_ending_an_application_in_one_archive_leaves_it_in_the_others(shop: AdminShop) -> None:
    await shop.perform("archive.open")
    await connect(shop, "ada", APP)
    await connect(shop, "ada", "")
    assert (await shop.perform("connections.end", client_id=short_id("long-id"))).facts["ended"] == 1
    assert await archives_of(shop, "ada") == [""]


async def test_an_archive_that_becomes_one_for_members_disconnects_the_others(shop: AdminShop) -> None:
    await shop.perform("archive.open", members_only=False)
    await connect(shop, "ada", APP)
    await connect(shop, "bob", APP, {APP: "viewer"})
    await shop.perform("archive.open", members_only=True)
    assert (await archives_of(shop, "ada"), await archives_of(shop, "bob")) == ([], [APP])
    await connect(shop, "bob", "")
    await shop.perform("people.revoke_role", username="bob")
    assert await archives_of(shop, "bob") == [""]


async def _include_wine(shop: AdminShop, *owners: str) -> None:
    access = shop.services.stores.access
    wine = (
        (await access.read_all())
        .apps[APP]
        .model_copy(update={"app_id": "wine", "archive": NamedArchive(title="Wine")})
    )
    await access.put_app(wine)
    people = AccountAdmin(shop.services.stores.accounts, shop.services.stores.grants)
    for username in owners:
        await people.create(username, "reader", "a long password 1", shop.services.now_ms())
        for app_id in (APP, "wine"):
            await people.set_role(username, app_id, "owner")
    await shop.perform("archive.open", includes=["wine"])


async def _includes(shop: AdminShop) -> tuple[str, ...]:
    archive = (await shop.services.stores.access.read_all()).apps[APP].archive
    assert archive is not None
    return archive.includes


async def test_an_archive_is_included_until_nobody_owns_both(shop: AdminShop) -> None:
    await _include_wine(shop, "carl", "cora")
    changed = await shop.perform("people.revoke_role", username="carl")
    assert "excluded" not in changed.to_dict()
    assert await _includes(shop) == ("wine",), "cora owns both"
    changed = await shop.perform("people.revoke_role", username="cora")
    assert changed.to_dict()["excluded"] == {APP: ["wine"]}
    assert f"{APP} includes wine no more: nobody owns both." in changed.to_lines()
    assert await _includes(shop) == ()


async def test_a_deleted_owner_takes_the_inclusion_along(shop: AdminShop) -> None:
    await _include_wine(shop, "carl")
    changed = await delete_person(shop.services, OfPerson(username="carl"))
    assert changed.to_dict()["excluded"] == {APP: ["wine"]}
    assert await _includes(shop) == ()


async def test_an_inclusion_by_administrators_outlives_the_roles_of_others(shop: AdminShop) -> None:
    await _include_wine(shop)
    people = AccountAdmin(shop.services.stores.accounts, shop.services.stores.grants)
    await people.create("carl", "reader", "a long password 1", shop.services.now_ms())
    await people.set_role("carl", APP, "owner")
    await shop.perform("people.revoke_role", username="carl")
    assert await _includes(shop) == ("wine",)


def test_the_check_of_an_archive_names_what_it_leaves_out() -> None:
    books = NamedArchive(title="Books", includes=("wine", "maps", "ships"), members_only=False)
    maps, ships = NamedArchive(title="Maps"), NamedArchive(title="Ships", members_only=False)
    findings = check_inclusions({"books": books, "maps": maps, "ships": ships}, [], "books")
    assert [finding.words for finding in findings] == [
        "wine is left out: it is closed", "maps is left out: it is for its members alone",
    ]  # fmt: skip
    assert check_inclusions({"books": books}, [], "") == []


def test_the_check_names_included_archives_of_other_owners() -> None:
    books, wine = NamedArchive(title="Books", includes=("wine",)), NamedArchive(title="Wine")
    archives = {"books": books, "wine": wine}
    split = [frozenset({"books"}), frozenset({"wine"})]
    (finding,) = check_inclusions(archives, split, "books")
    assert finding.words == (
        "wine is included, and no account owns both; an administrator may have included it"
    )
    for owned in ([], [frozenset({"maps"})], [*split, frozenset({"books", "wine", "maps"})]):
        assert check_inclusions(archives, owned, "books") == []
