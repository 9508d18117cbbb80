"""A dirty file from the drop to the catalog, in a real browser; then its product, a reader and a trial."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cluster.store.connect import OpenStores
from tests.browser.imports import open_import_tab
from tests.browser.stage import HOSTILE, NEEDS_BROWSER, Tab
from tests.fakes.corner_shop import APP, happen, view

pytestmark = [NEEDS_BROWSER, pytest.mark.redis]
HEAD = 'SKU,Name,Preis,"=cmd|\' <script>alert(3)</script>"\n'
ROWS = [f'a-{at},Oak board {at},"{at},50",=1+1\n' for at in range(1, 40)]
DIRTY = HEAD + f'a-0,"{HOSTILE.replace(chr(34), chr(34) * 2)}","1,00",\n' + "".join(ROWS) + ",no id,1,\nx,y\n"


async def test_a_dirty_file_is_dropped_mapped_tried_and_imported(
    redis_stores: OpenStores, tmp_path: Path
) -> None:
    async with open_import_tab(redis_stores, tmp_path) as (tab, running):
        await _import(tab, tmp_path)
        await asyncio.gather(*running)
        await _look_around(tab, redis_stores)


async def _import(tab: Tab, folder: Path) -> None:
    page = tab.page
    file = folder / "<b>dirty<b>.csv"
    file.write_text(DIRTY, "utf-8")
    await tab.go(f"/apps/{APP}/import")
    assert await tab.find_faults() == []
    await page.get_by_label("File", exact=False).first.set_input_files(file)
    await page.get_by_role("button", name="Upload").click()
    await page.get_by_role("heading", name="Columns").wait_for()
    assert await tab.find_faults() == []
    assert await page.get_by_label("Field of the column SKU").input_value() == "product_id"
    assert await page.get_by_label("Field of the column Preis").input_value() == "price"
    await page.get_by_text("Further rules").first.click()
    await page.get_by_label("Further rules").fill("type:=tool")
    await page.get_by_role("button", name="Dry run").click()
    await page.get_by_text("40 of the first 42 rows would be accepted, 2 refused").wait_for()
    assert await page.get_by_label("Further rules").input_value() == "type:=tool"
    assert await tab.find_faults() == []
    await page.get_by_role("button", name="Start the import").click()
    await page.get_by_role("heading", name="Refused rows").wait_for(timeout=20_000)
    await page.get_by_text("finished").first.wait_for()
    assert await tab.find_faults() == []
    async with page.expect_download() as download:
        await page.get_by_role("link", name="Download as JSON Lines").click()
    place = await (await download.value).path()
    assert (await asyncio.to_thread(Path(place).read_bytes)).count(b"\n") == 2
    await page.set_viewport_size({"width": 390, "height": 844})
    assert await tab.find_faults() == []
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
    await page.set_viewport_size({"width": 1280, "height": 900})


async def _look_around(tab: Tab, stores: OpenStores) -> None:
    page = tab.page
    await happen(stores, [view("gina", "a-1"), view("gina", "a-2"), view("otto", "a-1"), view("otto", "a-3")])
    await tab.go(f"/apps/{APP}/catalog?q=oak+board+7")
    await page.get_by_role("link", name="a-7", exact=True).click()
    await page.get_by_role("heading", name="Oak board 7").wait_for()
    await page.get_by_role("heading", name="Similar products").wait_for()
    assert await tab.find_faults() == []
    await tab.go(f"/apps/{APP}/catalog/product?id=a-0")
    await page.get_by_role("heading", name="Similar products").wait_for()
    await tab.go(f"/apps/{APP}/readers/one?user_id=gina")
    await page.get_by_text("Served by").wait_for()
    await page.get_by_label("Product id").fill("a-1")
    await page.get_by_role("button", name="Explain").click()
    await page.get_by_text("the user viewed or bought it recently").wait_for()
    assert await tab.find_faults() == []
    await tab.go(f"/apps/{APP}/try")
    await page.get_by_label("User id").first.fill("gina")
    await page.get_by_label("Compare A and B").check()
    await page.get_by_role("button", name="Send").click()
    await page.get_by_role("heading", name="Answers").wait_for()
    assert await page.get_by_role("heading", name="Variant").count() == 2
    assert await tab.find_faults() == []
    await page.set_viewport_size({"width": 390, "height": 844})
    await page.emulate_media(color_scheme="dark")
    assert await tab.find_faults() == []
    assert await page.evaluate("document.documentElement.scrollWidth") <= 390
