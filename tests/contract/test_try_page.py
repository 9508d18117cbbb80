"""The pages for web developers in a real browser: Chromium of the system, headless, against a real server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route

from deployments.api.http.application import build_application
from tests.contract.example_player import ExamplePlayer
from tests.contract.oauth.test_browser import BROWSER, SHOTS, playwright, serving
from tests.contract.test_api_guide import blocks, commands, proofs, run
from tests.fakes.request_handler import BROWSER as AGENT

SIZES = {"desktop": (1280, 900), "phone": (390, 844)}

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium or Chrome on PATH nor in KIOSK_TEST_BROWSER"
)


@asynccontextmanager
async def _opened(size: str) -> AsyncIterator[tuple[Any, str, ExamplePlayer, list[str]]]:
    player = await ExamplePlayer.open()
    app = build_application(player.corner.handler, version="0")
    async with serving(app) as site, playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        width, height = SIZES[size]
        page = await browser.new_page(viewport={"width": width, "height": height}, user_agent=AGENT)
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda line: faults.append(line.text) if line.type == "error" else None)
        yield page, site, player, faults
        await browser.close()
    await player.close()


async def _keep(page: Any, name: str) -> None:
    if SHOTS:
        await page.screenshot(path=str(Path(SHOTS) / f"{name}.png"))


@pytest.mark.parametrize("size", list(SIZES))
async def test_a_newcomer_reads_an_operation_and_sends_its_example(size: str) -> None:
    expect = playwright.expect
    async with _opened(size) as (page, site, player, faults):
        await page.goto(f"{site}/docs")
        await page.click("[id='products.upload'] > summary")
        assert "curl -s" in await page.inner_text("[id='products.upload']")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        await _keep(page, f"docs-{size}")
        await page.click("[id='products.upload'] a[href^='docs/try']")
        await expect(page.locator("#curl")).to_contain_text("curl -s -X POST")
        assert (await page.input_value("#body")).startswith("{")
        await page.fill("#key", player.corner.secret())
        await page.click("#send")
        await expect(page.locator("#answer")).to_contain_text("task_id")
        await expect(page.locator("#status")).to_contain_text("200")
        assert player.corner.secret() not in await page.inner_text("body")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        await _keep(page, f"try-{size}")
        await page.fill("#key", "wrong")
        await page.click("#send")
        await expect(page.locator("#status")).to_contain_text("401")
    assert [fault for fault in faults if "401" not in fault] == []


async def test_the_snippet_of_the_guide_runs_on_a_page_of_another_origin() -> None:
    (snippet,) = blocks("javascript")
    async with _opened("desktop") as (page, site, player, faults):
        uploading = next(command for _, command in commands() if "/v1/products" in command)
        await run(player, uploading, proofs(player))
        shop = Starlette(routes=[Route("/", lambda _: HTMLResponse("<link rel=icon href='data:,'>"))])
        async with serving(shop) as origin:
            await page.goto(origin)
        values = f"const URL_OF_KIOSK = {site!r}, PUBLISHABLE = {player.corner.publishable()!r};"
        products = await page.evaluate(f"async () => {{ {values} {snippet} return list.products; }}")
    assert {product["product_id"] for product in products} == {"fork", "novel"}
    assert faults == []
