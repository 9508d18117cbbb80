"""A German export from the drop to the catalog, in a real browser, without any rule text."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cluster.store.connect import OpenStores
from tests.browser.imports import open_import_tab
from tests.browser.stage import NEEDS_BROWSER, Tab
from tests.fakes.corner_shop import APP

pytestmark = [NEEDS_BROWSER, pytest.mark.redis]
PRODUCTS = "Artikelnummer;Bezeichnung;Kategorie;Preis;Verfuegbar?;Bild;Zuletzt verkauft\n" + "".join(
    f"8512{at}A;Wärmflasche {at};Haus/Küche;1{at},50;{'ja' if at % 2 else 'nein'};/b/{at}.jpg;31.12.2010 08:0{at}\n"
    for at in range(1, 10)
)
ORDERS = "Bestellnummer;Kunde;Artikelnummer;Datum;Menge;Umsatz\n" + "".join(
    f"{at // 3};k{at // 3};8512{at}A;09.12.2010 19:23;{2 if at else -1};{at},50\n" for at in range(9)
)


async def test_a_german_shop_imports_products_and_orders_without_rules(
    redis_stores: OpenStores, tmp_path: Path
) -> None:
    async with open_import_tab(redis_stores, tmp_path) as (tab, running):
        await _import_products(tab, tmp_path)
        await _import_orders(tab, tmp_path)
        await asyncio.gather(*running)
        await _give_up(tab, tmp_path)
    recent = await redis_stores.changes.read(APP, {"interaction": "0"}, count=10_000, block_ms=0)
    text = b"".join(change.payload for change in recent).decode()
    assert '"product_ids":["85123A","85124A","85125A"]' in text
    assert '"type":"refund"' in text


async def _upload(tab: Tab, file: Path, noun: str) -> None:
    page = tab.page
    await tab.go(f"/apps/{APP}/import")
    await page.get_by_label("File", exact=False).first.set_input_files(file)
    await page.get_by_label("Every row is a").select_option(noun)
    await page.get_by_role("button", name="Upload").click()
    await page.get_by_role("heading", name="Columns").wait_for()


async def _require_field_is_visible_on_a_tablet(tab: Tab, column: str) -> None:
    """Fail if the choice of a column's field is cut at 765 pixels, or the page scrolls sideways."""
    size = tab.page.viewport_size
    await tab.page.set_viewport_size({"width": 765, "height": 1024})
    box = await tab.page.get_by_label(f"Field of the column {column}").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 765
    assert await tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    await tab.page.set_viewport_size(size)


async def _import_products(tab: Tab, folder: Path) -> None:
    page = tab.page
    file = folder / "artikel.csv"
    file.write_bytes(PRODUCTS.encode("latin-1"))
    await _upload(tab, file, "product")
    await page.get_by_text("This looks like Windows text (cp1252). Read it so?").wait_for()
    await page.get_by_text("0 of the first 9 rows would be accepted, 9 refused").wait_for()
    await page.get_by_role("link", name="Read it so").click()
    await page.get_by_text("9 of the first 9 rows would be accepted, 0 refused").wait_for()
    for column, field in {
        "Artikelnummer": "product_id", "Bezeichnung": "title", "Kategorie": "categories", "Preis": "price",
        "Bild": "cover_image", "Zuletzt verkauft": "updated_at", "Verfuegbar?": "",
    }.items():  # fmt: skip
        await _require_field_is_visible_on_a_tablet(tab, column)
        assert await page.get_by_label(f"Field of the column {column}").input_value() == field, column
    assert await page.get_by_label("How the column Zuletzt verkauft is read").input_value() == "day-first"
    await page.get_by_text("Haus > Küche").first.wait_for()
    assert await page.get_by_text("[[").count() == 0
    await page.get_by_label("Field of the column Verfuegbar?").select_option("availability")
    await page.locator("#dry-run.stale").wait_for()
    assert not await page.get_by_text("9 of the first 9 rows would be accepted").is_visible()
    await page.get_by_label("nein").select_option("OUT_OF_STOCK")
    await page.get_by_label("ja").select_option("IN_STOCK")
    await page.get_by_role("button", name="Dry run").click()
    await page.get_by_text("Dry run at").wait_for()
    await page.get_by_text("OUT_OF_STOCK").last.wait_for()
    assert await tab.find_faults() == []
    await page.set_viewport_size({"width": 765, "height": 900})
    assert await page.evaluate("document.documentElement.scrollWidth") <= 765
    box = await page.get_by_label("Field of the column Preis").bounding_box()
    assert box is not None
    assert box["x"] + box["width"] <= 765, "the field of a column is not cut"
    await page.set_viewport_size({"width": 1280, "height": 900})
    await page.get_by_role("button", name="Start the import").click()
    await page.get_by_text("finished").first.wait_for(timeout=20_000)
    await tab.go(f"/apps/{APP}/catalog/product?id=85122A")
    await page.get_by_role("heading", name="Wärmflasche 2").wait_for()


async def _import_orders(tab: Tab, folder: Path) -> None:
    page = tab.page
    file = folder / "bestellungen.csv"
    file.write_text(ORDERS, "utf-8")
    await _upload(tab, file, "interaction")
    assert await page.get_by_label("Field of the column Bestellnummer").input_value() == "order_id"
    assert await page.get_by_label("Every row is a").input_value() == "checkout"
    assert await page.get_by_label("Negative quantities are returns").is_checked()
    await page.get_by_text("9 rows were joined to 4 orders").wait_for()
    await page.get_by_text("85123A, 85124A, 85125A").wait_for()
    await page.get_by_role("button", name="Start the import").click()
    await page.get_by_text("finished").first.wait_for(timeout=20_000)
    await page.get_by_role("heading", name="How rows were read").wait_for()
    assert await page.get_by_role("heading", name="Why rows were refused").count() == 0


async def _give_up(tab: Tab, folder: Path) -> None:
    page = tab.page
    file = folder / "halb.csv"
    file.write_text("sku\n1\n", "utf-8")
    await _upload(tab, file, "product")
    await page.get_by_text("The file waits for its import.").wait_for()
    assert await page.get_by_text("Accepted", exact=True).count() == 0
    await tab.go(f"/apps/{APP}/import")
    row = page.get_by_role("row").filter(has_text="halb.csv")
    await row.get_by_text("waits for its import").wait_for()
    assert await row.get_by_role("cell").all_inner_texts() != []
    assert "0" not in [text.strip() for text in await row.get_by_role("cell").all_inner_texts()]
