"""Every page of the console in a real browser: no complaint, nothing inaccessible, in both themes and widths."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, quote

import pytest

from cluster.records.administration import AuditRow
from cluster.records.engine import Engine
from cluster.store.administration.audit import AuditFilter
from cluster.store.connect import OpenStores
from deployments.console.page import Page
from deployments.console.pages.all_pages import PAGES
from tests.browser.stage import HOSTILE, NEEDS_BROWSER, Stage, Tab, open_browser, open_stage

pytestmark = [NEEDS_BROWSER, pytest.mark.redis]
WALKED = [page for page in PAGES if "GET" in page.methods and page.example != "-" and not page.is_public]


def address_of(page: Page) -> str:
    """Fill the placeholders of a page with its example."""
    values = {"app_id": "shop", **dict(parse_qsl(page.example))}
    path = page.path.replace(":path}", "}")
    return path.format_map({name: quote(value, safe="") for name, value in values.items()})


async def fill(stage: Stage) -> None:
    """Put hostile names wherever people and programs can write them."""
    await stage.add_person()
    await stage.corner.stores.engines.put(Engine(app_id="shop", engine_id="default", created_at=1))
    variants = [{"name": "three"}, {"name": "five"}]
    await stage.perform(
        "experiments.create", experiments=[{"name": HOSTILE, "slug": "paywall", "variants": variants}]
    )
    for operation in ("keys.rotate", HOSTILE):
        await stage.corner.stores.audit.append(
            AuditRow(
                at=stage.corner.clock.now_ms(), user_id="usr-1", username=HOSTILE, way="console", address=HOSTILE,
                operation=operation, app_id="shop", outcome="refused", reason=HOSTILE,
                arguments={HOSTILE: [HOSTILE]}, before=HOSTILE, after={"x": HOSTILE},
            )
        )  # fmt: skip


@pytest.mark.parametrize("half", [0, 1])
async def test_each_page_is_quiet_and_accessible(redis_stores: OpenStores, tmp_path: Path, half: int) -> None:
    async with open_stage(redis_stores, tmp_path) as stage, open_browser() as browser:
        await fill(stage)
        tab = await Tab.open(browser, stage.origin)
        await tab.sign_in()
        await tab.page.get_by_role("heading", level=1).wait_for()
        faults: dict[str, list[str]] = {}
        for page in WALKED[half::2]:
            path = address_of(page)
            await tab.page.set_viewport_size({"width": 1280, "height": 900})
            await tab.page.emulate_media(color_scheme="light")
            status = await tab.go(path)
            page_faults = [] if status == 200 else [f"status {status}"]
            page_faults += await tab.find_faults()
            await tab.page.emulate_media(color_scheme="dark")
            page_faults += [f"dark: {fault}" for fault in await tab.find_faults("color-contrast")]
            await tab.page.set_viewport_size({"width": 390, "height": 844})
            page_faults += [f"390: {fault}" for fault in await tab.find_faults()]
            await tab.page.emulate_media(color_scheme="light")
            page_faults += [f"390 light: {fault}" for fault in await tab.find_faults("color-contrast")]
            wide = await tab.page.evaluate("document.documentElement.scrollWidth")
            page_faults += [f"scrolls sideways at 390: {wide}"] if wide > 390 else []
            page_faults += tab.complaints
            tab.complaints.clear()
            faults |= {path: page_faults} if page_faults else {}
        assert faults == {}


async def test_the_menu_of_a_phone_opens_and_closes_by_keyboard(
    redis_stores: OpenStores, tmp_path: Path
) -> None:
    async with open_stage(redis_stores, tmp_path) as stage, open_browser() as browser:
        await stage.add_person()
        tab = await Tab.open(browser, stage.origin, wide=390, high=844, scheme="dark")
        await tab.sign_in()
        button = tab.page.get_by_role("button", name="Menu")
        link = tab.page.get_by_role("link", name="Team")
        assert not await link.is_visible()
        await button.focus()
        await tab.page.keyboard.press("Enter")
        await link.wait_for(state="visible")
        assert await tab.find_faults() == []
        await tab.page.keyboard.press("Escape")
        await link.wait_for(state="hidden")
        assert await button.get_attribute("aria-expanded") == "false"
        assert tab.complaints == []


async def test_the_theme_is_kept_from_page_to_page(redis_stores: OpenStores, tmp_path: Path) -> None:
    async with open_stage(redis_stores, tmp_path) as stage, open_browser() as browser:
        await stage.add_person()
        tab = await Tab.open(browser, stage.origin)
        await tab.sign_in()
        await tab.page.get_by_role("button", name="Switch between light and dark").click()
        dark = await tab.page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert dark == "rgb(18, 21, 27)"
        await tab.go("/apps")
        assert await tab.page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
        assert tab.complaints == []


async def test_somebody_makes_an_app_and_revokes_a_key(redis_stores: OpenStores, tmp_path: Path) -> None:
    async with open_stage(redis_stores, tmp_path) as stage, open_browser() as browser:
        await stage.add_person()
        tab = await Tab.open(browser, stage.origin)
        await tab.sign_in()
        await tab.page.get_by_role("link", name="Apps").click()
        await tab.page.get_by_label("Id", exact=True).fill("Not a name!")
        await tab.page.get_by_role("button", name="Create", exact=True).click()
        await tab.page.get_by_role("alert").wait_for()
        assert await tab.page.get_by_label("Id", exact=True).input_value() == "Not a name!"
        await tab.page.get_by_label("Id", exact=True).fill("bookshop")
        await tab.page.get_by_role("button", name="Create", exact=True).click()
        await tab.page.get_by_role("heading", name="bookshop · API keys").wait_for()
        assert await tab.page.get_by_text("ksk_dev_").count() == 1
        assert await tab.find_faults() == []
        await tab.page.get_by_role("link", name="Back to bookshop").click()
        await tab.page.get_by_role("button", name="Revoke").first.click()
        dialog = tab.page.get_by_role("dialog")
        assert await tab.find_faults() == []
        await dialog.get_by_role("button", name="Revoke").click()
        await tab.page.get_by_text("The key was revoked.").wait_for()
        assert await tab.page.get_by_role("button", name="Revoke").count() == 1
        assert tab.complaints == []
    page = await redis_stores.audit.page(AuditFilter())
    assert [row.operation for row in page.rows] == [
        "keys.revoke", "apps.create", "apps.create", "session.begin",
    ]  # fmt: skip
