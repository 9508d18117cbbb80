"""Sign-in of the console in a real browser: wrong passwords, frames, forms of other sites, and the second factor."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from cluster.admin.accounts import AccountAdmin
from cluster.store.connect import OpenStores
from tests.browser.stage import NEEDS_BROWSER, Tab, open_browser, open_stage
from tests.contract.oauth.test_browser import serving
from tests.fakes.archive_oauth import PASSWORD

pytestmark = [NEEDS_BROWSER, pytest.mark.redis]


async def test_a_person_types_a_wrong_password_then_the_right_one_and_is_signed_out_by_a_new_one(
    redis_stores: OpenStores, tmp_path: Path
) -> None:
    async with open_stage(redis_stores, tmp_path) as stage, open_browser() as browser:
        await stage.add_person()
        tab = await Tab.open(browser, stage.origin, wide=390, high=844, scheme="dark")
        await tab.go("/people")
        assert await tab.find_faults() == []
        await tab.page.get_by_label("User name").fill("ada")
        await tab.page.get_by_label("Password").fill("a wrong one")
        await tab.page.keyboard.press("Enter")
        await tab.page.get_by_role("alert").wait_for()
        assert await tab.find_faults() == []
        assert await tab.page.get_by_label("User name").input_value() == "ada"
        await tab.page.get_by_label("Password").fill(PASSWORD)
        await tab.page.keyboard.press("Enter")
        await tab.page.get_by_role("heading", name="Team").wait_for()
        people = AccountAdmin(redis_stores.accounts, redis_stores.grants)
        await people.set_password("ada", "a password from elsewhere", stage.corner.clock.now_ms())
        await tab.go("/tokens")
        await tab.page.get_by_role("heading", name="Sign in").wait_for()
        assert tab.complaints == []


async def test_another_site_can_neither_frame_a_page_nor_send_a_form(
    redis_stores: OpenStores, tmp_path: Path
) -> None:
    async with open_stage(redis_stores, tmp_path) as stage, open_browser() as browser:
        await stage.add_person()

        async def attack(_: Request) -> Response:
            frame = f"<iframe src='{stage.origin}/console/people'></iframe>"
            form = f"<form method=post action='{stage.origin}/console/apps'><input name=app_id value=evil>"
            return HTMLResponse(f"<!doctype html><title>x</title>{frame}{form}<button>go</button></form>")

        async with serving(Starlette(routes=[Route("/", attack)])) as other:
            tab = await Tab.open(browser, stage.origin)
            await tab.sign_in()
            await tab.page.get_by_role("heading", name="Overview").wait_for()
            await tab.page.goto(other)
            assert await tab.page.frames[1].locator("table, form, .side").count() == 0
            async with tab.page.expect_navigation():
                await tab.page.get_by_role("button", name="go").click()
            assert await tab.page.get_by_role("heading", level=1).inner_text() == "You don’t have access"
    assert "evil" not in (await redis_stores.access.read_all()).apps


async def test_a_second_factor_is_set_up_and_needed(redis_stores: OpenStores, tmp_path: Path) -> None:
    async with open_stage(redis_stores, tmp_path) as stage, open_browser() as browser:
        await stage.add_person()
        tab = await Tab.open(browser, stage.origin)
        await tab.sign_in()
        await tab.go("/account")
        await tab.page.locator("#f-factor-password").fill(PASSWORD)
        await tab.page.get_by_role("button", name="Set up").click()
        picture = tab.page.get_by_alt_text("QR code with the secret of the second factor")
        assert (await picture.bounding_box())["width"] > 100
        assert await picture.evaluate("(image) => image.naturalWidth") > 100
        assert await tab.find_faults() == []
        secret = base64.b32decode(await tab.page.locator(".copy code").inner_text())
        now_s = stage.corner.clock.now_ms() // 1000
        code = TOTP(secret, 6, SHA1(), 30).generate(now_s).decode()
        await tab.page.get_by_label("Code").fill(code)
        await tab.page.get_by_role("button", name="Turn on").click()
        await tab.page.get_by_role("heading", name="Recovery codes").wait_for()
        recovery = (await tab.page.locator("pre").inner_text()).splitlines()[0]
        assert await tab.find_faults() == []
        await tab.page.get_by_role("button", name="Sign out").click()
        await tab.page.get_by_label("User name").fill("ada")
        await tab.page.get_by_label("Password").fill(PASSWORD)
        await tab.page.get_by_role("button", name="Sign in").click()
        await tab.page.get_by_label("Code").fill(code)
        assert await tab.find_faults() == []
        await tab.page.get_by_role("button", name="Sign in").click()
        await tab.page.get_by_text("is incorrect or was already used").wait_for()
        await tab.page.get_by_label("Code").fill(recovery)
        await tab.page.get_by_role("button", name="Sign in").click()
        await tab.page.get_by_role("heading", name="Overview").wait_for()
        assert tab.complaints == []


async def test_a_colleague_is_invited_accepts_and_sets_a_second_factor_up(
    redis_stores: OpenStores, tmp_path: Path
) -> None:
    async with open_stage(redis_stores, tmp_path) as stage, open_browser() as browser:
        await stage.add_person()
        ada = await Tab.open(browser, stage.origin)
        await ada.sign_in()
        await ada.go("/people")
        invite = ada.page.get_by_role("form", name="Invite")
        await invite.get_by_text("App roles").click()
        await invite.get_by_label("shop", exact=True).select_option("editor")
        assert await ada.find_faults() == []
        await invite.get_by_role("button", name="Invite").click()
        await ada.page.get_by_role("heading", name="New invitation").wait_for()
        assert await ada.find_faults() == []
        link = await ada.page.locator(".copy code").inner_text()
        vera = await Tab.open(browser, stage.origin, wide=390, high=844)
        await vera.page.goto(link)
        await vera.page.get_by_text("shop: editor").wait_for()
        assert await vera.find_faults() == []
        await vera.page.get_by_label("User name").fill("vera")
        for label in ("Password", "Password again"):
            await vera.page.get_by_label(label, exact=True).fill(PASSWORD)
        await vera.page.get_by_label("Set up a second factor next").check()
        await vera.page.get_by_role("button", name="Accept").click()
        await vera.page.get_by_role("heading", name="My account").wait_for()
        await vera.page.locator("#f-factor-password").fill(PASSWORD)
        await vera.page.get_by_role("button", name="Set up").click()
        secret = base64.b32decode(await vera.page.locator(".copy code").inner_text())
        code = TOTP(secret, 6, SHA1(), 30).generate(stage.corner.clock.now_ms() // 1000).decode()
        await vera.page.get_by_label("Code").fill(code)
        await vera.page.get_by_role("button", name="Turn on").click()
        await vera.page.get_by_role("heading", name="Recovery codes").wait_for()
        assert await vera.go("/apps/shop/rules") == 200
        late = await Tab.open(browser, stage.origin)
        await late.page.goto(link)
        await late.page.get_by_text("This invitation is not valid").wait_for()
        assert await late.find_faults() == []
        await ada.go("/people")
        await ada.page.get_by_role("link", name="vera").wait_for()
        await ada.page.get_by_text("No open invitations").wait_for()
        assert (ada.complaints, vera.complaints) == ([], [])
