"""A person with a browser who walks through the console and the demonstrations of a running installation."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote

from cluster.clock import SystemClock, iso_ms
from deployments.console.pages.all_pages import PAGES
from tests.browser.stage import Tab, change_experiment, draft_experiment, playwright
from tests.fakes.trained_snapshot import NOW_S, name, ring_products, ring_walks

APP = "journey"
USER = "r007"
QUESTION = "How long is the Kaltbach tunnel?"
MODELS = f"/apps/{APP}/models"
ENGINE = f"{MODELS}/engines/default"
LARGE_BYTES = 40 << 20
"More than a request of the API may have, less than an upload of the console."
SHOTS = os.environ.get("KIOSK_TEST_SHOTS", "")
"Folder for a picture of each page in both widths and themes; empty: none."
VIEWS = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]


@dataclass
class ConsoleJourney:
    """The steps of the journey, in one tab of a browser."""

    tab: Tab
    folder: Path
    seconds: dict[str, float] = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    "Answers of 400 and more."

    @property
    def page(self) -> Any:
        """Return the open page."""
        return self.tab.page

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Measure a step, and fail if the browser complained in it."""
        began = time.monotonic()
        yield
        self.seconds[what] = round(time.monotonic() - began, 1)
        assert (self.tab.complaints, self.refusals) == ([], []), what

    async def start(self, username: str, password: str) -> None:
        """Sign in, and create an app."""
        self.page.set_default_timeout(30_000)
        self.page.on("response", self._hear)
        with self.step("sign in"):
            await self.tab.sign_in(username, password)
            await self.page.get_by_role("heading", name="Overview").wait_for()
        with self.step("create an app"):
            await self.page.get_by_role("link", name="Apps").click()
            await self.page.get_by_label("Id", exact=True).fill(APP)
            await self.page.get_by_role("button", name="Create", exact=True).click()
            await self.page.get_by_role("heading", name=f"{APP} · API keys").wait_for()
            await self.page.get_by_role("link", name=f"Back to {APP}").click()
            await self.page.get_by_role("heading", name=f"{APP} · Access").wait_for()

    def _hear(self, response: Any) -> None:
        if response.status >= 400:
            self.refusals.append(f"{response.status} {response.request.method} {response.url}")

    async def import_files(self) -> None:
        """Import dirty products and a history of interactions; upload and remove a large file."""
        products, events, large = await asyncio.to_thread(self._write_files)
        page = self.page
        with self.step("import a dirty CSV"):
            await self._upload(products, "product")
            await page.get_by_role("heading", name="Columns").wait_for()
            assert await page.get_by_label("Field of the column SKU").input_value() == "product_id"
            await page.get_by_label("Field of the column Tray").select_option("categories")
            await page.get_by_role("button", name="Dry run").click()
            await page.get_by_text("30 of the first 33 rows would be accepted, 3 refused").wait_for()
            await self._look("import-mapping")
            await page.get_by_role("button", name="Start the import").click()
            await page.get_by_role("heading", name="Refused rows").wait_for()
            async with page.expect_download() as download:
                await page.get_by_role("link", name="Download as JSON Lines").click()
            refused = await asyncio.to_thread(Path(await (await download.value).path()).read_text, "utf-8")
            assert len(refused.splitlines()) == 3
            await self._look("import-refused")
        with self.step("import interactions"):
            await self._upload(events, "interaction")
            await page.get_by_role("button", name="Start the import").click()
            await page.locator(".stat", has_text="State").get_by_text("finished").wait_for()
        with self.step("upload a large file and remove it"):
            await self._upload(large, "interaction")
            await page.get_by_role("heading", name="Columns").wait_for()
            await page.get_by_role("button", name="Remove").click()
            await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
            await page.get_by_text("The import and its file are removed.").wait_for()

    def _write_files(self) -> tuple[Path, Path, Path]:
        rows = [
            f"{bead['product_id']};{bead['title']};{bead['brand']};{bead['categories'][0][0]};{at % 7 + 1},50"
            for at, bead in enumerate(ring_products())
        ]
        dirty = [
            ";Without an id;maker-1;tray-1;1,00",
            "bad-price;A bad price;maker-1;tray-1;dear",
            "short;row",
        ]
        products = self.folder / "products <b>.csv"
        products.write_text("\ufeffSKU;Name;Brand;Tray;Price\n" + "\n".join([*rows, *dirty]) + "\n", "utf-8")
        moved_ms = SystemClock().now_ms() - int(NOW_S * 1000) + 20 * 86_400_000
        lines = [
            json.dumps(
                {"type": "click", "user_id": user.removeprefix("u:"), "product_ids": [product_id],
                 "timestamp": iso_ms(int(at_s * 1000) + moved_ms)}
            )
            for user, product_id, at_s, _ in ring_walks()
        ]  # fmt: skip
        events = self.folder / "events.jsonl"
        events.write_text("\n".join(lines) + "\n", "utf-8")
        large, text = self.folder / "large.jsonl", "\n".join(lines) + "\n"
        large.write_text(text * (LARGE_BYTES // len(text) + 1), "utf-8")
        return products, events, large

    async def _upload(self, file: Path, noun: str) -> None:
        await self.tab.go(f"/apps/{APP}/import")
        await self.page.get_by_label("File", exact=False).first.set_input_files(file)
        await self.page.get_by_label("Every row is").select_option(noun)
        await self.page.get_by_role("button", name="Upload").click()
        await self.page.get_by_role("heading", name=file.name).wait_for()

    async def walk(self, username: str, password: str) -> None:
        """Walk the whole way."""
        await self.start(username, password)
        await self.import_files()
        await self.train_and_promote()
        await self.steer()
        await self.ask()
        await self.erase_a_user()
        await self.visit_pages()
        await self.visit_demonstrations()

    async def train_and_promote(self) -> None:
        """Train twice, compare, promote and roll back."""
        page = self.page
        with self.step("train"):
            await self._order("seed=7")
            first = await self._wait_for_snapshot()
        with self.step("promote the first snapshot"):
            await self._promote(first)
        with self.step("train again"):
            await self._order("seed=8\nparts.rules.window=3")
            second = await self._wait_for_snapshot()
        with self.step("compare"):
            await self.tab.go(ENGINE)
            await page.get_by_role("button", name="Compare").click()
            await page.get_by_role("heading", name=f"{first} and {second}").wait_for()
            await page.get_by_label("User ids").fill(USER)
            await page.get_by_role("button", name="Show recommendations").click()
            await page.get_by_role("heading", name=USER).wait_for()
            await self._look("compare")
        with self.step("promote the second snapshot and roll back"):
            await self._promote(second)
            await page.get_by_role("button", name="Roll back").click()
            await page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
            await page.get_by_text(f"Rolled back to snapshot {first}.").wait_for()

    async def _order(self, changes: str) -> None:
        page = self.page
        await self.tab.go(f"{MODELS}/trainings/new")
        await page.get_by_label("Recipe", exact=True).select_option("fast")
        await page.get_by_label("Recipe changes").fill(changes)
        await page.get_by_role("button", name="Train", exact=True).click()
        await page.get_by_text("is queued.").wait_for()

    async def _wait_for_snapshot(self) -> str:
        link = self.page.locator("#progress a[href*='/snapshots/']")
        await link.wait_for(timeout=120_000)
        return str(await link.inner_text())

    async def _promote(self, version: str) -> None:
        page = self.page
        await self.tab.go(f"{ENGINE}/snapshots/{version}")
        await page.get_by_role("heading", name="Promotion").wait_for()
        if await page.get_by_label("Reason").count():
            await page.get_by_label("Reason").fill("a journey through the console")
            await page.get_by_role("button", name="Promote anyway").click()
        else:
            await page.get_by_role("button", name="Promote").click()
            await page.get_by_role("dialog").get_by_role("button", name="Promote").click()
        await page.get_by_text(f"Snapshot {version} is promoted.").wait_for()

    async def steer(self) -> None:
        """Make and preview a rule, and run an experiment."""
        page = self.page
        with self.step("make and preview a rule"):
            await self.tab.go(f"/apps/{APP}/rules/edit")
            await page.get_by_label("Name", exact=False).first.fill("first bead")
            await page.get_by_label("Filter that selects products to pin").fill(f"product_id:{name(3)}")
            await page.get_by_label("Positions", exact=False).fill("1")
            await page.get_by_label("Users to try").fill(USER)
            await page.locator("#preview").get_by_text("Bead number 3 ").first.wait_for()
            await self._look("rule-preview")
            await page.get_by_role("button", name="Save", exact=True).click()
            await page.get_by_text("first bead was saved").wait_for()
        with self.step("run an experiment"):
            await draft_experiment(self.tab, APP)
            for step, status in (("Start", "Active"), ("Conclude", "Completed")):
                await change_experiment(self.tab, step, status)

    async def ask(self) -> None:
        """Call the API from Try it: recommendations of both snapshots, and a question."""
        page = self.page
        with self.step("try recommendations"):
            await self.tab.go(f"/apps/{APP}/try")
            await page.get_by_label("User id").first.fill(USER)
            await page.get_by_label("Compare A and B").check()
            await page.get_by_label("User id").last.fill("nobody")
            await page.get_by_role("button", name="Send").click()
            await page.get_by_role("heading", name="Answers").wait_for()
            assert await page.get_by_role("heading", name="Variant").count() == 2
            await self._look("try-answers")
        with self.step("ask a question"):
            await self.tab.go("/apps/playground/try")
            await page.get_by_label("Endpoint").select_option("ask")
            await page.locator("[name=q]").fill(QUESTION)
            await page.get_by_role("button", name="Send").click()
            await page.locator("#results").get_by_text("4.7 kilometres").first.wait_for()

    async def erase_a_user(self) -> None:
        """Look a user up, and erase them."""
        page = self.page
        with self.step("look a user up"):
            await self.tab.go(f"/apps/{APP}/readers")
            await page.get_by_label("User id").fill(USER)
            await page.get_by_role("button", name="View").click()
            await page.get_by_text("Served by: personal").wait_for()
            await self._look("reader")
            await page.get_by_label("Product id").fill(name(3))
            await page.get_by_role("button", name="Explain").click()
            await page.locator("#absence li").first.wait_for()
        with self.step("erase them"):
            await page.get_by_role("button", name="Erase").click()
            dialog = page.get_by_role("dialog")
            await dialog.locator("[name=confirm]").fill(USER)
            await dialog.get_by_role("button", name="Erase").click()
            await page.locator("#receipt").get_by_text("finished").first.wait_for(timeout=60_000)
        with self.step("look for them in vain"):
            assert await self.tab.go(f"/apps/{APP}/readers/one?user_id={USER}") == 404
            await page.get_by_text(f"nothing is known of {USER} in {APP}").wait_for()
            self.refusals.clear()

    async def visit_pages(self) -> None:
        """Open each page of the console, and those that lists lead to, in the app that is full now."""
        with self.step("open each page"):
            paths = dict.fromkeys([*_list_addresses(), *await self._find_links()])
            for at, path in enumerate(paths):
                status = await self.tab.go(path)
                assert status == 200, (path, status)
                await self.tab.page.locator(".htmx-request").first.wait_for(state="detached")
                await self._look(path)
                width, theme = VIEWS[at % len(VIEWS)]
                await self._show_as(width, theme)
                assert await self.tab.find_faults() == [], (path, width, theme)
                assert await self.page.evaluate("document.documentElement.scrollWidth") <= width, path
                assert self.tab.complaints == [], path
            await self._show_as(1280, "light")

    async def _show_as(self, width: int, theme: str) -> None:
        await self.page.set_viewport_size({"width": width, "height": 900})
        await self.page.emulate_media(color_scheme=theme)

    async def _look(self, path: str) -> None:
        if not SHOTS:
            return
        label = re.sub(r"\W+", "-", path).strip("-") or "overview"
        for width, theme in VIEWS:
            await self._show_as(width, theme)
            await self.page.wait_for_timeout(300)
            target = str(Path(SHOTS) / f"{label[:90]}-{width}-{theme}.png")
            await self.page.screenshot(path=target, full_page=True)
        await self._show_as(1280, "light")

    async def _find_links(self) -> list[str]:
        """Return pages of single things, which lists lead to."""
        paths = []
        for start, pattern in (
            (f"/apps/{APP}/import", f"/apps/{APP}/import/"),
            (f"/apps/{APP}/catalog", "/catalog/product"),
            ("/apps/playground/catalog", "/catalog/product"),
            ("/apps/playground/readers", "/readers/one"),
            ("/apps/playground/search", "/apps/playground/questions"),
            (f"/apps/{APP}/readers/erasures", "/readers/erasures/"),
            (f"/apps/{APP}/experiments", f"/apps/{APP}/experiments/"),
            (f"{MODELS}/trainings", f"{MODELS}/trainings/run-"),
            (ENGINE, f"{ENGINE}/snapshots/"),
            (f"/apps/{APP}/quarantine", "/quarantine/entry"),
            (f"/apps/{APP}/rules", "/rules/edit?name="),
        ):
            await self.tab.go(start)
            links = await self.page.locator("main a").evaluate_all(
                "all => all.map((one) => one.getAttribute('href'))"
            )
            paths += [
                link.removeprefix("/console")
                for link in links
                if link and pattern in link and not link.endswith("/new")
            ][:1]
        return paths

    async def visit_demonstrations(self) -> None:
        """Walk through both demonstrations: look at things, see the lists change, ask."""
        page, expect = self.page, playwright.expect
        with self.step("demonstration of a shop"):
            await page.goto(f"{self.tab.origin}/demo/shop")
            await expect(page.locator("#for-you .card")).to_have_count(8)
            await page.locator("#for-you .name").first.click()
            await page.locator("#for-you .move").first.wait_for()
            await page.fill("#query", "garden")
            await page.keyboard.press("Enter")
            await expect(page.locator("#results-title")).to_contain_text("for “garden”")
            await page.wait_for_timeout(
                300
            )  # completions that were asked for late must not cover the results
            await expect(page.locator("#completions")).to_be_hidden()
            await self._look("demo-shop")
        with self.step("demonstration of a newspaper"):
            await page.goto(f"{self.tab.origin}/demo/news")
            await expect(page.locator("#for-you .card")).to_have_count(6)
            await page.locator("#for-you .name").first.click()
            await page.locator("#looked .prose p").first.wait_for()
            await page.fill("#question", QUESTION)
            await page.keyboard.press("Enter")
            await expect(page.locator("#questions .answer .words")).to_contain_text("4.7 kilometres")
            await self._look("demo-news")


def _list_addresses() -> list[str]:
    """Return the addresses of all pages that can be opened by themselves."""
    addresses = []
    for page in PAGES:
        if "GET" not in page.methods or page.example == "-" or page.is_public or "{version}" in page.path:
            continue
        values = {"app_id": APP, **dict(parse_qsl(page.example)), "username": "admin"}
        filled = {key: quote(value, safe="") for key, value in values.items()}
        addresses.append(page.path.replace(":path}", "}").format_map(filled))
    return [address for address in addresses if "compare" not in address]
