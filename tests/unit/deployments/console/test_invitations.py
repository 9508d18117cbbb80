"""Invitations: one-time links of the console, from the form that creates one to the account of the invited person."""

from __future__ import annotations

import asyncio
import html
import re
from typing import Any
from urllib.parse import urlsplit

import pytest

from cluster.admin.accounts import AccountAdmin
from cluster.errors import Conflict, Forbidden, Invalid, NotFound
from cluster.records.account import Account, check_password
from cluster.records.apps import App
from cluster.store.administration.audit import AuditFilter
from cluster.store.stores import Stores
from deployments.operations.framework.principal import COMMAND_LINE, principal_of
from deployments.sign_in.identity_provider import ProviderConfig
from deployments.sign_in.invitations import CLOSED
from tests.fakes.archive_oauth import PASSWORD, an_account
from tests.fakes.console import Visitor, console_app, open_console_services
from tests.suites.manual_clock import ManualClock

NEW = "a password of vera"
_LINK = re.compile(r"https://[^<\s\"]+/console/invitation\?token=kiv_[0-9A-Za-z_]+")


class Scene:
    """An installation with ada, its administrator, and olga, who owns the app `shop`."""

    def __init__(self, stores: Stores, **more: Any) -> None:
        self.stores, self.clock = stores, ManualClock()
        self.services = open_console_services(stores, self.clock, **more)
        self.app = console_app(self.services)

    async def signed_in(self, username: str) -> Visitor:
        """Return a browser in which somebody is signed in."""
        visitor = Visitor(self.app)
        assert (await visitor.sign_in(username)).status_code in (200, 403)
        return visitor

    async def account(self, username: str) -> Account:
        """Return a stored account."""
        account = await self.stores.accounts.get(username)
        assert account is not None
        return account

    async def perform(self, username: str, name: str, /, **arguments: Any) -> Any:
        """Perform an operation as somebody; without a name as the command line."""
        principal = principal_of(await self.account(username), "console") if username else COMMAND_LINE
        return await self.services.administration.perform(principal, name, arguments)

    async def invite(self, inviter: str = "", /, **arguments: Any) -> str:
        """Return the path of a new invitation below `/console`."""
        made = await self.perform(inviter, "invitations.create", **arguments)
        return str(made.path).removeprefix("/console")

    async def accept(self, path: str, **form: str) -> Visitor:
        """Accept an invitation in a new browser."""
        visitor = Visitor(self.app)
        await visitor.get(path)
        form = {"username": "vera", "password": NEW, "again": NEW, **form}
        await visitor.post("/invitation", token=path.partition("token=")[2], **form)
        return visitor

    async def rows(self) -> list[Any]:
        """Return the rows of acceptances in the audit log, the newest first."""
        return (await self.stores.audit.page(AuditFilter(operation="invitations.accept"))).rows


@pytest.fixture
async def scene(memory_stores: Stores) -> Scene:
    for app_id in ("shop", "news"):
        await memory_stores.access.put_app(App(app_id=app_id, environment="production", created_at=0))
    await memory_stores.accounts.add(an_account(role="administrator"))
    owner = an_account("olga").model_copy(update={"roles": {"shop": "owner"}})
    await memory_stores.accounts.add(owner)
    return Scene(memory_stores)


async def test_an_owner_invites_and_the_invited_person_chooses_the_password(scene: Scene) -> None:
    olga = await scene.signed_in("olga")
    shown = await olga.post("/apps/shop/access/invite", username="", role="editor")
    (link,) = set(_LINK.findall(html.unescape(shown.text)))
    assert link not in (await olga.get("/apps/shop/access")).text
    assert "chosen by the invited person" in (await olga.get("/apps/shop/access")).text
    parts = urlsplit(link)
    path = f"{parts.path}?{parts.query}".removeprefix("/console")
    vera = await scene.accept(path)
    assert vera.page.headers["location"] == "/console/"
    account = await scene.account("vera")
    assert check_password(NEW, account.password)
    assert (account.role, account.roles) == ("reader", {"shop": "editor"})
    assert not account.has_temporary_password
    assert (await vera.get("/apps/shop/rules")).status_code == 200
    assert (await vera.get("/people")).status_code == 403
    (row,) = await scene.rows()
    assert (row.outcome, row.username, row.arguments["inviter"]) == ("done", "vera", "olga")
    again = await Visitor(scene.app).get(path)
    assert again.status_code == 404
    assert "not valid" in again.text
    dumped = repr([row async for row in scene.stores.audit.rows()]) + repr(
        await scene.stores.invitations.all()
    )
    assert parts.query.partition("=")[2] not in dumped


async def test_a_link_ends_after_72_hours_or_with_its_revocation_or_its_inviter(scene: Scene) -> None:
    visitor = Visitor(scene.app)
    paths = [await scene.invite("ada", roles={"shop": "viewer"})]
    assert (await visitor.get(paths[0])).status_code == 200
    ada = await scene.signed_in("ada")
    await ada.get("/people")
    listed = (await scene.perform("ada", "invitations.list")).to_dict()["invitations"]
    paths.append(await scene.invite("ada", roles={"shop": "viewer"}))
    await ada.post("/people/invitations/revoke", invitation_id=listed[0]["invitation_id"])
    assert (await visitor.get(paths[0])).status_code == 404
    people = AccountAdmin(scene.stores.accounts, scene.stores.grants)
    await people.lock("ada", 0)
    assert (await visitor.get(paths[1])).status_code == 404
    await people.unlock("ada")
    scene.clock.advance(72 * 3_600_000 - 1)
    assert (await visitor.get(paths[1])).status_code == 200
    scene.clock.advance(1)
    late = await visitor.get(paths[1])
    assert late.status_code == 404
    assert CLOSED in html.unescape(late.text)


async def test_of_many_at_once_one_accepts(scene: Scene) -> None:
    path = await scene.invite(roles={"shop": "viewer"})
    await asyncio.gather(*(scene.accept(path, username=f"person{number}") for number in range(4)))
    accounts = [account.username for account in await scene.stores.accounts.all()]
    assert len(accounts) == 3
    assert sum(row.outcome == "done" for row in await scene.rows()) == 1


async def test_a_taken_name_and_a_bad_password_leave_the_invitation_open(scene: Scene) -> None:
    path = await scene.invite(roles={"shop": "viewer"})
    for form, message in (
        ({"username": "ada"}, "The user name ada is taken"),
        ({"username": "not a name"}, "can't be a user name"),
        ({"password": "short", "again": "short"}, "10 to 256 characters"),
        ({"again": "something else"}, "differ"),
    ):
        visitor = await scene.accept(path, **form)
        assert visitor.page.status_code in (400, 409)
        assert message in html.unescape(visitor.page.text)
    assert await scene.stores.accounts.get("vera") is None
    await scene.accept(path)
    assert await scene.stores.accounts.get("vera") is not None


async def test_a_signed_in_person_gets_the_roles_and_keeps_greater_ones(scene: Scene) -> None:
    path = await scene.invite(roles={"shop": "viewer", "news": "editor"})
    olga = await scene.signed_in("olga")
    assert "Accept as olga" in (await olga.get(path)).text
    await olga.post("/invitation", token=path.partition("token=")[2])
    assert (await scene.account("olga")).roles == {"shop": "owner", "news": "editor"}
    named = await scene.invite(username="vera", role="administrator")
    await olga.get(named)
    refused = await olga.post("/invitation", token=named.partition("token=")[2])
    assert refused.status_code == 403
    assert "for vera" in html.unescape(refused.text)


async def test_an_owner_of_an_app_invites_to_it_only_and_sees_nothing_else(scene: Scene) -> None:
    await scene.perform("", "invitations.create", roles={"shop": "viewer", "news": "viewer"})
    assert (await scene.perform("olga", "invitations.list_of_app", app_id="shop")).invitations == []
    for name, given in (
        ("invitations.create_for_app", {"app_id": "news"}),
        ("invitations.create", {"role": "administrator"}),
        ("invitations.list", {}),
    ):
        with pytest.raises(Forbidden):
            await scene.perform("olga", name, **given)
    (listed,) = (await scene.perform("", "invitations.list")).invitations
    with pytest.raises(NotFound):
        await scene.perform(
            "olga", "invitations.revoke_for_app", app_id="shop", invitation_id=listed.invitation_id
        )
    # An owner learns nothing about other accounts; an administrator does.
    await scene.perform("olga", "invitations.create_for_app", app_id="shop", username="ada")
    with pytest.raises(Conflict):
        await scene.perform("ada", "invitations.create", username="olga")
    for wrong in ({"username": "a b"}, {"role": "king"}, {"roles": {"shop": "king"}}):
        with pytest.raises(Invalid):
            await scene.perform("ada", "invitations.create", **wrong)
    with pytest.raises(NotFound):
        await scene.perform("ada", "invitations.create", roles={"moon": "viewer"})


async def test_attempts_are_limited_as_sign_ins(scene: Scene) -> None:
    path = await scene.invite()
    statuses = set()
    for _ in range(12):
        visitor = await scene.accept(path, password="short", again="short")
        statuses.add(visitor.page.status_code)
    assert statuses == {400, 429}
    guess = "/invitation?token=kiv_" + "x" * 32
    guesses = [(await Visitor(scene.app).get(guess)).status_code for _ in range(40)]
    assert set(guesses) == {404, 429}


async def test_without_passwords_the_invited_account_signs_in_through_the_provider(
    memory_stores: Stores,
) -> None:
    await memory_stores.accounts.add(an_account(role="administrator"))
    provider = ProviderConfig("https://login.example.com", "kiosk", "secret")
    scene = Scene(memory_stores, provider=provider, has_passwords=False)
    visitor = await scene.accept(await scene.invite(username="vera@example.com", role="administrator"))
    assert visitor.page.headers["location"] == "/console/sign-in"
    account = await memory_stores.accounts.get("vera@example.com")
    assert account is not None
    assert account.role == "administrator"
    assert not check_password(NEW, account.password)


async def test_a_password_by_somebody_else_can_be_temporary(scene: Scene) -> None:
    for name, given, expected in (
        ("grace", {"password": PASSWORD, "temporary": True}, True),
        ("henry", {"password": PASSWORD}, False),
        ("irene", {"temporary": False}, False),
    ):
        await scene.perform("ada", "people.create", username=name, **given)
        assert (await scene.account(name)).has_temporary_password is expected
    await scene.perform("ada", "people.set_password", username="henry", password=PASSWORD, temporary=True)
    assert (await scene.account("henry")).has_temporary_password
