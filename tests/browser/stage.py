"""The console and the API in this process behind a real server, and a real headless Chromium in front of it."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from actors.serving.host import EngineHost
from actors.serving.model_registry import SnapshotLoader
from cluster.artifacts.snapshots import SnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.meter import SilentMeter
from cluster.store.connect import OpenStores
from deployments.api.http.application import build_application
from deployments.api.http.local_api import LocalApi
from deployments.console.app import build_console_routes
from deployments.console.services import ConsoleServices
from deployments.operations.framework.principal import Principal
from deployments.operations.framework.services import (
    AdminConfig,
    AdminServices,
    ImportLauncher,
    refuse_imports,
)
from tests.fakes.archive_oauth import PASSWORD, an_account
from tests.fakes.console import open_console_services
from tests.fakes.corner_shop import furnish
from tests.fakes.local_recommender import LocalRecommenderClient
from tests.fakes.request_handler import Corner, open_corner

playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
BROWSER = os.environ.get("KIOSK_TEST_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
NEEDS_BROWSER = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium or Chrome on PATH nor in KIOSK_TEST_BROWSER"
)
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
AXE = Path(__file__).with_name("axe.min.js")
HOSTILE = "\"><script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}' `${1}` ‮"
"Breaks out of every context that does not escape it."
_RUN_AXE = """async (only) => {
  const options = {resultTypes: ["violations"], ...(only ? {runOnly: {type: "rule", values: only}} : {})};
  const found = await axe.run(document, options);
  return found.violations.filter((one) => ["serious", "critical"].includes(one.impact))
    .map((one) => one.id + ": " + one.nodes.slice(0, 3).map((it) => it.target + " " + it.failureSummary).join(" | "));
}"""


@dataclass
class Stage:
    """An installation that a browser can open."""

    origin: str
    corner: Corner
    console: ConsoleServices
    artifacts: ArtifactStore

    async def add_person(self, username: str = "ada", **facts: Any) -> None:
        """Add an account that signs in with `PASSWORD`; an administrator unless told otherwise."""
        account = an_account(username, facts.pop("role", "administrator"))
        await self.corner.stores.accounts.add(account.model_copy(update=facts))

    async def perform(self, name: str, /, **arguments: Any) -> Any:
        """Perform an operation of the administration on `shop`."""
        person = Principal("ada", "usr-ada", "console", is_administrator=True)
        return await self.console.administration.perform(person, name, {"app_id": "shop", **arguments})


@asynccontextmanager
async def open_stage(
    stores: OpenStores, folder: Path, *, launch_import: ImportLauncher = refuse_imports
) -> AsyncIterator[Stage]:
    """Serve the API and the console over real stores on a free loopback port."""
    clock = SystemClock()
    await furnish(stores)
    artifacts = ArtifactStore.open(folder / "artifacts")
    models = SnapshotLoader(SnapshotStore(artifacts))
    host = EngineHost(stores, None, clock, SilentMeter(), models=models)
    await host.start()
    client = LocalRecommenderClient(host)
    corner = await open_corner(clock=clock, stores=stores, client=client, artifacts=artifacts)
    services = AdminServices(
        stores, corner.vault, clock, artifacts, config=AdminConfig(data_dir=folder),
        api=LocalApi(corner.handler, corner.keyring.secret_of), launch_import=launch_import,
        recommender=client,
    )  # fmt: skip
    console = open_console_services(
        stores, clock, services=services, app_ids=corner.keyring.app_ids, public_url=""
    )
    app = build_application(corner.handler, version="0", more=build_console_routes(console))
    try:
        async with serve_application(app) as origin:
            yield Stage(origin, corner, console, artifacts)
    finally:
        await corner.close()
        await host.close()


@asynccontextmanager
async def serve_application(app: Any) -> AsyncIterator[str]:
    """Serve an application on a free loopback port; yield its address."""
    # With its protocol named, asyncio sends each part of an answer at once (TCP_NODELAY); else some wait for 40 ms.
    with socket.socket(proto=socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
        listening.listen()
        running = asyncio.ensure_future(server.serve(sockets=[listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running


@asynccontextmanager
async def open_browser() -> AsyncIterator[Any]:
    """Start Chromium."""
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=BROWSER, args=list(FLAGS))
        try:
            yield browser
        finally:
            await browser.close()


@dataclass
class Tab:
    """A page in a browser, and everything it complained about."""

    page: Any
    origin: str
    complaints: list[str] = field(default_factory=list)

    @classmethod
    async def open(
        cls, browser: Any, origin: str, *, wide: int = 1280, high: int = 900, scheme: str = "light"
    ) -> Tab:
        """Open a tab with cookies of its own."""
        context = await browser.new_context(viewport={"width": wide, "height": high}, color_scheme=scheme)
        await context.add_init_script(path=AXE)
        page = await context.new_page()
        tab = cls(page, origin)
        page.on("console", lambda message: tab._hear(message))
        page.on("pageerror", lambda error: tab.complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: tab.complaints.append(f"dialog: {dialog.message}"))
        return tab

    def _hear(self, message: Any) -> None:
        # Chromium also logs each answer of 400 and more; tests look at the status themselves.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.complaints.append(f"{message.type}: {message.text}")

    async def go(self, path: str) -> int:
        """Open an address below `/console`; return its status."""
        answer = await self.page.goto(f"{self.origin}/console{path}")
        return int(answer.status)

    async def sign_in(self, username: str = "ada", password: str = PASSWORD) -> None:
        """Sign in by the form."""
        await self.go("/sign-in")
        await self.page.get_by_label("User name").fill(username)
        await self.page.get_by_label("Password").fill(password)
        await self.page.get_by_role("button", name="Sign in").click()

    async def find_faults(self, *rules: str) -> list[str]:
        """Return what axe-core finds serious or critical, by some rules or by all, once no part is loading."""
        await self.page.locator(".htmx-request").first.wait_for(state="detached")
        faults: list[str] = await self.page.evaluate(_RUN_AXE, list(rules) or None)
        return faults


async def draft_experiment(tab: Tab, app_id: str) -> None:
    """Plan an experiment of two variants on its form, and create the draft."""
    await tab.go(f"/apps/{app_id}/experiments/new")
    page = tab.page
    await page.get_by_label("Conversion rate today").fill("20")
    await page.get_by_label("Minimum detectable effect").fill("15")
    await page.locator("#plan").get_by_text("5,766").wait_for()
    await page.locator("[name=name]").fill("Blue button")
    await page.locator("[name=variant_1]").fill("now")
    await page.locator("[name=variant_2]").fill("blue")
    await page.get_by_label("Our shop reports exposure itself").check()
    await page.get_by_role("button", name="Create the draft").click()
    await page.get_by_role("heading", name="Blue button").wait_for()


async def change_experiment(tab: Tab, step: str, status: str) -> None:
    """Take a step on the page of the drafted experiment, and wait for its status."""
    page = tab.page
    await page.get_by_role("button", name=step).click()
    await page.get_by_role("dialog").get_by_role("button", name=step).click()
    await page.get_by_text(f"Blue button is {status}.").wait_for()
