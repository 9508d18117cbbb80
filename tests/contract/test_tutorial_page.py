"""The page of the tutorial for web developers works in a real browser, on another origin than Kiosk."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route

from tests.contract.oauth.test_browser import BROWSER, playwright, serving
from tests.contract.page_player import DOCS, PagePlayer, read_blocks
from tests.contract.test_try_page import _opened

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium or Chrome on PATH nor in KIOSK_TEST_BROWSER"
)


async def test_the_page_of_the_tutorial_recommends_searches_and_learns_from_a_click() -> None:
    expect, tutorial = playwright.expect, DOCS / "tutorials" / "web-developer.md"
    (html,) = [block.text for block in read_blocks(tutorial) if block.language == "html"]
    async with _opened("desktop") as (page, site, player, faults):
        plays = PagePlayer(player)
        await plays.play(DOCS / "getting-started.md")
        await plays.play(tutorial)
        html = html.replace("http://localhost:8000", site).replace(
            "kpk_dev_...", plays.variables["PUBLISHABLE"]
        )
        html = html.replace('user_hash: "..."', f'user_hash: "{plays.variables["USER_HASH"]}"')
        async with serving(Starlette(routes=[Route("/", lambda _: HTMLResponse(html))])) as shop:
            await page.goto(shop)
            await expect(page.locator("#for-you li")).to_have_count(3)
            first = await page.locator("#for-you li").first.inner_text()
            await page.locator("#for-you li").first.click()
            await expect(page.locator("#for-you li").first).not_to_have_text(first)
            await page.fill("#query", "crocs")
            await expect(page.locator("#found li").first).to_have_text("Fifty crocus bulbs")
            await expect(page.locator("#completions option")).not_to_have_count(0)
            assert faults == []
