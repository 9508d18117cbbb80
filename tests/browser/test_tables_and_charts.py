"""Tables of the console in a browser: sorted by a column and saved as CSV; and charts of few days."""

from __future__ import annotations

import asyncio
import csv
import io
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from cluster.artifacts.logs.query_log import QueryLogStore
from cluster.clock import SystemClock
from cluster.records.logged_query import LoggedQuery
from cluster.store.connect import OpenStores
from tests.browser.stage import NEEDS_BROWSER, Tab, open_browser, open_stage
from tests.fakes.corner_shop import upload

pytestmark = [NEEDS_BROWSER, pytest.mark.redis]
RECORD_TEXTS = """
  window.drawnTexts = [];
  const fillText = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
    window.drawnTexts.push(text);
    return fillText.call(this, text, ...place);
  };
"""
"Keeps the texts that the chart library draws: its axes are pictures."


async def test_a_table_is_sorted_by_a_column_and_saved_as_csv(
    redis_stores: OpenStores, tmp_path: Path
) -> None:
    async with open_stage(redis_stores, tmp_path) as stage, open_browser() as browser:
        await stage.add_person()
        for name in ("bea", "carl"):
            await stage.add_person(name)
        tab = await Tab.open(browser, stage.origin)
        await tab.sign_in()
        await tab.go("/people")
        names = tab.page.locator("tbody th")
        assert await names.all_inner_texts() == ["ada", "bea", "carl"]
        heading = tab.page.get_by_role("button", name="User name", exact=True)
        await heading.focus()
        await tab.page.keyboard.press("Enter")
        await tab.page.keyboard.press("Enter")
        assert await names.all_inner_texts() == ["carl", "bea", "ada"]
        assert await tab.page.locator('th[aria-sort="descending"]').inner_text() == "User name"
        async with tab.page.expect_download() as pending:
            await tab.page.get_by_role("button", name="CSV: Team").click()
        download = await pending.value
        assert download.suggested_filename == "team.csv"
        text = await _read_text(download)
        rows = list(csv.reader(io.StringIO(text)))
        assert rows[0][:2] == ["User name", "Role"]
        assert [row[0] for row in rows[1:]] == ["carl", "bea", "ada"]
        assert await tab.find_faults() == []
        assert tab.complaints == []


async def test_columns_are_left_out_of_a_table_and_its_file_until_they_are_chosen_again(
    redis_stores: OpenStores, tmp_path: Path
) -> None:
    async with open_stage(redis_stores, tmp_path) as stage, open_browser() as browser:
        await stage.add_person()
        tab = await Tab.open(browser, stage.origin)
        await tab.sign_in()
        await tab.go("/people")
        headings = tab.page.locator("thead th:visible")
        names = await headings.all_inner_texts()
        choice = tab.page.locator("details.columns-choice")
        await choice.locator("summary").focus()
        await tab.page.keyboard.press("Enter")
        assert [text.strip() for text in await choice.locator("label").all_inner_texts()] == names[1:]
        await choice.get_by_label("Role", exact=True).uncheck()
        assert await headings.all_inner_texts() == [name for name in names if name != "Role"]
        assert await tab.find_faults() == []
        await tab.page.reload()
        assert await headings.all_inner_texts() == [name for name in names if name != "Role"]
        async with tab.page.expect_download() as pending:
            await tab.page.get_by_role("button", name="CSV: Team").click()
        (first, row) = csv.reader(io.StringIO(await _read_text(await pending.value)))
        assert first[:2] == ["User name", names[2]]
        assert len(row) == len(first)
        await choice.locator("summary").click()
        await choice.get_by_label("Role", exact=True).check()
        assert await headings.all_inner_texts() == names
        assert tab.complaints == []


async def test_a_formula_in_a_table_stays_a_text_in_csv(redis_stores: OpenStores, tmp_path: Path) -> None:
    async with open_stage(redis_stores, tmp_path) as stage, open_browser() as browser:
        await stage.add_person()
        for question in ("=HYPERLINK(1)", "-2", "-2+3*cmd(1)"):
            await stage.perform("bank.add", question=question)
        tab = await Tab.open(browser, stage.origin)
        await tab.sign_in()
        await tab.go("/apps/shop/question-bank")
        async with tab.page.expect_download() as pending:
            await tab.page.get_by_role("button", name="CSV: Question bank").click()
        text = await _read_text(await pending.value)
        cells = {row[0] for row in csv.reader(io.StringIO(text))}
        assert {"'=HYPERLINK(1)", "-2", "'-2+3*cmd(1)"} <= cells


async def _read_text(download: Any) -> str:
    path = Path(await download.path())
    return await asyncio.to_thread(path.read_text, "utf-8-sig")


@pytest.mark.parametrize("days", [1, 2])
async def test_a_chart_of_few_days_shows_these_days(
    redis_stores: OpenStores, tmp_path: Path, days: int
) -> None:
    async with open_stage(redis_stores, tmp_path) as stage, open_browser() as browser:
        await stage.add_person()
        now_ms = SystemClock().now_ms()
        stamps = [now_ms - at * 86_400_000 for at in range(days)]
        queries = [
            LoggedQuery(at=stamp, kind="search", text="kettle", total=3, took_ms=9.0, reader="r")
            for stamp in sorted(stamps)
        ]
        QueryLogStore(stage.artifacts).append("shop", queries, f"{now_ms}-0")
        tab = await Tab.open(browser, stage.origin)
        await tab.page.add_init_script(RECORD_TEXTS)
        await tab.sign_in()
        await tab.go("/apps/shop/search")
        await tab.page.locator("[data-chart] canvas").wait_for()
        texts = await tab.page.evaluate("window.drawnTexts")
        labels = {text for text in texts if len(text) == 5 and text[2] == "-"}
        dates = {datetime.fromtimestamp(stamp / 1000, timezone.utc).strftime("%m-%d") for stamp in stamps}
        assert labels == dates
        assert tab.complaints == []


async def test_an_image_that_is_missing_leaves_no_broken_picture(
    redis_stores: OpenStores, tmp_path: Path
) -> None:
    async with open_stage(redis_stores, tmp_path) as stage, open_browser() as browser:
        await stage.add_person()
        lamp = {
            "product_id": "lamp",
            "title": "Lamp",
            "type": "x",
            "cover_image": "https://127.0.0.1:1/lamp.jpg",
        }
        await upload(redis_stores, [lamp])
        tab = await Tab.open(browser, stage.origin)
        await tab.sign_in()
        await tab.go("/apps/shop/catalog?prefix=lamp")
        assert "Lamp" in await tab.page.locator("table").inner_text()
        await tab.page.locator("img.thumb").wait_for(state="detached")
