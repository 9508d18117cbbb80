"""A visitor walks through both demonstrations: Chromium of the system, headless, on the whole API in this process."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.browser.axe import find_faults
from tests.browser.site import HOSTILE, VIEWS, Site
from tests.contract.oauth.test_browser import BROWSER, SHOTS, playwright

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(BROWSER is None, reason="no Chromium or Chrome on PATH nor in KIOSK_TEST_BROWSER"),
]
expect = playwright.expect


async def _keep(page: Any, name: str) -> None:
    if SHOTS:
        await page.screenshot(path=str(Path(SHOTS) / f"{name}.png"), full_page=True)


async def _titles(page: Any, place: str) -> list[str]:
    return list(await page.locator(f"{place} .card .name").all_inner_texts())


async def _check_views(page: Any, name: str) -> None:
    """Check accessibility and width of the page as it is, in both themes, on a desk and on a phone."""
    for width, theme in VIEWS:
        await page.set_viewport_size({"width": width, "height": 900})
        await page.emulate_media(color_scheme=theme)
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (width, theme)
        assert await find_faults(page) == [], (width, theme)
        await _keep(page, f"{name}-{width}-{theme}")


async def test_a_look_at_a_product_changes_the_lists(site: Site) -> None:
    async with site.visit("/demo/shop") as page:
        await expect(page.locator("#for-you .card")).to_have_count(8)
        before = await _titles(page, "#for-you")
        await expect(page.locator("#trending .card")).to_have_count(4)
        assert set(before) & set(await _titles(page, "#trending")) == set()
        await page.locator("#for-you .name").first.click()
        await expect(page.locator("#looked-title")).to_have_text(before[0])
        await expect(page.locator("#looked-title")).to_be_focused()
        await expect(page.locator("#for-you .move").first).to_be_visible()
        await expect(page.locator("#looked .card")).to_have_count(4)
        for _ in range(100):  # the page asks for one list after the other
            after = await _titles(page, "#for-you")
            lists = [*await _titles(page, "#looked"), *after, *await _titles(page, "#trending")]
            if len(set(lists)) == len(lists) == 16:
                break
            await asyncio.sleep(0.05)
        assert len(set(lists)) == len(lists) == 16
        assert before[0] not in after
        assert len(set(after) - set(before)) >= 3
        await expect(page.locator("#done li")).to_have_text([f"looked at: {before[0]}"])
        await page.locator("#for-you summary").first.click()
        await expect(page.locator("#for-you details[open] li").first).to_have_text(
            "The engine ranks the catalog by what you did."
        )
        await _check_views(page, "demo-shop")
        await page.get_by_role("button", name="Like").first.click()
        await expect(page.get_by_role("button", name="Liked ✓")).to_be_visible()
        await expect(page.locator("#done li")).to_have_count(2)
        await page.click("#restart")
        await expect(page.locator("#done li")).to_have_text(["nothing yet"])
        await expect(page.locator("#for-you .name").first).to_have_text(before[0])


async def test_an_article_is_read_and_a_question_is_answered_with_its_source(site: Site) -> None:
    async with site.visit("/demo/news", width=390, theme="dark") as page:
        await expect(page.locator("#for-you .card")).to_have_count(6)
        before = await _titles(page, "#for-you")
        await page.locator("#for-you .name").first.click()
        await expect(page.locator("#looked-title")).to_have_text(before[0])
        await expect(page.locator("#looked .prose p").first).to_be_visible()
        await expect(page.locator("#for-you .move").first).to_be_visible()
        await page.fill("#question", "How long is the Kaltbach tunnel?")
        await page.keyboard.press("Enter")
        answer = page.locator("#questions .answer")
        await expect(answer.locator(".words")).to_contain_text("4.7 kilometres")
        await expect(page.locator("#status")).to_contain_text("4.7 kilometres")
        await expect(answer.locator(".stages li").first).to_be_visible()
        await answer.locator(".words a").first.click()
        assert (await page.evaluate("location.hash")) == "#source-1-1"
        await _check_views(page, "demo-news")
        await answer.locator(".sources button").first.click()
        await expect(page.locator("#looked-title")).to_contain_text("Zell")


async def test_the_keyboard_searches_with_completions_and_facets(site: Site) -> None:
    async with site.visit("/demo/shop") as page:
        await page.keyboard.press("Tab")
        await expect(page.locator(".skip")).to_be_focused()
        await page.focus("#query")
        await page.keyboard.type("garden")
        await expect(page.locator("#completions [role=option]").first).to_be_visible()
        assert await page.get_attribute("#query", "aria-expanded") == "true"
        await page.keyboard.press("ArrowDown")
        assert await page.get_attribute("#query", "aria-activedescendant") == "completion-0"
        assert await find_faults(page) == []
        await page.keyboard.press("Escape")
        await expect(page.locator("#completions")).to_be_hidden()
        await page.keyboard.press("Enter")
        heading = page.locator("#results-title")
        await expect(heading).to_contain_text("for “garden”")
        await expect(page.locator("#status")).to_contain_text("for “garden”")
        total = int((await heading.inner_text()).split()[0])
        facet = page.locator(".facets input").first
        await facet.focus()
        await page.keyboard.press("Space")
        await expect(facet).to_be_checked()
        await expect(heading).not_to_have_text(re.compile(rf"^{total} "))
        label = await page.locator(".facets label").first.inner_text()
        assert (await heading.inner_text()).split()[0] == label.rsplit("(", 1)[1].strip(")")
        await page.locator("#departments button").first.click()
        await expect(heading).to_be_focused()
        await _keep(page, "demo-search")


async def test_a_call_of_the_panel_runs_as_curl(site: Site) -> None:
    async with site.visit("/demo/shop") as page:
        await expect(page.locator("#for-you .card")).to_have_count(8)
        await page.locator("#for-you .name").first.click()
        await expect(page.locator("#for-you .move").first).to_be_visible()
        shown = await _titles(page, "#for-you")
        # Without a clipboard the page shows the command instead of copying it.
        await page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
        call = page.locator("#calls details", has_text="user_to_products").first
        await call.locator("summary").click()
        await call.get_by_role("button", name="Copy as curl").click()
        words = shlex.split(await call.locator("pre").first.inner_text())
        assert words[:2] == ["curl", "-s"]
        url, _, agent, _, body = words[2:]
        assert json.loads(body)["additional_interactions"][0]["type"] == "product_detail_page_view"
        async with httpx.AsyncClient() as http:
            reply = await http.post(url, content=body, headers={"user-agent": agent})
        assert [product["title"] for product in reply.json()["data"]["products"]] == shown


async def test_hostile_texts_stay_texts(site: Site) -> None:
    async with site.visit("/demo/shop") as page:
        await page.fill("#query", "zebra rake")
        await expect(page.locator("#completions [role=option]").first).to_be_visible()
        await page.keyboard.press("Enter")
        name = page.locator("#search .card .name").first
        await expect(name).to_have_text(HOSTILE)
        await expect(page.locator(".facets label", has_text=HOSTILE)).to_be_visible()
        await name.click()
        await expect(page.locator("#looked-title")).to_have_text(HOSTILE)
        await page.fill("#question", f"{HOSTILE}?")
        await page.keyboard.press("Enter")
        await expect(page.locator("#questions .answer")).to_have_attribute("aria-busy", "false")
        assert await page.locator("main img").count() == 0
        assert await page.title() == "A shop that learns while you look · Kiosk"


async def test_the_start_page_leads_to_the_demonstrations(site: Site) -> None:
    async with site.visit("/") as page:
        await page.click("text=/demo")
        await expect(page.get_by_role("heading", name="Two demonstrations")).to_be_visible()
        await _check_views(page, "demo-index")
        await page.get_by_role("link", name="A newspaper").click()
        await expect(page.locator("#for-you .card").first).to_be_visible()
