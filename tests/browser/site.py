"""A whole installation in this process with the sample data, on a loopback port, and a browser that visits it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

from actors.language.hashing_embedder import HashingEmbedder
from actors.serving.host import EngineHost
from cluster.clock import SystemClock
from cluster.meter import SilentMeter
from deployments.api.http.application import build_application
from deployments.demo.browser_script import build_script_routes
from deployments.demo.routes import DemoServices, build_demo_routes
from jobs.playground.loader import SampleData, build_sample, load_playground
from tests.contract.oauth.test_browser import BROWSER, playwright, serving
from tests.fakes.local_recommender import LocalRecommenderClient
from tests.fakes.request_handler import BROWSER as AGENT
from tests.fakes.request_handler import Corner, open_corner
from tests.fakes.stores.memory import memory_stores

HOSTILE = "<img src=x onerror=document.title='taken'>Zebra rake"
"A title that would run code if a page took it for HTML."
VIEWS = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]
"Width and theme of each visit."


@dataclass
class Site:
    """A running installation: app `playground` is read-only, app `shop` accepts writes and holds some of the sample."""

    url: str
    corner: Corner
    browser: Any
    faults: list[str] = field(default_factory=list)
    "What the console of the browser complained about since the last visit began."

    @asynccontextmanager
    async def visit(self, path: str = "", *, width: int = 1280, theme: str = "light") -> AsyncIterator[Any]:
        """Open a page as a new visitor, and fail if the browser complains about anything."""
        context = await self.browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, user_agent=AGENT
        )
        self.faults = faults = []
        page = await context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda line: faults.append(line.text) if line.type == "error" else None)
        try:
            if path:
                await page.goto(self.url + path)
            yield page
        finally:
            await context.close()
        assert faults == []


@asynccontextmanager
async def open_site() -> AsyncIterator[Site]:
    """Load the sample into two apps, serve them, and start the browser."""
    clock = SystemClock()
    stores = memory_stores(clock)
    whole = _with_hostile(build_sample(clock.now_ms()))
    for app_id, sample in (("playground", whole), ("shop", _some(whole))):
        await load_playground(
            stores, now_ms=clock.now_ms(), embedder=HashingEmbedder(), app_id=app_id, whole=sample
        )
    host = EngineHost(stores, None, clock, SilentMeter())
    await host.start()
    corner = await open_corner(clock=clock, stores=stores, client=LocalRecommenderClient(host))
    await corner.asking.start()
    more = [*build_script_routes(), *build_demo_routes(DemoServices(corner.keyring))]
    app = build_application(corner.handler, version="0", more=more, pages=True)
    async with serving(app) as url, playwright.async_playwright() as driver:
        # The option and not only the context names the agent: beacons leave the browser beside the page.
        args = ["--no-sandbox", f"--user-agent={AGENT}"]
        browser = await driver.chromium.launch(executable_path=BROWSER, args=args)
        yield Site(url, corner, browser)
        await browser.close()
    await corner.close()
    await host.close()


def _some(whole: SampleData) -> SampleData:
    """Return a few products, among them those that the tests name, and nobody's history."""
    named = ("tugboat", "bulb-planter", "zell-border-crossing")
    products = [product for product in whole.products if product["product_id"] in named]
    return SampleData([*products, *whole.products[:40]], [], [])


def _with_hostile(whole: SampleData) -> SampleData:
    """Add a product whose texts try to become HTML."""
    hostile = orjson.loads(orjson.dumps(whole.products[0])) | {
        "product_id": "hostile-rake", "product_group_id": "hostile-rake", "title": HOSTILE,
        "description": HOSTILE, "brand": HOSTILE, "tags": [HOSTILE], "url": "javascript:document.title='taken'",
    }  # fmt: skip
    return SampleData([*whole.products, hostile], whole.users, whole.interactions)
