"""Sign-in, sessions and second factors of the console, as a browser meets them."""

from __future__ import annotations

import base64
import html
import re

import httpx
import pytest
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP

from cluster.admin.accounts import AccountAdmin
from cluster.admin.second_factor import SecondFactors
from cluster.crypto import Vault
from cluster.records.account import Account
from cluster.records.api_keys import issue_key
from cluster.records.apps import App
from cluster.store.administration.audit import AuditFilter
from cluster.store.stores import Stores
from deployments.sign_in.sign_in import safe_redirect
from tests.fakes.archive_oauth import MASTER, PASSWORD, an_account
from tests.fakes.console import Visitor, console_app, open_console_services
from tests.suites.manual_clock import ManualClock

NEW = "a much better password"


class Scene:
    """An installation with ada, its administrator."""

    def __init__(self, stores: Stores) -> None:
        self.stores, self.clock = stores, ManualClock()
        self.people = AccountAdmin(stores.accounts, stores.grants)
        self.app = console_app(open_console_services(stores, self.clock))

    def visitor(self) -> Visitor:
        """A browser without cookies."""
        return Visitor(self.app)

    async def account(self, username: str) -> Account:
        """Return a stored account."""
        account = await self.stores.accounts.get(username)
        assert account is not None
        return account

    async def signed_in(self, username: str = "ada") -> Visitor:
        """A browser in which somebody is signed in."""
        visitor = self.visitor()
        assert (await visitor.sign_in(username)).status_code == 200
        return visitor


@pytest.fixture
async def scene(memory_stores: Stores) -> Scene:
    await memory_stores.accounts.add(an_account(role="administrator"))
    return Scene(memory_stores)


async def is_in(visitor: Visitor) -> bool:
    """Return whether the browser is signed in."""
    return (await visitor.get("/account")).status_code == 200


async def test_a_password_begins_a_session_with_safe_cookies(scene: Scene) -> None:
    visitor = scene.visitor()
    await visitor.get("/sign-in?next=/console/apps")
    answer = await visitor.post("/sign-in", username="ADA", password=PASSWORD, next="/console/apps")
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/apps")
    for cookie in answer.headers.get_list("set-cookie"):
        assert cookie.startswith("__Host-kiosk_console_")
        for part in ("HttpOnly", "Secure", "SameSite=lax", "Path=/"):
            assert part in cookie
    assert await is_in(visitor)


async def test_a_wrong_password_an_unknown_name_and_a_key_sign_nobody_in(scene: Scene) -> None:
    issued = issue_key(
        Vault(MASTER), App(app_id="shop", environment="development", created_at=0), "secret", now_ms=0
    )
    await scene.stores.access.put_key(issued.record)
    visitor = scene.visitor()
    for name, password in (
        ("ada", "wrong"),
        ("nobody", PASSWORD),
        ("ada", issued.text),
        (issued.text, issued.text),
    ):
        await visitor.get("/sign-in")
        answer = await visitor.post("/sign-in", username=name, password=password)
        assert answer.status_code == 403
        assert "Incorrect user name or password." in answer.text
    for headers in ({"x-api-key": issued.text}, {"authorization": f"Bearer {issued.text}"}):
        assert (await visitor.get("/account", **headers)).status_code == 303
    assert not await is_in(visitor)


async def test_strangers_are_throttled_and_the_owner_is_not(scene: Scene) -> None:
    owner = await scene.signed_in()
    await owner.post("/sign-out")
    stranger = scene.visitor()
    await stranger.get("/sign-in")
    answers = [await stranger.post("/sign-in", username="ada", password="guess") for _ in range(8)]
    assert [answer.status_code for answer in answers] == [403] * 5 + [429] * 3
    assert int(answers[-1].headers["retry-after"]) > 0
    assert (await stranger.post("/sign-in", username="ada", password=PASSWORD)).status_code == 429
    assert (await owner.sign_in()).status_code == 200
    assert await is_in(owner)


async def test_a_session_that_was_planted_before_the_sign_in_is_worth_nothing(scene: Scene) -> None:
    attacker, victim = await scene.signed_in(), scene.visitor()
    planted = dict(attacker.http.cookies)
    for name, value in planted.items():
        victim.http.cookies.set(name, value, domain="shop.example.com", path="/")
    await attacker.post("/sign-out")
    await victim.sign_in()
    after = dict(victim.http.cookies)
    assert after["__Host-kiosk_console_session"] != planted["__Host-kiosk_console_session"]
    assert await is_in(victim)
    assert not await is_in(attacker)


async def test_sessions_end_with_a_new_password_a_lock_a_sign_out_and_time(scene: Scene) -> None:
    first, second = await scene.signed_in(), await scene.signed_in()
    await first.post("/account/password", current=PASSWORD, new=NEW, again=NEW)
    assert await is_in(first)
    assert not await is_in(second)
    await scene.people.set_password("ada", PASSWORD, scene.clock.now_ms())
    assert not await is_in(first)
    third = await scene.signed_in()
    await scene.people.lock("ada", scene.clock.now_ms())
    assert not await is_in(third)
    await scene.people.unlock("ada")
    fourth, fifth = await scene.signed_in(), await scene.signed_in()
    await fourth.post("/sign-out")
    assert not await is_in(fourth)
    assert not await is_in(fifth)
    sixth = await scene.signed_in()
    for _ in range(15):
        scene.clock.advance(11 * 3_600_000)
        assert await is_in(sixth)
    scene.clock.advance(11 * 3_600_000)
    assert not await is_in(sixth)
    seventh = await scene.signed_in()
    scene.clock.advance(12 * 3_600_000)
    assert not await is_in(seventh)


async def test_a_wrong_current_password_changes_nothing_and_can_not_be_guessed_for_ever(scene: Scene) -> None:
    visitor = await scene.signed_in()
    statuses = []
    for _ in range(12):
        answer = await visitor.post("/account/password", current="wrong", new=NEW, again=NEW)
        statuses.append(answer.status_code)
    assert statuses == [400] * 10 + [429] * 2
    assert PASSWORD not in answer.text
    rows = (await scene.stores.audit.page(AuditFilter())).rows
    assert {(row.operation, row.outcome) for row in rows} == {
        ("session.begin", "done"), ("me.change_password", "refused")
    }  # fmt: skip
    assert "wrong" not in str([row.arguments for row in rows])


async def test_somebody_without_a_role_gets_a_clear_page_and_nothing_else(scene: Scene) -> None:
    await scene.stores.accounts.add(an_account("bob"))
    visitor = scene.visitor()
    page = await visitor.sign_in("bob")
    assert page.status_code == 403
    assert "has no role in any app" in page.text
    assert (await visitor.get("/apps")).status_code == 403
    await scene.stores.access.put_app(App(app_id="shop", environment="development", created_at=0))
    await scene.people.set_role("bob", "shop", "viewer")
    assert (await visitor.get("/apps")).status_code == 200
    assert (await visitor.get("/people")).status_code == 403
    assert (await visitor.get("/apps/shop/access")).status_code == 200
    await visitor.get("/apps/shop/access")
    token = re.findall(r'csrf" value="([^"]+)', visitor.page.text)[0]
    answer = await visitor.post("/apps/shop/access/rotate", csrf=token)
    assert answer.status_code == 403


def code_at(secret: str, now_ms: int) -> str:
    """Return what an authenticator shows."""
    return TOTP(base64.b32decode(secret), 6, SHA1(), 30).generate(now_ms // 1000).decode()


def step_of(page: httpx.Response) -> str:
    """Return what a page of codes sends with the code."""
    step = re.search(r'name="step" value="([^"]+)"', page.text)
    assert step
    return step[1]


async def enrol(scene: Scene, visitor: Visitor) -> tuple[str, list[str]]:
    """Set a second factor up; return its secret and the recovery codes."""
    page = await visitor.post("/account/second-factor", password=PASSWORD)
    assert 'src="data:image/svg+xml;base64,' in page.text
    secret = re.search(r"<code>([A-Z2-7]{32})</code>", page.text)
    pending = re.search(r'name="pending" value="([^"]+)"', page.text)
    assert secret
    assert pending
    wrong = await visitor.post("/account/second-factor/confirm", pending=pending[1], code="000000")
    assert wrong.status_code == 400
    shown = await visitor.post(
        "/account/second-factor/confirm", pending=pending[1], code=code_at(secret[1], scene.clock.now_ms())
    )
    codes = re.findall(r"[a-z2-7]{4} [a-z2-7]{4} [a-z2-7]{4} [a-z2-7]{4}", shown.text)
    return secret[1], codes


async def test_a_second_factor_is_needed_and_each_code_works_once(scene: Scene) -> None:
    secret, recovery = await enrol(scene, await scene.signed_in())
    assert len(recovery) == 8
    scene.clock.advance(600_000)
    code = code_at(secret, scene.clock.now_ms())
    for given, status in (("123456", 403), (code, 303)):
        visitor = scene.visitor()
        page = await visitor.sign_in()
        step = step_of(page)
        assert not await is_in(visitor)
        await visitor.get("/sign-in")
        answer = await visitor.post("/sign-in/code", step=step, code=given)
        assert answer.status_code == status, given
        assert await is_in(visitor) is (status == 303)
    for given, status in ((code, 403), (recovery[0], 303), (recovery[0], 403), (recovery[1], 303)):
        visitor = scene.visitor()
        page = await visitor.sign_in()
        step = step_of(page)
        await visitor.get("/sign-in")
        assert (await visitor.post("/sign-in/code", step=step, code=given)).status_code == status
        scene.clock.advance(60_000)
    other = scene.visitor()
    await other.get("/sign-in")
    stolen = await other.post("/sign-in/code", step=step, code=recovery[2])
    assert "The code expired" in stolen.text
    account = await scene.account("ada")
    assert secret not in account.model_dump_json()
    assert len(account.recovery_codes) == 6
    vault = SecondFactors(scene.stores.accounts, Vault(MASTER))
    assert not (await vault.check(account, code, scene.clock.now_ms())).is_right


@pytest.mark.parametrize(
    "goal",
    ["//evil.example.com", "https://evil.example.com", "/console//evil.example.com", "/console/\\evil", "/other",
     "/console/../v1", "/console/sign-out", "", "/console/a\r\nx: y"],
)  # fmt: skip
def test_a_sign_in_leads_to_pages_of_the_console_only(goal: str) -> None:
    assert safe_redirect(goal) == "/console/"
    assert safe_redirect("/console/apps/shop/access?x=1&y=a%20b") == "/console/apps/shop/access?x=1&y=a%20b"


async def test_without_https_beyond_this_machine_there_is_no_sign_in(memory_stores: Stores) -> None:
    app = console_app(open_console_services(memory_stores, ManualClock(), public_url=""))
    page = await Visitor(app, "http://10.0.0.9:8000").get("/sign-in")
    assert page.status_code == 403
    assert "needs https" in page.text
    assert (await Visitor(app, "http://127.0.0.1:8000").get("/sign-in")).status_code == 200


async def test_a_generated_password_is_replaced_before_anything_else(scene: Scene) -> None:
    admin = await scene.signed_in()
    shown = await admin.post("/people", username="zoe", role="administrator")
    password = re.search(r"<code>([^<]+)</code>", shown.text)
    assert password
    zoe = scene.visitor()
    await zoe.sign_in("zoe", html.unescape(password[1]))
    for path in ("/", "/people", "/tokens", "/apps/shop/catalog"):
        answer = await zoe.get(path)
        assert (answer.status_code, answer.headers["location"]) == (303, "/console/account"), path
    assert (await zoe.post("/people", username="eve", role="administrator")).status_code == 303
    assert await scene.stores.accounts.get("eve") is None
    changed = await zoe.post(
        "/account/password",
        current=html.unescape(password[1]),
        new="a new long password",
        again="a new long password",
    )
    assert changed.status_code == 303
    assert (await zoe.get("/people")).status_code == 200
    assert not (await scene.account("ada")).has_temporary_password
