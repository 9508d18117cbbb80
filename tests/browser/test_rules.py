"""Somebody steers a shop in a real browser: makes a rule, previews it, sees a conflict, and takes it back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster.records.archive.archive_client import ArchiveCall
from cluster.records.logged_query import LoggedQuery
from cluster.records.question import Answer, CitedPassage, CitedSentence, Question
from cluster.store.connect import OpenStores
from deployments.api.http.application import build_application
from deployments.console.app import build_console_routes
from deployments.operations.framework.services import AdminConfig
from tests.browser.stage import (
    HOSTILE,
    NEEDS_BROWSER,
    Tab,
    change_experiment,
    draft_experiment,
    open_browser,
    serve_application,
)
from tests.fakes.admin_shop import AdminShop, open_admin_shop
from tests.fakes.archive_oauth import an_account
from tests.fakes.console import open_console_services
from tests.fakes.corner_shop import APP

pytestmark = [NEEDS_BROWSER, pytest.mark.redis]
PAGES = (
    "rules", "rules/edit", "rules/edit?name=almanac", "rules/history", "experiments", "experiments/new",
    "experiments/paywall", "search", "questions", "question-bank", "archive",
)  # fmt: skip


@asynccontextmanager
async def open_shop(stores: OpenStores, folder: Path) -> AsyncIterator[tuple[AdminShop, str]]:
    """Serve the corner shop with its console."""
    async with open_admin_shop(folder, stores=stores) as shop:
        shop.services = replace(shop.services, config=AdminConfig(archive_app=APP))
        await stores.accounts.add(an_account(role="administrator"))
        console = open_console_services(
            stores, shop.corner.clock, services=shop.services, app_ids=(APP,), public_url=""
        )
        app = build_application(shop.corner.handler, version="0", more=build_console_routes(console))
        async with serve_application(app) as origin:
            yield shop, origin


async def test_a_rule_is_made_previewed_seen_in_conflict_and_undone(
    redis_stores: OpenStores, tmp_path: Path
) -> None:
    async with open_shop(redis_stores, tmp_path) as (shop, origin), open_browser() as browser:
        almanac = {"name": "almanac", "boost_fq": "product_id:garden-almanac", "position": [1]}
        await shop.perform("rules.put", rules=[almanac])
        tab = await Tab.open(browser, origin)
        await tab.sign_in()
        page: Any = tab.page
        await page.get_by_role("link", name="Rules").click()
        await page.get_by_role("link", name="New rule").click()
        await page.get_by_label("Name", exact=False).first.fill("boards first")
        await page.get_by_label("Filter that selects products to pin").fill("product_id:cutting-board")
        await page.get_by_label("Positions", exact=False).fill("1")
        await page.get_by_label("Priority").fill("5")
        preview = page.locator("#preview")
        await preview.get_by_text("boards first wins over almanac").wait_for()
        await preview.get_by_text("Oak cutting board").first.wait_for()
        await preview.get_by_role("heading", name="new visitor").wait_for()
        assert [rule.name for rule in (await shop.perform("rules.list")).rules] == ["almanac"]
        assert await tab.find_faults() == []
        await page.get_by_role("button", name="Save", exact=True).click()
        await page.get_by_text("boards first was saved").wait_for()
        await page.get_by_text("both pin products at position 1").wait_for()
        await page.get_by_role("link", name="History").click()
        row = page.get_by_role("row").filter(has_text="boards first")
        await row.get_by_role("button", name="Undo").first.click()
        await page.get_by_role("dialog").get_by_role("button", name="Undo").click()
        await page.get_by_text("The change was undone.").wait_for()
        assert [rule.name for rule in (await shop.perform("rules.list")).rules] == ["almanac"]
        assert tab.complaints == []


async def test_a_product_is_picked_by_keyboard_and_taken_out_again(
    redis_stores: OpenStores, tmp_path: Path
) -> None:
    async with open_shop(redis_stores, tmp_path) as (_, origin), open_browser() as browser:
        tab = await Tab.open(browser, origin)
        await tab.sign_in()
        await tab.go(f"/apps/{APP}/rules/edit")
        page: Any = tab.page
        await page.get_by_label("Find a product").fill("hand fork")
        await page.get_by_role("button", name="Add").first.focus()
        await page.keyboard.press("Enter")
        position = page.get_by_label("Position of Steel hand fork")
        assert await position.input_value() == "1"
        assert await page.locator("[data-picks] [name=pick]").input_value() == "hand-fork"
        await page.get_by_role("button", name="Add").first.click()
        assert await page.locator("[data-picks] li").count() == 1
        await page.get_by_label("Name", exact=False).first.fill("fork first")
        await page.locator("#preview").get_by_text("Steel hand fork").first.wait_for()
        assert await tab.find_faults() == []
        await page.get_by_role("button", name="Remove", exact=True).click()
        assert await page.locator("[data-picks] li").count() == 0
        assert tab.complaints == []


async def test_an_experiment_is_planned_made_and_started(redis_stores: OpenStores, tmp_path: Path) -> None:
    async with open_shop(redis_stores, tmp_path) as (shop, origin), open_browser() as browser:
        tab = await Tab.open(browser, origin)
        await tab.sign_in()
        await draft_experiment(tab, APP)
        await change_experiment(tab, "Start", "Active")
        assert (await shop.perform("experiments.get", experiment="blue-button")).status == "Active"
        assert await tab.find_faults() == []
        assert tab.complaints == []


async def test_the_pages_are_accessible_with_hostile_names(redis_stores: OpenStores, tmp_path: Path) -> None:
    async with open_shop(redis_stores, tmp_path) as (shop, origin), open_browser() as browser:
        await _fill(shop)
        tab = await Tab.open(browser, origin)
        await tab.sign_in()
        faults: dict[str, list[str]] = {}
        for path in PAGES:
            await tab.page.set_viewport_size({"width": 1280, "height": 900})
            await tab.page.emulate_media(color_scheme="light")
            status = await tab.go(f"/apps/{APP}/{path}")
            page_faults = [] if status == 200 else [f"status {status}"]
            page_faults += await tab.find_faults()
            await tab.page.set_viewport_size({"width": 390, "height": 844})
            await tab.page.emulate_media(color_scheme="dark")
            page_faults += [f"390 dark: {fault}" for fault in await tab.find_faults()]
            wide = await tab.page.evaluate("document.documentElement.scrollWidth")
            page_faults += [f"scrolls sideways at 390: {wide}"] if wide > 390 else []
            page_faults += tab.complaints
            tab.complaints.clear()
            faults |= {path: page_faults} if page_faults else {}
        assert faults == {}


async def _fill(shop: AdminShop) -> None:
    stores, now_ms = shop.services.stores, shop.services.now_ms()
    hostile = HOSTILE.replace("‮", "")
    await shop.perform("rules.put", rules=[{"name": hostile, "boost_fq": "brand:Birk", "position": [1]}])
    await shop.perform("rules.put", rules=[{"name": "almanac", "boost_fq": "brand:Mori", "position": [1]}])
    variants = [{"name": "now"}, {"name": HOSTILE}]
    await shop.perform(
        "experiments.create", experiments=[{"name": HOSTILE, "slug": "paywall", "variants": variants}]
    )
    await stores.queries.append(
        APP, [LoggedQuery(at=now_ms - 5, kind="search", text=HOSTILE, total=0, took_ms=3.0)]
    )
    answer = Answer(
        finish_reason="success", sentences=(CitedSentence(text=HOSTILE, passage=0),),
        passages=(CitedPassage(product_id="p", position=0, text=HOSTILE, title=HOSTILE),),
    )  # fmt: skip
    question = Question(question_id="q", app_id=APP, text=HOSTILE, asked_at=now_ms, deadline_at=now_ms)
    await stores.questions.ask(question, answer, b"{}", holder="t", until_ms=now_ms)
    call = ArchiveCall(
        at=now_ms - 5, tool="ask", client="c-0123456789abcdef", client_name=HOSTILE, question=HOSTILE,
        skill_used=HOSTILE, articles=("p",), took_ms=2.0, coverage=0.1,
    )  # fmt: skip
    await stores.archive_calls.append(APP, [call])
    await shop.perform("clients.deny", client=HOSTILE)
    await shop.perform("bank.add", question=HOSTILE)
