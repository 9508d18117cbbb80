"""One sign-in for the console and the consent pages: the same factor, the same session, the same rows."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP

from cluster.admin.second_factor import LOCKED_AFTER, LOCKED_MS, SecondFactors
from cluster.crypto import Vault
from cluster.store.stores import Stores
from deployments.sign_in.identity_provider import ProviderConfig
from tests.contract.oauth.conftest import Scene
from tests.fakes.archive_oauth import (
    MASTER,
    ORIGIN,
    PASSWORD,
    Person,
    Program,
    an_account,
    answer_of,
    app_over,
    http_over,
    oauth_services,
    read_page,
    visible,
)
from tests.fakes.console import Visitor, console_app, open_console_services
from tests.suites.doing import require
from tests.suites.manual_clock import ManualClock

AUTHORIZE, CLIENTS = "/oauth/authorize/archive", "/oauth/authorize/clients"
PROVIDER = ProviderConfig("https://login.example.com", "kiosk", "secret")


@dataclass
class Surfaces:
    """One installation with both surfaces, and ada, who has a second factor."""

    scene: Scene
    stores: Stores
    clock: ManualClock
    console: Visitor
    secret: str = ""

    def code(self) -> str:
        """Return what the authenticator of ada shows."""
        totp = TOTP(base64.b32decode(self.secret), 6, SHA1(), 30)
        return totp.generate(self.clock.now_ms() // 1000).decode()

    async def enrol(self) -> None:
        """Switch the second factor of ada on."""
        account = require(await self.stores.accounts.get("ada"))
        factors = SecondFactors(self.stores.accounts, Vault(MASTER))
        fresh = factors.begin(account, "Kiosk")
        self.secret = fresh.secret
        assert await factors.confirm(account, fresh.sealed, self.code(), self.clock.now_ms())
        self.clock.advance(60_000)

    async def rows(self) -> list[tuple[str, str, str, str]]:
        """Return what the audit log has: operation, person, surface, reason."""
        return [(row.operation, row.username, row.way, row.reason) async for row in self.stores.audit.rows()]


@pytest.fixture
async def surfaces(memory_stores: Stores) -> AsyncIterator[Surfaces]:
    clock = ManualClock()
    services = oauth_services(memory_stores, clock)
    await memory_stores.accounts.add(an_account(role="administrator"))
    app = app_over(services)
    console = Visitor(
        console_app(open_console_services(memory_stores, clock, public_url=ORIGIN)), origin=ORIGIN
    )
    async with http_over(app) as http, http_over(app) as browser:
        program = Program(http)
        await program.register()
        scene = Scene(clock, services, app, http, Person(browser), program)
        yield Surfaces(scene, memory_stores, clock, console)


@pytest.mark.parametrize("path", [AUTHORIZE, CLIENTS])
async def test_the_consent_pages_ask_for_the_second_factor(surfaces: Surfaces, path: str) -> None:
    await surfaces.enrol()
    person = surfaces.scene.person
    asks = surfaces.scene.program.asks() if path == AUTHORIZE else {}
    await person.open(path, **asks)
    page = await person.sign_in()
    assert (page.status_code, 'name="code"' in page.text) == (200, True)
    assert "signed in as" not in visible((await person.open(path, **asks)).text)
    await person.sign_in()
    wrong = await person.press("sign-in", code="000000")
    assert (wrong.status_code, "This code is incorrect" in wrong.text) == (403, True)
    assert (await person.press("sign-in", code=surfaces.code())).status_code == 303
    assert "signed in as ada" in visible((await person.follow()).text)


async def test_a_step_of_another_browser_or_a_forged_one_signs_nobody_in(surfaces: Surfaces) -> None:
    await surfaces.enrol()
    person, asks = surfaces.scene.person, surfaces.scene.program.asks()
    await person.open(AUTHORIZE, **asks)
    page = await person.sign_in()
    step = read_page(page.text).forms[0]["step"]
    async with http_over(surfaces.scene.app) as http:
        thief = Person(http)
        await thief.open(AUTHORIZE, **asks)
        for given in (step, step[:-1] + "A", "x", surfaces.scene.services.signing.forms.seal({"till": 9e9})):
            answer = await thief.press("sign-in", step=given, code=surfaces.code())
            assert answer.status_code == 403
            assert "The code expired" in answer.text
            await thief.open(AUTHORIZE, **asks)
    surfaces.clock.advance(301_000)
    assert (await person.press("sign-in", code=surfaces.code())).status_code == 403


async def test_a_session_of_one_door_is_good_at_the_other_and_ends_at_both(surfaces: Surfaces) -> None:
    await surfaces.console.sign_in(goal="/account")
    for name, value in surfaces.console.http.cookies.items():
        surfaces.scene.person.http.cookies.set(name, value)
    page = await surfaces.scene.person.open(CLIENTS)
    assert "signed in as ada" in visible(page.text)
    await surfaces.scene.person.press("switch")
    assert (await surfaces.console.get("/account")).status_code == 303
    rows = await surfaces.rows()
    assert rows == [("session.begin", "ada", "console", ""), ("session.end", "ada", "archive", "")]


async def test_what_the_password_alone_opened_ends_with_the_second_factor(surfaces: Surfaces) -> None:
    scene, console = surfaces.scene, surfaces.console
    tokens = await scene.tokens()
    waiting_code = await scene.code()
    await console.sign_in(goal="/account")
    page = await console.post("/account/second-factor", password=PASSWORD)
    secret = re.search(r"<code>([A-Z2-7]{32})</code>", page.text)
    pending = re.search(r'name="pending" value="([^"]+)"', page.text)
    assert secret
    assert pending
    surfaces.secret = secret[1]
    await console.get("/account")
    await console.post("/account/second-factor/confirm", pending=pending[1], code=surfaces.code())
    assert (await console.get("/account")).status_code == 200, "the browser that switched it on stays"
    await scene.heard()
    assert await scene.program.use(tokens["access_token"]) == 401
    assert (await scene.program.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"
    assert (await scene.program.redeem(waiting_code)).json()["error"] == "invalid_grant"
    assert 'name="password"' in (await scene.person.open(CLIENTS)).text, "its session had no code"


async def test_a_grant_of_an_earlier_release_ends_at_its_next_refresh(surfaces: Surfaces) -> None:
    scene = surfaces.scene
    tokens = await scene.tokens()
    await surfaces.enrol()  # behind the operation that would have ended the grant
    answer = await scene.program.refresh(tokens["refresh_token"])
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
    await scene.heard()
    assert await scene.program.use(tokens["access_token"]) == 401
    await scene.person.open(AUTHORIZE, **scene.program.asks())
    await scene.person.sign_in()
    await scene.person.press("sign-in", code=surfaces.code())
    await scene.person.follow()
    code = answer_of(await scene.person.press("allow"))["code"]
    fresh = (await scene.program.redeem(code)).json()
    assert (await scene.program.refresh(fresh["refresh_token"])).status_code == 200


async def test_ten_wrong_codes_lock_codes_for_an_hour_and_the_owner_reads_of_it(surfaces: Surfaces) -> None:
    await surfaces.enrol()
    person = surfaces.scene.person
    await person.open(CLIENTS)
    await person.sign_in()
    for _ in range(LOCKED_AFTER):
        assert (await person.press("sign-in", code="000000")).status_code == 403
        surfaces.clock.advance(20_000)
    right = surfaces.code()
    locked = await person.press("sign-in", code=right)
    assert locked.status_code == 429
    assert int(locked.headers["retry-after"]) > 3_000
    account = require(await surfaces.stores.accounts.get("ada"))
    assert account.wrong_codes == LOCKED_AFTER, "a code that was not checked does not count"
    surfaces.clock.advance(LOCKED_MS)
    await person.open(CLIENTS)
    await person.sign_in()
    assert (await person.press("sign-in", code=surfaces.code())).status_code == 303
    shown = visible((await person.follow()).text)
    assert "10 incorrect codes were entered for your account" in shown
    assert "incorrect codes" not in visible((await person.open(CLIENTS)).text)


async def test_a_recovery_code_works_while_codes_are_locked(memory_stores: Stores) -> None:
    await memory_stores.accounts.add(an_account())
    factors, clock = SecondFactors(memory_stores.accounts, Vault(MASTER)), ManualClock()
    account = require(await memory_stores.accounts.get("ada"))
    fresh = factors.begin(account, "Kiosk")
    totp = TOTP(base64.b32decode(fresh.secret), 6, SHA1(), 30)
    codes = await factors.confirm(
        account, fresh.sealed, totp.generate(clock.now_ms() // 1000).decode(), clock.now_ms()
    )
    assert codes is not None
    for _ in range(LOCKED_AFTER):
        await factors.check(account, "000000", clock.now_ms())
    assert (await factors.check(account, "000000", clock.now_ms())).wait_s == LOCKED_MS // 1000
    check = await factors.check(account, codes[0], clock.now_ms())
    assert (check.is_right, check.failures) == (True, LOCKED_AFTER)
    clock.advance(60_000)
    assert (
        await factors.check(account, totp.generate(clock.now_ms() // 1000).decode(), clock.now_ms())
    ).is_right


async def test_without_passwords_only_the_provider_signs_in(memory_stores: Stores) -> None:
    clock = ManualClock()
    await memory_stores.accounts.add(an_account(role="administrator"))
    console = open_console_services(
        memory_stores, clock, public_url=ORIGIN, provider=PROVIDER, has_passwords=False
    )
    visitor = Visitor(console_app(console), origin=ORIGIN)
    page = await visitor.get("/sign-in")
    assert 'name="password"' not in page.text
    assert "Sign in with login.example.com" in page.text
    with_passwords = Visitor(
        console_app(open_console_services(memory_stores, clock, public_url=ORIGIN)), origin=ORIGIN
    )
    await with_passwords.get("/sign-in")  # a form that was open before the switch
    visitor.http.cookies = with_passwords.http.cookies
    refused = await visitor.post("/sign-in", csrf=with_passwords.token, username="ada", password=PASSWORD)
    assert (refused.status_code, "Passwords are switched off" in refused.text) == (403, True)
    services = oauth_services(memory_stores, clock, provider=PROVIDER, has_passwords=False)
    async with http_over(app_over(services)) as http:
        person = Person(http)
        page = await person.open(CLIENTS)
        assert 'name="password"' not in page.text
        assert "/console/sign-in/provider?next=%2Foauth%2Fauthorize%2Fclients" in page.text
        answer = await person.press("sign-in", username="ada", password=PASSWORD)
        assert (answer.status_code, "Passwords are switched off" in answer.text) == (403, True)
    always = open_console_services(memory_stores, clock, has_passwords=False)
    assert always.sign_in.has_passwords, "without a provider nobody could sign in"


async def test_the_audit_log_has_sign_ins_refusals_once_a_minute_and_no_typed_name(
    surfaces: Surfaces,
) -> None:
    person = surfaces.scene.person
    await person.open(CLIENTS)
    for name in ("ada", "ada", "my password in the wrong field", "nobody"):
        await person.press("sign-in", username=name, password="a wrong one")
    refused = [
        ("session.refused", "ada", "archive", "wrong password"),
        ("session.refused", "", "archive", "wrong password"),
    ]
    assert await surfaces.rows() == refused
    surfaces.clock.advance(61_000)
    await person.press("sign-in", username="ada", password="a wrong one")
    await person.sign_in()
    rows = [row async for row in surfaces.stores.audit.rows()]
    assert [row.operation for row in rows[2:]] == ["session.refused", "session.begin"]
    assert (rows[-1].user_id, rows[-1].address, rows[-1].arguments) == (
        "usr-ada", "203.0.113.7", {"sign_in": "password"}
    )  # fmt: skip


@pytest.mark.parametrize("surface", ["archive", "console"])
async def test_the_audit_log_has_a_row_for_a_wrong_code(surfaces: Surfaces, surface: str) -> None:
    await surfaces.enrol()
    if surface == "archive":
        await surfaces.scene.person.open(CLIENTS)
        await surfaces.scene.person.sign_in()
        for _ in range(2):
            await surfaces.scene.person.press("sign-in", code="000000")
    else:
        page = await surfaces.console.sign_in(goal="/account")
        step = re.search(r'name="step" value="([^"]+)"', page.text)
        assert step
        for _ in range(2):
            await surfaces.console.post("/sign-in/code", step=step[1], code="000000")
    assert await surfaces.rows() == [("session.refused", "ada", surface, "wrong code")]
