"""The first page of an app: ticks at the steps that are done, and where people of one app land."""

from __future__ import annotations

from cluster.records.administration import AppRole
from tests.fakes.admin_shop import AdminShop
from tests.fakes.archive_oauth import an_account
from tests.fakes.console import Visitor, console_app, open_console_services
from tests.fakes.corner_shop import APP


async def _visit(opened: AdminShop, roles: dict[str, AppRole]) -> Visitor:
    stores = opened.corner.stores
    await stores.accounts.add(an_account(role="reader").model_copy(update={"roles": roles}))
    services = open_console_services(
        stores, opened.corner.clock, services=opened.services, app_ids=(APP, "empty")
    )
    visitor = Visitor(console_app(services))
    await visitor.sign_in()
    return visitor


async def test_steps_that_are_done_have_a_tick_and_a_count(shop: AdminShop) -> None:
    progress = await shop.perform("apps.progress", role="viewer")
    assert progress.products == (await shop.perform("catalog.list")).get("total")
    assert progress.orders > 0
    assert progress.interactions > progress.orders
    assert (progress.models, progress.is_on_page) == (0, True)
    visitor = await _visit(shop, {APP: "owner"})
    page = await visitor.get(f"/apps/{APP}/start")
    assert "3 of 4 steps done" in page.text
    assert page.text.count("✓ done") == 3
    assert f"{progress.products} products" in page.text
    assert "No model serves yet." in page.text
    assert f'href="/console/apps/{APP}/models/trainings/new"' in page.text
    assert 'src="https://shop.example.com/kiosk-1.js"' in page.text.replace("&#34;", '"')


async def test_people_of_one_app_land_on_it_and_viewers_get_no_link_to_what_they_may_not_do(
    shop: AdminShop,
) -> None:
    visitor = await _visit(shop, {APP: "viewer"})
    answer = await visitor.get("/")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/console/apps/{APP}/start")
    page = await visitor.get(f"/apps/{APP}/start")
    assert "trainings/new" not in page.text
    assert "Redis" not in page.text


async def test_an_app_without_data_has_every_step_to_do(shop: AdminShop) -> None:
    visitor = await _visit(shop, {APP: "viewer", "empty": "viewer"})
    access = shop.corner.stores.access
    app = (await access.read_all()).apps[APP]
    await access.put_app(app.model_copy(update={"app_id": "empty"}))
    page = await visitor.get("/apps/empty/start")
    assert "0 of 4 steps done" in page.text
    assert "✓ done" not in page.text


async def test_pages_show_the_display_name_of_an_app_and_addresses_its_id(shop: AdminShop) -> None:
    visitor = await _visit(shop, {APP: "owner"})
    await visitor.post(f"/apps/{APP}/access/display-name", display_name="Geschenke <Laden>")
    await shop.corner.keyring.refresh()
    services = open_console_services(
        shop.corner.stores, shop.corner.clock, services=shop.services, app_ids=(APP,),
        display_name_of=shop.corner.keyring.display_name_of,
    )  # fmt: skip
    again = Visitor(console_app(services))
    await again.sign_in()
    for path, title in (("access", "Access"), ("start", "Get started"), ("catalog", "Catalog")):
        page = await again.get(f"/apps/{APP}/{path}")
        assert f"Geschenke &lt;Laden&gt; · {title}</h1>" in page.text
        assert f">Geschenke &lt;Laden&gt; ({APP})</option>" in page.text
        assert f"/console/apps/{APP}/catalog" in page.text


async def test_a_new_app_is_offered_two_environments_with_their_difference(shop: AdminShop) -> None:
    stores = shop.corner.stores
    await stores.accounts.add(an_account(role="administrator"))
    services = open_console_services(stores, shop.corner.clock, services=shop.services, app_ids=(APP,))
    visitor = Visitor(console_app(services))
    await visitor.sign_in()
    page = await visitor.get("/apps")
    for words in ("for building and testing", "for your customers", "Production requires a proof for writes"):
        assert words in page.text
