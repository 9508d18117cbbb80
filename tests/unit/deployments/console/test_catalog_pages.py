"""Pages of the catalog, readers, trials and imports: roles, hostile texts, and an import by its pages."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import httpx
import orjson

from cluster.records.administration import AppRole
from cluster.records.intake import QuarantineEntry
from cluster.records.logged_query import LoggedQuery
from deployments.console.pages import catalog, imports, tryout, users
from jobs.ingest.upload.upload_ingest import UploadedFileIngest
from tests.fakes.admin_shop import AdminShop
from tests.fakes.console import Visitor, visit_with_role
from tests.fakes.corner_shop import APP, DAY_MS, NOW_MS, happen, upload, view

HOSTILE = "<script>alert(1)</script>\"'&{{7*7}}"
ESCAPED = "&lt;script&gt;alert(1)&lt;/script&gt;"
APP_PATH = f"/apps/{APP}"
DIRTY = b'SKU,Name,"=cmd|<script>"\na-1,Oak board,=1+1\n,no id,\n'


async def visitor(shop: AdminShop, role: AppRole, services: Any = None) -> Visitor:
    options = {"services": services or shop.services, "app_ids": (APP, "other"), "audit": shop.audit}
    return await visit_with_role(shop.services.stores, shop.corner.clock, role, app_id=APP, **options)


async def send_file(person: Visitor, data: bytes, name: str, noun: str = "product") -> httpx.Response:
    await person.get(f"{APP_PATH}/import")
    person.page = await person.http.post(
        f"/console{APP_PATH}/import", data={"csrf": person.token, "noun": noun}, files={"file": (name, data)}
    )
    return person.page


async def test_a_viewer_sees_products_and_no_people(shop: AdminShop) -> None:
    person = await visitor(shop, "viewer")
    page = await person.get(f"{APP_PATH}/catalog")
    assert "Zinc watering can" in page.text
    search = await person.get(f"{APP_PATH}/catalog?q=steel+fork")
    assert "Steel hand fork" in search.text
    assert "Zinc watering can" not in search.text
    product = await person.get(f"{APP_PATH}/catalog/product?id=hand-fork")
    assert "fork, " in product.text or "steel, " in product.text
    related = await person.get(f"{APP_PATH}/catalog/product/related?id=bread-knife")
    assert "Often bought together" in related.text
    unsold = await person.get(f"{APP_PATH}/catalog/product/related?id=crocus-bulbs")
    assert "No data: no order contains it together with another product." in unsold.text
    outcomes = await person.get(f"{APP_PATH}/catalog/product/outcomes?id=watering-can")
    assert "add_to_cart" in outcomes.text
    assert "Last 7 days against the 7 days before" in outcomes.text
    assert _row("add_to_cart", "4", "0", "–") in outcomes.text
    assert (await person.get(f"{APP_PATH}/catalog/product?id=none")).status_code == 404
    for path in ("readers", "readers/one?user_id=gina", "try", "import", "quarantine", "readers/erasures"):
        assert (await person.get(f"{APP_PATH}/{path}")).status_code == 403, path
    page = await person.get(f"{APP_PATH}/catalog")
    assert "/catalog/new" not in page.text
    assert 'name="price"' not in (await person.get(f"{APP_PATH}/catalog/product?id=hand-fork")).text
    assert (
        await person.post(f"{APP_PATH}/catalog/product", product_id="hand-fork", price="1")
    ).status_code == 403
    assert "/readers" not in page.text
    assert "/import" not in page.text


def _row(name: str, *figures: str) -> str:
    cells = "".join(f'<td class="number">{figure}</td>' for figure in figures)
    return f'<th scope="row">{name}</th>{cells}'


async def test_searches_are_compared_with_the_week_before(shop: AdminShop) -> None:
    queries = [
        LoggedQuery(at=NOW_MS - days * DAY_MS, kind="search", text="knife", total=total, took_ms=2.5)
        for days, total in ((1, 0), (2, 1), (9, 0), (10, 0), (11, 1), (12, 1))
    ]
    await shop.services.stores.queries.append(APP, queries)
    page = await (await visitor(shop, "analyst")).get(f"{APP_PATH}/search?since=7d")
    assert "Compared with the period before" in page.text
    assert _row("Queries", "2", "4", "-50.0%") in page.text
    assert _row("Queries without results", "1", "2", "-50.0%") in page.text
    assert _row("p95 ms: search", "2.5", "2.5", "+0.0%") in page.text


async def _search_in_vain(shop: AdminShop) -> None:
    queries = [
        LoggedQuery(at=NOW_MS - at, kind="search", text=text, total=total, took_ms=2.5)
        for at, (text, total) in enumerate([("bread knife", 3), ('bred "knife" & <b>', 0), ("bred knife", 0)])
    ]
    await shop.services.stores.queries.append(APP, queries)


async def test_a_search_without_results_leads_to_the_products_of_a_similar_one(shop: AdminShop) -> None:
    await _search_in_vain(shop)
    page = (await (await visitor(shop, "analyst")).get(f"{APP_PATH}/search")).text
    assert f'<a href="/console{APP_PATH}/catalog?q=bread%20knife">bread knife</a>' in page
    assert "/catalog/new" not in page


async def test_an_editor_goes_from_a_search_without_results_to_a_product_and_a_rule(shop: AdminShop) -> None:
    await _search_in_vain(shop)
    editor = await visitor(shop, "editor")
    page = (await editor.get(f"{APP_PATH}/search")).text
    links = re.findall(rf'href="/console({APP_PATH}/(?:catalog/new|rules/edit)\?[^"]*)"', page)
    texts = []
    for link in links:
        form = (await editor.get(unescape(link))).text
        place, text = unquote(unescape(link)).split("?", 1)[1].split("=", 1)
        field = form.split(f'name="{place}"', 1)[1].split("</div>", 1)[0]
        assert text in unescape(field), link
        texts.append(text)
    assert sorted(texts) == sorted(['bred "knife" & <b>', "bred knife"] * 2)


async def _claim_upload(shop: AdminShop) -> Any:
    """Return the records of the one upload that waits for the intake."""
    (batch,) = await shop.services.stores.intake.claim("intake", [APP], count=1, block_ms=0)
    return orjson.loads(batch.payload)


async def test_an_editor_changes_the_price_and_stock_of_a_product(shop: AdminShop) -> None:
    person = await visitor(shop, "editor")
    page = await person.get(f"{APP_PATH}/catalog/product?id=hand-fork")
    assert 'name="price"' in page.text
    stored = (await shop.perform("catalog.get", product_id="hand-fork")).product
    saved = await person.post(
        f"{APP_PATH}/catalog/product", product_id="hand-fork", title=stored["title"], price="7.5",
        availability="OUT_OF_STOCK", brand="", cover_image="https://shop.example.com/fork.jpg",
    )  # fmt: skip
    assert saved.status_code == 303
    (record,) = await _claim_upload(shop)
    assert (record["price"], record["availability"]) == (7.5, "OUT_OF_STOCK")
    assert "brand" not in record
    kept = set(stored) - {"price", "brand"}
    assert {name: record[name] for name in kept} == {name: stored[name] for name in kept}
    await person.get(f"{APP_PATH}/catalog/product?id=hand-fork")
    for form, words in (({"price": "cheap"}, "is no number"), ({"availability": "MAYBE"}, "availability")):
        refused = await person.post(f"{APP_PATH}/catalog/product", product_id="hand-fork", **form)
        assert refused.status_code in (400, 422)
        assert words in refused.text
        await person.get(f"{APP_PATH}/catalog/product?id=hand-fork")


async def test_an_editor_marks_an_article_as_corrected(shop: AdminShop) -> None:
    person = await visitor(shop, "editor")
    page = await person.get(f"{APP_PATH}/catalog/product?id=hand-fork")
    assert 'name="corrected_at"' in page.text
    assert 'name="correction_note"' in page.text
    correction = {"corrected_at": "2026-01-31", "correction_note": "May, not April."}
    saved = await person.post(f"{APP_PATH}/catalog/product", product_id="hand-fork", **correction)
    assert saved.status_code == 303
    (record,) = await _claim_upload(shop)
    assert {name: record[name] for name in correction} == correction
    refused = await person.post(
        f"{APP_PATH}/catalog/product", product_id="hand-fork", corrected_at="last week"
    )
    assert refused.status_code in (400, 422)
    assert "corrected_at" in refused.text


async def test_an_editor_adds_a_product_and_replaces_none(shop: AdminShop) -> None:
    person = await visitor(shop, "editor")
    taken = await person.post(f"{APP_PATH}/catalog/new", product_id="hand-fork", title="Another")
    assert (taken.status_code, "there is already a product" in taken.text) == (409, True)
    made = await person.post(
        f"{APP_PATH}/catalog/new", product_id="rake", title="Rake", price="12", type="tool"
    )
    assert made.status_code == 303
    assert "rake was saved" in (await person.get(f"{APP_PATH}/catalog")).text
    (record,) = await _claim_upload(shop)
    assert record == {"product_id": "rake", "title": "Rake", "price": 12, "type": "tool"}
    changed = next(
        row for row in shop.audit.rows if row.operation == "catalog.edit" and row.outcome == "done"
    )
    assert changed.username == "ada"


async def test_lists_show_the_pictures_of_products_with_an_https_address(shop: AdminShop) -> None:
    for name, address in (("lamp", "https://cdn.example.com/lamp.jpg"), ("trap", "javascript:alert(1)")):
        product = {"product_id": name, "title": name, "type": "tool", "cover_image": address}
        await upload(shop.services.stores, [product])
    person = await visitor(shop, "viewer")
    page = await person.get(f"{APP_PATH}/catalog")
    assert 'src="https://cdn.example.com/lamp.jpg"' in page.text
    assert "javascript:alert" not in page.text
    assert "img-src 'self' data: https:" in page.headers["content-security-policy"]


async def test_the_page_of_a_user_has_the_name_picture_description_and_times_of_the_account(
    shop: AdminShop,
) -> None:
    user = {
        "user_id": "ilse", "name": "Ilse <Berg>", "profile_image": "https://cdn.example.com/ilse.jpg",
        "description": "Grows roses.", "created_at": "2024-05-06T07:00:00Z", "updated_at": "2025-01-02T00:00:00Z",
    }  # fmt: skip
    trap = {"user_id": "trap", "name": "x", "profile_image": "javascript:alert(1)"}
    answer = await shop.services.api.call("shop", "POST", "/v1/users", {"data": [user, trap]})
    assert answer[0] == 200, answer
    await shop.corner.apply()
    person = await visitor(shop, "analyst")
    page = (await person.get(f"{APP_PATH}/readers/one?user_id=ilse")).text
    assert 'src="https://cdn.example.com/ilse.jpg"' in page
    assert "Ilse &lt;Berg&gt;</p>" in page
    assert '<p class="dim">Grows roses.</p>' in page
    assert "Account since 2024-05-06, last changed 2025-01-02." in page
    assert 'src="javascript' not in (await person.get(f"{APP_PATH}/readers/one?user_id=trap")).text


async def test_an_analyst_looks_people_up_and_may_not_erase(shop: AdminShop) -> None:
    person = await visitor(shop, "analyst")
    page = await person.get(f"{APP_PATH}/readers/one?user_id=gina")
    assert "Garden" in page.text
    assert "bought 1" in page.text
    assert "/erase" not in page.text
    assert "Served by" in (await person.get(f"{APP_PATH}/readers/one/recommendations?user_id=gina")).text
    why = await person.get(f"{APP_PATH}/readers/one/absence?user_id=gina&product_id=tulip-bulbs")
    assert "viewed or bought it recently" in why.text
    assert (await person.get(f"{APP_PATH}/readers/one/export?user_id=gina")).status_code == 403
    assert (await person.post(f"{APP_PATH}/readers/one/erase", user_id="gina")).status_code == 403
    assert (await person.get(f"{APP_PATH}/import")).status_code == 403


async def test_an_owner_exports_and_erases(shop: AdminShop) -> None:
    person = await visitor(shop, "owner")
    file = await person.get(f"{APP_PATH}/readers/one/export?user_id=gina")
    assert file.headers["content-disposition"] == 'attachment; filename="export.jsonl"'
    assert '"user_id":"gina"' in file.text
    answer = await person.post(f"{APP_PATH}/readers/one/erase", user_id="gina")
    assert answer.status_code == 303
    receipt = await person.get(answer.headers["location"].removeprefix("/console"))
    assert "queued" in receipt.text
    assert "gina" not in receipt.text
    assert "gina" not in (await person.get(f"{APP_PATH}/readers/erasures")).text


async def test_hostile_texts_are_only_shown(shop: AdminShop) -> None:
    stores = shop.services.stores
    await upload(stores, [{"product_id": HOSTILE, "title": HOSTILE, "type": "tool", "brand": HOSTILE}])
    await happen(stores, [view(HOSTILE, "hand-fork")])
    quarantined = QuarantineEntry(
        "1-0", "store", APP, "record", "product", HOSTILE, HOSTILE, 1, HOSTILE.encode()
    )
    stores.quarantine.entries[APP] = [quarantined]  # type: ignore[attr-defined]
    person = await visitor(shop, "editor")
    name = quote(HOSTILE, safe="")
    for path in (
        "catalog", f"catalog?q={name}", f"catalog?prefix={name}", f"catalog/product?id={name}",
        f"catalog/product/related?id={name}", f"readers?prefix={name}", f"readers/one?user_id={name}",
        f"readers/one/recommendations?user_id={name}", f"readers/one/absence?user_id=a&product_id={name}",
        "quarantine", "quarantine/entry?id=1-0",
    ):  # fmt: skip
        page = await person.get(f"{APP_PATH}/{path}")
        assert page.status_code == 200, (path, page.text)
        assert "<script>alert" not in page.text, path
        assert "49" not in re.findall(r"&amp;(\d+)", page.text), path
    assert ESCAPED in (await person.get(f"{APP_PATH}/catalog/product?id={name}")).text
    form = {"kind": "user_to_products", "user_id_a": HOSTILE, "fq": "", "rows": "3"}
    page = await person.post(f"{APP_PATH}/try", **form)
    assert "<script>alert" not in page.text


async def test_the_api_is_tried_with_two_variants(shop: AdminShop) -> None:
    person = await visitor(shop, "analyst")
    page = await person.get(f"{APP_PATH}/try")
    assert "Variant B" in page.text
    page = await person.post(
        f"{APP_PATH}/try", kind="user_to_products", user_id_a="gina", user_id_b="otto", compare="on", rows="2",
        more_b='{"fq": "brand:Birk"}',
    )  # fmt: skip
    assert page.status_code == 200, page.text
    assert page.text.count("<h3>Variant") == 2
    assert "YOUR_SECRET_KEY" in page.text
    assert "X-API-KEY" in page.text
    page = await person.post(
        f"{APP_PATH}/try", kind="ask", q="Which knife?", q_b="Which board?", compare="on", user_id_a="gina"
    )
    assert page.text.count("hx-get") == 2
    assert "Which knife?" in page.text
    assert "Which board?" in page.text
    page = await person.post(f"{APP_PATH}/try", kind="search", q="x", snapshot_a="0530")
    assert "for recommendations only" in page.text
    for kind, text in (
        ("search", "knife"), ("complete", "kni"), ("product_to_products", "bread-knife"), ("ask", "Which knife?"),
        ("user_to_categories", ""), ("user_to_attributes", "brand"), ("user_to_history", ""), ("user_to_trending", ""),
    ):  # fmt: skip
        page = await person.post(f"{APP_PATH}/try", kind=kind, q=text, user_id_a="gina", facets="brand")
        assert page.status_code == 200, (kind, page.text)
        assert "notice bad" not in page.text, (kind, page.text)
    wrong = await person.post(f"{APP_PATH}/try", kind="user_to_products", more_a="[1]")
    assert "must be a JSON object" in wrong.text
    refused = await person.post(f"{APP_PATH}/try", kind="search", q="x", fq="((", rows="2")
    assert "notice bad" in refused.text


async def test_a_dirty_file_is_imported_by_its_pages(shop: AdminShop, tmp_path: Path) -> None:
    running: list[asyncio.Task[Any]] = []

    async def launch(app_id: str, import_id: str) -> None:
        stores, artifacts = shop.services.stores, shop.services.artifacts
        work = UploadedFileIngest(
            stores, artifacts, tmp_path / "data" / "ingest", shop.corner.clock, node="here", beat_s=60.0
        )
        running.append(asyncio.create_task(work.run(app_id, import_id)))

    person = await visitor(shop, "editor", replace(shop.services, launch_import=launch))
    answer = await send_file(person, DIRTY, f"{HOSTILE}.csv")
    assert answer.status_code == 303, answer.text
    place = answer.headers["location"].removeprefix("/console")
    page = await person.get(place)
    assert page.status_code == 200, page.text
    assert "<script>" not in page.text.replace("<script src", "")
    assert "=cmd|&lt;script&gt;" in page.text
    assert "<option selected>product_id</option>" in page.text
    form = {"column-0": "product_id", "column-1": "title", "column-2": "", "more": "type:=tool"}
    tried = await person.post(f"{place}/dry-run", **form, headers={"hx-request": "true"})
    assert "1 of the first 2 rows would be accepted" in tried.text
    assert ("1 time: " in tried.text, "1 times" in tried.text) == (True, False)
    await person.get(place)
    started = await person.post(f"{place}/start", **form)
    assert started.status_code == 303, started.text
    await asyncio.gather(*running)
    done = await person.get(place)
    assert "finished" in done.text
    assert "Refused rows" in done.text
    lines = await person.get(f"{place}/refused")
    assert lines.headers["content-disposition"] == 'attachment; filename="refused.jsonl"'
    table = await person.get(f"{place}/refused?format=csv")
    assert table.text.startswith("row,reason,text")
    assert (await shop.services.stores.records.get(APP, "product", "a-1")) is not None
    listed = await person.get(f"{APP_PATH}/import")
    assert ESCAPED in listed.text


async def test_a_refused_upload_shows_its_form_again(shop: AdminShop) -> None:
    person = await visitor(shop, "editor")
    answer = await send_file(person, b"PK\x03\x04", "book.xlsx")
    assert answer.status_code == 400
    assert "save a workbook as CSV" in answer.text
    await person.get(f"{APP_PATH}/import")
    assert "choose a file first" in (await person.post(f"{APP_PATH}/import", noun="product")).text


async def test_an_entry_is_dropped(shop: AdminShop) -> None:
    entry = QuarantineEntry("1-0", "store", APP, "change", "product", "x", "no sense", 1, b"{}")
    shop.services.stores.quarantine.entries[APP] = [entry]  # type: ignore[attr-defined]
    person = await visitor(shop, "editor")
    replayed = await person.post(f"{APP_PATH}/quarantine/replay", entry_id="1-0")
    assert replayed.status_code == 400
    assert (await person.post(f"{APP_PATH}/quarantine/drop", entry_id="1-0")).status_code == 303
    assert "The quarantine is empty" in (await person.get(f"{APP_PATH}/quarantine")).text


def test_no_page_asks_for_less_than_its_operation() -> None:
    roles = {page.path: page.role for module in (catalog, users, tryout, imports) for page in module.PAGES}
    assert roles[users.USER + "/erase"] == "owner"
    assert {role for path, role in roles.items() if "/import" in path} == {"editor"}
    assert {role for path, role in roles.items() if "/catalog" in path} == {"viewer", "editor"}
    changes = {page.role for page in catalog.PAGES if "POST" in page.methods}
    assert changes == {"editor"}
