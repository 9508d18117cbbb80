"""The pages at /docs in a real browser: contents, search, programs in three languages, and the administration apart."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from deployments.api.http.application import build_application
from deployments.front.admin_routes import describe_administration_routes
from tests.contract.example_player import ExamplePlayer
from tests.contract.oauth.test_browser import BROWSER, SHOTS, playwright, serving
from tests.contract.test_try_page import SIZES

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium or Chrome on PATH nor in KIOSK_TEST_BROWSER"
)


@asynccontextmanager
async def _opened(size: str = "desktop") -> AsyncIterator[tuple[Any, str, ExamplePlayer, list[str]]]:
    player = await ExamplePlayer.open()
    app = build_application(
        player.corner.handler, version="0", describe_more=[describe_administration_routes]
    )
    async with serving(app) as site, playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        width, height = SIZES[size]
        page = await browser.new_page(viewport={"width": width, "height": height})
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda line: faults.append(line.text) if line.type == "error" else None)
        yield page, site, player, faults
        await browser.close()
    await player.close()


@pytest.mark.parametrize("size", list(SIZES))
async def test_contents_and_search_lead_to_an_operation(size: str) -> None:
    expect = playwright.expect
    async with _opened(size) as (page, site, _, faults):
        await page.goto(f"{site}/docs")
        await expect(page.locator("#side .group > a").first).to_be_visible()
        link = page.locator("#side a[href='#search.autocomplete']")
        await (expect(link).to_be_visible() if size == "desktop" else expect(link).to_be_hidden())
        if SHOTS:
            await page.screenshot(path=str(Path(SHOTS) / f"docs-start-{size}.png"))
        await page.keyboard.press("/")
        await page.keyboard.type("min_query_users")
        await expect(page.locator("#found")).to_contain_text("found")
        await expect(link).to_be_visible()
        await expect(page.locator("[id='users.upload']")).to_be_hidden()
        await link.click()
        await expect(page.locator("[id='search.autocomplete']")).to_have_attribute("open", "")
        await expect(page.locator("[id='search.autocomplete'] >> text=min_query_users").first).to_be_visible()
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        if SHOTS:
            await page.screenshot(path=str(Path(SHOTS) / f"docs-found-{size}.png"))
        await page.fill("#find", "no such thing anywhere")
        await expect(page.locator("#found")).to_have_text("0 found")
        await page.fill("#find", "")
        await expect(page.locator("[id='users.upload']")).to_be_visible()
    assert faults == []


async def test_an_address_with_an_operation_opens_it() -> None:
    async with _opened() as (page, site, _, faults):
        await page.goto(f"{site}/docs#recommendation.user_to_trending")
        await playwright.expect(
            page.locator("[id='recommendation.user_to_trending'] pre").first
        ).to_be_visible()
    assert faults == []


async def test_programs_come_in_three_languages_and_every_one_of_them_is_a_program() -> None:
    async with _opened() as (page, site, _, faults):
        blank = await page.context.browser.new_page()
        kind = "Object.getPrototypeOf(async () => {}).constructor"
        read = "[...document.querySelectorAll('main pre')].flatMap((pre) => pre.programs ?? [])"
        for path in ("/docs", "/docs/administration"):
            await page.goto(site + path)
            programs = await page.evaluate(read)
            assert len(programs) > 40
            for program in programs:
                assert list(program) == ["curl", "Python", "JavaScript"]
                compile(program["Python"], "page", "exec")
            sources = [program["JavaScript"].replace("body: file", "body: ''") for program in programs]
            await blank.evaluate(f"(sources) => sources.forEach((source) => new ({kind})(source))", sources)
    assert faults == []


async def test_the_python_program_of_an_example_is_answered_like_its_curl() -> None:
    async with _opened() as (page, site, player, faults):
        await page.goto(f"{site}/docs#users.upload")
        block = page.locator("[id='users.upload']")
        await block.get_by_role("tab", name="Python").click()
        text = await block.locator("pre").first.inner_text()
        assert text.startswith("import httpx")
        program = text.replace("YOUR_KEY", player.corner.secret())
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, error = await process.communicate()
        assert process.returncode == 0, error.decode()
        assert "task_id" in out.decode()
        await block.get_by_role("tab", name="curl").click()
        assert (await block.locator("pre").first.inner_text()).startswith("curl -s")
    assert faults == []


async def test_a_program_is_copied_by_one_click() -> None:
    async with _opened() as (page, site, _, faults):
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await page.goto(f"{site}/docs#search.search")
        block = page.locator("[id='search.search']")
        await block.get_by_role("tab", name="JavaScript").click()
        await block.get_by_role("button", name="Copy").first.click()
        await playwright.expect(block.get_by_role("button", name="Copied")).to_be_visible()
        copied = await page.evaluate("navigator.clipboard.readText()")
        assert copied == await block.locator("pre").first.inner_text()
        assert copied.startswith("const answer = await fetch(")
        assert f"{site}/v1/search/search" in copied
    assert faults == []


async def test_the_administration_has_a_separate_page() -> None:
    async with _opened() as (page, site, _, faults):
        await page.goto(f"{site}/docs")
        assert "administration" not in (await page.inner_text("#side")).lower().replace(
            "administration", "", 1
        )
        assert await page.locator("[id='apps.list']").count() == 0
        await page.click("#side a[href='docs/administration']")
        await playwright.expect(page.locator("[id='apps.list']")).to_be_visible()
        assert await page.locator("[id='search.search']").count() == 0
        links = await page.evaluate("[...document.querySelectorAll('a')].map((link) => link.href)")
        assert {link.partition("#")[0] for link in links} == {
            f"{site}/docs/try", f"{site}/openapi.json", f"{site}/docs", f"{site}/docs/administration",
        }  # fmt: skip
        if SHOTS:
            await page.screenshot(path=str(Path(SHOTS) / "docs-administration.png"))
    assert faults == []


async def test_without_a_script_everything_is_there() -> None:
    async with _opened() as (page, site, _, _faults):
        plain = await page.context.browser.new_context(java_script_enabled=False)
        still = await plain.new_page()
        await still.goto(f"{site}/docs")
        await playwright.expect(still.locator("[id='search.search']")).to_be_visible()
        await playwright.expect(still.locator("#tools")).to_be_hidden()
        await plain.close()
