"""Attribution through the real interface: what the logs say followed from answers, against the journal of a world."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from actors.intake.attribution import MOST_REVENUE
from actors.intake.outcome_attribution import (
    MOST_DAYS,
    MOST_IDS,
    OutcomeAttributor,
    _join_events,
    map_pseudonyms,
)
from cluster.artifacts.logs.day_files import DAY_MS
from cluster.artifacts.logs.outcomes import SEEN
from cluster.clock import iso_ms
from tests.fakes.simulated_shop import APP, MINUTE_MS, SimulatedShop, open_simulated_shop


def rows(shop: SimulatedShop) -> pl.DataFrame:
    frame = pl.DataFrame(pl.from_arrow(shop.outcomes.read(APP, 0)))
    return frame.unique(["service_id", "type", "product"], keep="first", maintain_order=True)


def verdicts(shop: SimulatedShop) -> dict[str, int]:
    days = {entry.facts["day"] for entry in shop.outcomes.commit(APP).files}
    return shop.outcomes.counts(APP, days)


async def test_outcomes_equal_the_journal_to_the_count(tmp_path: Path) -> None:
    shop = await open_simulated_shop(tmp_path, 2)
    for _ in range(3):
        await shop.run(40, people=20)
        await shop.settle()
    outcomes, journal = rows(shop), shop.journal
    credits = outcomes.filter(pl.col("type") != "refund").select(
        "type", "engine_id", pl.col("places").list.first()
    )
    assert Counter(credits.iter_rows()) == journal.credits
    cents = outcomes.group_by("engine_id").agg((pl.col("value").sum() * 100).round().cast(pl.Int64))
    assert dict(cents.iter_rows()) == {**dict.fromkeys(cents["engine_id"], 0), **journal.revenue}
    assert verdicts(shop) == dict(journal.verdicts)
    assert min(journal.verdicts.values()) >= 3
    assert (outcomes["at"] // DAY_MS).n_unique() == 2


class Visitor:
    """Sends events of one visitor, and reads what they led to."""

    def __init__(self, shop: SimulatedShop) -> None:
        self.shop = shop

    async def track(self, kind: str, *product_ids: str, ago_ms: int = 0, **more: Any) -> None:
        at = iso_ms(self.shop.clock.now_ms() - ago_ms)
        event = {"type": kind, "anonymous_id": "v0", "product_ids": product_ids, "timestamp": at, **more}
        await self.shop.post("interactions", {"data": [{**event, "product_ids": list(product_ids)}]})
        self.shop.clock.pass_ms(2_000)

    async def outcomes(self) -> list[tuple[Any, ...]]:
        await self.shop.settle()
        return rows(self.shop).select("type", "product", "value", "matched").rows()


@pytest.fixture
async def visitor(tmp_path: Path) -> Visitor:
    shop = await open_simulated_shop(tmp_path, 3)
    shop.engines.interests["a:v0"] = 0
    return Visitor(shop)


async def test_impressions_of_an_answer_are_one_row_with_its_places(visitor: Visitor) -> None:
    shown = await visitor.shop.ask("v0")
    await visitor.track("impression", *shown.products[:2], service_id=shown.service_id)
    await visitor.track("viewable_impression", shown.products[0], shown.products[3])
    await visitor.shop.settle()
    [row] = rows(visitor.shop).select("type", "product", "places").rows()
    assert row == (SEEN, "", [1, 2, 4])


async def test_a_purchase_is_split_by_price_and_quantity_where_prices_are_stored(visitor: Visitor) -> None:
    shown = await visitor.shop.ask("v0")
    first, second, third = shown.products[:3]
    products = [
        {"product_id": first, "title": "a", "price": 30},
        {"product_id": second, "title": "b", "price": 10},
    ]
    corner = visitor.shop.corner
    stored = await corner.send("POST", "/v1/products", json={"data": products})
    assert stored.status == 200
    await corner.apply()
    await visitor.track("checkout", first, second, quantities=[1, 3], revenue=120)
    await visitor.track("checkout", third, "elsewhere", revenue=9)
    assert await visitor.outcomes() == [
        ("checkout", first, 60.0, "person"),
        ("checkout", second, 60.0, "person"),
        ("checkout", third, 4.5, "person"),
    ]


@pytest.mark.parametrize("passed_ms", [0, DAY_MS])
async def test_a_purchase_is_refunded_once_on_whichever_day_the_refund_is_sent_again(
    visitor: Visitor, passed_ms: int
) -> None:
    shown = await visitor.shop.ask("v0")
    await visitor.track("checkout", shown.products[0], revenue=20)
    await visitor.track("refund", shown.products[0])
    await visitor.shop.settle()
    visitor.shop.clock.pass_ms(passed_ms)
    await visitor.track("refund", shown.products[0])
    await visitor.shop.settle()
    outcomes = pl.DataFrame(pl.from_arrow(visitor.shop.outcomes.read(APP, 0)))
    assert outcomes.select("type", "value").rows() == [("checkout", 20.0), ("refund", -20.0)]


async def test_what_a_visitor_saw_counts_when_their_user_buys_later(visitor: Visitor) -> None:
    shown = await visitor.shop.ask("v0")
    await visitor.track("like", "elsewhere", user_id="ada")
    await visitor.outcomes()
    visitor.shop.clock.pass_ms(2 * DAY_MS)
    await visitor.track("checkout", shown.products[0], revenue=5, user_id="ada", anonymous_id="phone")
    assert await visitor.outcomes() == [("checkout", shown.products[0], 5.0, "person")]


async def test_a_late_event_corrects_the_past(visitor: Visitor) -> None:
    shown = await visitor.shop.ask("v0")
    await visitor.outcomes()
    visitor.shop.clock.pass_ms(9 * DAY_MS)
    await visitor.track("click", shown.products[1])
    assert await visitor.outcomes() == []
    await visitor.track(
        "click", shown.products[2], ago_ms=9 * DAY_MS - MINUTE_MS, service_id=shown.service_id
    )
    assert await visitor.outcomes() == [("click", shown.products[2], 0.0, "id")]
    await visitor.track("click", shown.products[2], ago_ms=9 * DAY_MS - 5 * MINUTE_MS)
    assert len(await visitor.outcomes()) == 1


async def test_an_event_that_is_compacted_before_its_answer_counts_once_the_answer_is_there(
    visitor: Visitor,
) -> None:
    shown = await visitor.shop.ask("v0")
    await visitor.track("click", shown.products[0], service_id=shown.service_id)
    await visitor.shop.intake.compact_round(at_once=True)
    await visitor.shop.intake.attribute_round(at_once=True)
    assert await visitor.outcomes() == [("click", shown.products[0], 0.0, "id")]


async def test_old_days_wait_so_that_single_late_events_cost_little(visitor: Visitor) -> None:
    shown = await visitor.shop.ask("v0")
    await visitor.outcomes()
    visitor.shop.clock.pass_ms(3 * DAY_MS)
    await visitor.track("click", shown.products[0])
    await visitor.outcomes()
    await visitor.track("click", shown.products[0], ago_ms=3 * DAY_MS - MINUTE_MS)
    await visitor.shop.intake.compact_round(at_once=True)
    visitor.shop.clock.pass_ms(3_600_000)
    assert await visitor.shop.intake.attribute_round() == 0
    visitor.shop.clock.pass_ms(6 * 3_600_000)
    assert await visitor.shop.intake.attribute_round() == 1
    assert len(rows(visitor.shop)) == 1


async def test_an_answer_just_after_midnight_is_credited_although_the_clock_of_the_client_is_behind(
    visitor: Visitor,
) -> None:
    shop = visitor.shop
    shop.clock.pass_ms(DAY_MS - shop.clock.now_ms() % DAY_MS - 60_000)
    await shop.ask("v0")
    await visitor.outcomes()
    shop.clock.pass_ms(70_000)
    shown = await shop.ask("v0")
    await visitor.track("click", shown.products[0], ago_ms=30_000, service_id=shown.service_id)
    await visitor.track("like", shown.products[0], ago_ms=600_000, service_id=shown.service_id)
    assert await visitor.outcomes() == [("click", shown.products[0], 0.0, "id")]
    assert {name: verdicts(shop)[name] for name in ("id", "future")} == {"id": 1, "future": 1}


async def test_the_first_rounds_compute_the_newest_days_and_older_ones_follow(visitor: Visitor) -> None:
    shop = visitor.shop
    for _ in range(2 * MOST_DAYS):
        shown = await shop.ask("v0")
        await visitor.track("click", shown.products[0], service_id=shown.service_id)
        await shop._served_log.write()
        shop.clock.pass_ms(DAY_MS)
    await shop.intake.compact_round(at_once=True)
    rounds = []
    for _ in range(4):
        rounds.append((await shop.intake.attribute_round(), rows(shop).height))
        shop.clock.pass_ms(MINUTE_MS * 10)
    assert rounds == [(7, 6), (7, 13), (1, 14), (0, 14)]


async def test_an_erasure_removes_outcomes_for_good(visitor: Visitor) -> None:
    shown = await visitor.shop.ask("v0")
    await visitor.track("click", shown.products[0], service_id=shown.service_id)
    assert len(await visitor.outcomes()) == 1
    await visitor.shop.intake._delete_log_rows(APP, ["a:v0"])
    assert await visitor.outcomes() == []
    await visitor.shop.intake.attribute_round(at_once=True)
    assert await visitor.outcomes() == []


async def test_a_late_answer_counts_although_an_erasure_removed_as_many_answers_of_its_day(
    visitor: Visitor,
) -> None:
    shop = visitor.shop
    shop.engines.interests["a:v1"] = 1
    await shop.ask("v1")
    body = {"anonymous_id": "v0", "rows": 4, "engine_id": "good"}
    late = shop.show("v0", "good", await shop.post("recommendation/user_to_products", body))
    await visitor.track("click", late.products[0], service_id=late.service_id)
    await shop.intake.compact_round(at_once=True)
    assert await shop.intake.attribute_round(at_once=True) == 1
    await shop.intake._delete_log_rows(APP, ["a:v1"])
    assert await visitor.outcomes() == [("click", late.products[0], 0.0, "id")]


@pytest.mark.parametrize("asks_again", [True, False], ids=["with a later answer", "without another answer"])
async def test_outcomes_leave_with_the_log_of_answers(visitor: Visitor, asks_again: bool) -> None:
    shown = await visitor.shop.ask("v0")
    await visitor.track("click", shown.products[0], service_id=shown.service_id)
    assert len(await visitor.outcomes()) == 1
    visitor.shop.clock.pass_ms(92 * DAY_MS)
    if asks_again:
        await visitor.shop.ask("v0")
    assert await visitor.outcomes() == []


async def test_one_app_does_not_stop_the_attribution_of_others(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    attributor, run_app = visitor.shop.intake._attributor, OutcomeAttributor._run_app
    assert attributor is not None

    async def run_or_fail(self: OutcomeAttributor, app_id: str, *more: Any) -> int:
        if app_id == "broken":
            raise pl.exceptions.ComputeError("no JSON")
        return await run_app(self, app_id, *more)

    monkeypatch.setattr(OutcomeAttributor, "_run_app", run_or_fail)
    await visitor.shop.ask("v0")
    await visitor.shop._served_log.write()
    await visitor.shop.intake.compact_round(at_once=True)
    assert await attributor.run_once({"broken": 90, APP: 90}, at_once=True) == 1


async def test_a_huge_revenue_stays_finite(visitor: Visitor) -> None:
    shown = await visitor.shop.ask("v0")
    await visitor.track("checkout", shown.products[0], revenue=1.7e308, quantities=1e308)
    [(*_, value, _)] = await visitor.outcomes()
    assert value == MOST_REVENUE


def test_a_user_with_very_many_visitors_is_many_people() -> None:
    visitors = [f"a:{number}" for number in range(MOST_IDS + 1)]
    links = dict.fromkeys(visitors, "u:guest")
    assert map_pseudonyms(["u:guest", *visitors], links, b"salt").height == len(visitors) + 1
    some = dict.fromkeys(visitors[:3], "u:ada")
    assert map_pseudonyms(["u:ada", *visitors[:3]], some, b"salt").height == 4 * 4


def test_interactions_of_several_segments_have_different_numbers() -> None:
    numbers: list[list[int]] = [[0, 0, 2], [], [0, 1]]
    parts = [pl.DataFrame({"event": events}, schema={"event": pl.UInt32}) for events in numbers]
    events = _join_events(parts)["event"].to_list()
    assert len(set(events)) == 4
    assert events[:3] == [0, 0, 2]
