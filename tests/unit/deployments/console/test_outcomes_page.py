"""The page of outcomes: charts, rows and files of what followed from lists; the line on the first page of an app."""

from __future__ import annotations

import io

import polars as pl
import pyarrow as pa

from cluster.artifacts.logs.day_files import DAY_MS, name_day
from cluster.artifacts.logs.outcomes import COLUMNS, OutcomeStore
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.records.served_list import ServedAnswer
from deployments.console.renderer import draw_line_runs
from tests.fakes.admin_shop import AdminShop
from tests.fakes.corner_shop import APP, NOW_MS
from tests.unit.deployments.console.test_catalog_pages import ESCAPED, HOSTILE, visitor

PAGE = f"/apps/{APP}/outcomes"
EXPERIMENT = "only an experiment can tell"


def fill(shop: AdminShop) -> None:
    """Give one list to each of 30 people on three days; every third one buys for 12.50."""
    answers, outcomes = [], []
    for number in range(30):
        at, engine = NOW_MS - (1 + number % 3) * DAY_MS, HOSTILE if number % 2 else "default"
        answers.append(
            ServedAnswer(f"s{number}", at, "user_to_products", engine, user=f"u{number}", products=("a", "b"))
        )
        if number % 3 == 0:
            outcomes.append(
                dict.fromkeys(COLUMNS.names) | {
                    "at": at + 1, "answered_at": at, "type": "checkout", "product": "b", "value": 12.5, "places": [2],
                    "origins": [0], "service_id": f"s{number}", "user": f"u{number}", "engine_id": engine,
                    "endpoint": "search",
                }
            )  # fmt: skip
    ServedLogStore(shop.services.artifacts, shop.corner.clock).append(APP, answers, "1-0")
    table = pa.Table.from_pylist(outcomes, schema=COLUMNS)
    OutcomeStore(shop.services.artifacts).replace_days(APP, {name_day(NOW_MS // DAY_MS - 1): table}, {})


async def test_the_page_shows_rows_charts_and_the_line(shop: AdminShop) -> None:
    fill(shop)
    person = await visitor(shop, "analyst")
    page = (await person.get(PAGE)).text
    assert "30 lists for 30 people" in page
    assert "125.00" in page
    assert EXPERIMENT in page
    assert ESCAPED in page
    assert HOSTILE not in page
    assert page.count("data-chart=") == 2
    places = (await person.get(f"{PAGE}?by=place&since=30d")).text
    assert places.count("data-chart=") == 3
    assert page.count('class="sparkline"') == 2
    assert "CTR against" in page
    assert "CTR against" not in places
    assert (await person.get(f"{PAGE}?by=nonsense&since=nonsense")).status_code == 200


async def test_rows_are_downloaded_as_files(shop: AdminShop) -> None:
    fill(shop)
    person = await visitor(shop, "analyst")
    reply = await person.get(f"{PAGE}/file?by=place&form=parquet")
    frame = pl.read_parquet(io.BytesIO(reply.content))
    assert frame.select("place", "lists", "conversions").rows() == [("1", 30, 0), ("2", 30, 10)]
    reply = await person.get(f"{PAGE}/file?by=engine")
    assert reply.headers["content-disposition"] == 'attachment; filename="outcomes-engine.csv"'


async def test_the_first_page_of_an_app_has_the_line_of_the_week(shop: AdminShop) -> None:
    person = await visitor(shop, "analyst")
    first = (await person.get(f"/apps/{APP}/start")).text
    assert EXPERIMENT not in first
    fill(shop)
    shop.services.cache.drop(("outcomes.report", APP, "7d", "engine"))
    first = (await person.get(f"/apps/{APP}/start")).text
    assert "30 lists for 30 people" in first
    assert EXPERIMENT in first
    assert first.count('class="sparkline"') == 2


async def test_viewers_see_no_money(shop: AdminShop) -> None:
    fill(shop)
    person = await visitor(shop, "viewer")
    assert (await person.get(PAGE)).status_code == 403
    assert "30 lists" not in (await person.get(f"/apps/{APP}/start")).text


def test_a_line_has_a_gap_on_days_without_lists() -> None:
    assert draw_line_runs([0.5, 1.0, None, 0.0]) == ["0.0,10.0 33.3,1.0", "100.0,19.0 100.0,19.0"]
    assert draw_line_runs([]) == draw_line_runs([None]) == []
