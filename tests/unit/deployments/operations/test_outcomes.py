"""The report of outcomes against the journal of a simulated world, and its equations against plain computations."""

from __future__ import annotations

import asyncio
import io
import math
from pathlib import Path
from random import Random

import numpy as np
import polars as pl
import pytest

from cluster.artifacts.artifact_store import ArtifactStore
from cluster.artifacts.served_log import ServedLogStore
from cluster.errors import NotFound
from cluster.records.served_answer import ServedAnswer
from deployments.operations.insight.outcome_report import OutcomeReport, compute_gini, estimate_figure
from deployments.operations.insight.outcome_sums import BUCKETS, DIMENSIONS, Dimension, sum_answers
from deployments.operations.insight.outcomes import load_report, write_report
from tests.fakes.request_handler import NOW_MS
from tests.fakes.simulated_shop import APP, DAY_MS, PRODUCTS, ROWS, SimulatedShop, open_simulated_shop

REFUSED = ("unknown", "foreign", "future", "late")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> SimulatedShop:
    return asyncio.run(open_filled_shop(tmp_path_factory.mktemp("world")))


async def open_filled_shop(folder: Path) -> SimulatedShop:
    shop = await open_simulated_shop(folder, 5)
    await shop.run(120, people=40)
    await shop.settle()
    return shop


def report(shop: SimulatedShop, by: Dimension = "total") -> OutcomeReport:
    now_ms = shop.clock.now_ms()
    return load_report(shop.artifacts, APP, by, now_ms - 7 * DAY_MS, now_ms + 1)


def test_the_report_equals_the_journal_to_the_count(shop: SimulatedShop) -> None:
    journal, total = shop.journal, report(shop).total
    assert total.lists == journal.lists.total()
    assert total.places == ROWS * total.lists
    assert total.people == len(journal.people)
    assert total.clicks == sum(count for (kind, *_), count in journal.credits.items() if kind == "click")
    assert round(total.revenue.value * 100) == journal.revenue.total()
    verdicts = report(shop).verdicts
    assert {name: verdicts[name] for name in REFUSED} == {name: journal.verdicts[name] for name in REFUSED}


def test_engines_and_places_equal_the_journal(shop: SimulatedShop) -> None:
    journal = shop.journal
    for group in report(shop, "engine").groups:
        assert group.lists == journal.lists[group.group]
        assert round(group.revenue.value * 100) == journal.revenue[group.group]
    for group in report(shop, "place").groups:
        place = int(group.group)
        clicks = sum(journal.credits["click", engine, place] for engine in journal.lists)
        assert (group.lists, group.clicks) == (journal.lists.total(), clicks)
        assert group.ctr.value == clicks / group.lists


@pytest.mark.parametrize("by", DIMENSIONS)
def test_every_dimension_has_the_same_total(shop: SimulatedShop, by: Dimension) -> None:
    result, plain = report(shop, by), report(shop)
    figures = ("lists", "people", "places", "clicks", "conversions", "ctr")
    assert [getattr(result.total, name) for name in figures] == [
        getattr(plain.total, name) for name in figures
    ]
    assert result.total.revenue.value == pytest.approx(plain.total.revenue.value)
    assert result.groups
    if by not in ("place", "rule", "variant", "origin"):
        assert sum(group.lists for group in result.groups) == result.total.lists
        assert sum(group.clicks for group in result.groups) == result.total.clicks


def test_engines_differ_in_coverage_and_clicks(shop: SimulatedShop) -> None:
    good, plain = sorted(report(shop, "engine").groups, key=lambda group: group.group)
    assert plain.coverage is not None
    assert plain.coverage.value == 1.0
    assert good.ctr.value > plain.ctr.value
    assert good.novelty is not None
    assert 0 < good.novelty.value < math.log2(PRODUCTS)


def test_the_period_before_is_compared(shop: SimulatedShop) -> None:
    now_ms = shop.clock.now_ms()
    half = (now_ms - NOW_MS) // 2
    result = load_report(shop.artifacts, APP, "segment", now_ms - half, now_ms)
    ctr = result.total.ctr
    assert ctr.before is not None
    assert ctr.change_low is not None
    assert ctr.change_high is not None
    assert ctr.change_low < ctr.value - ctr.before < ctr.change_high
    assert {group.group for group in result.groups} == {"new", "returning"}


def test_a_long_period_of_a_serving_process_begins_later(shop: SimulatedShop) -> None:
    now_ms = shop.clock.now_ms()
    assert load_report(shop.artifacts, APP, "total", now_ms - 7 * DAY_MS, now_ms, most=1).is_shortened


def test_rows_are_exported_as_csv_and_parquet(shop: SimulatedShop) -> None:
    result = report(shop, "engine")
    csv = pl.read_csv(io.BytesIO(write_report(result, "csv")))
    parquet = pl.read_parquet(io.BytesIO(write_report(result, "parquet")))
    for frame in (csv, parquet):
        assert frame["engine"].to_list() == [group.group for group in result.groups]
        assert frame["ctr_low"].to_list() == [group.ctr.low for group in result.groups]


def test_an_app_without_answers_has_an_empty_report(shop: SimulatedShop) -> None:
    result = load_report(shop.artifacts, "other", "engine", 0, DAY_MS)
    assert (result.total.lists, result.groups) == (0, [])
    assert result.sentence.startswith("Kiosk gave no lists")


def test_gini_is_that_of_the_whole_catalog() -> None:
    everything = [5.0, 1.0, 3.0, 0.0, 0.0]
    pairs = sum(abs(left - right) for left in everything for right in everything)
    assert compute_gini(np.array([5.0, 1.0, 3.0]), 5) == pytest.approx(pairs / (2 * 5 * sum(everything)))
    assert compute_gini(np.ones(4), 4) == pytest.approx(0.0)


def test_intervals_cover_the_truth_although_people_differ() -> None:
    random, hits, worlds = np.random.default_rng(3), 0, 400
    for _ in range(worlds):
        lists = random.integers(1, 30, size=300)
        clicks = random.binomial(lists, random.beta(1, 4, size=300))
        bucket = random.integers(0, BUCKETS, size=300)
        cells = {
            "lists": np.bincount(bucket, lists, BUCKETS),
            "clicked": np.bincount(bucket, clicks, BUCKETS),
        }
        figure = estimate_figure(
            lambda kept, part: float(kept @ part["clicked"] / (kept @ part["lists"])), cells, None
        )
        assert figure.low is not None
        assert figure.high is not None
        hits += figure.low <= 0.2 <= figure.high
    assert 0.92 <= hits / worlds <= 0.98


def test_people_in_one_bucket_have_no_interval() -> None:
    lists = np.zeros(BUCKETS)
    lists[Random(1).randrange(BUCKETS)] = 9.0
    figure = estimate_figure(lambda kept, part: float(kept @ part["lists"]), {"lists": lists}, None)
    assert (figure.value, figure.low) == (9.0, None)


def test_completions_questions_and_calls_of_agents_are_no_lists() -> None:
    endpoints = ["user_to_products", "search", "autocomplete", "ask_question", "archive_ask_archive"]
    log = pl.DataFrame({"endpoint": endpoints, "user": ["ada"] * 5, "at": range(5), "products": [["p1"]] * 5})
    answers, people, shown = sum_answers([log.to_arrow()], "total", None, with_products=True)
    assert answers["lists"].sum() == 2
    assert people.height == 1
    assert shown["count"].sum() == 2


def report_engines(folder: Path, *engines: str) -> OutcomeReport:
    artifacts = ArtifactStore.open(folder)
    answers = [
        ServedAnswer(f"s{at}", NOW_MS + at, "search", engine, user=f"u{at}", products=("a",))
        for at, engine in enumerate(engines)
    ]
    ServedLogStore(artifacts).append(APP, answers, "1-0")
    return load_report(artifacts, APP, "engine", NOW_MS - 1, NOW_MS + DAY_MS)


def test_an_engine_named_total_is_no_total(tmp_path: Path) -> None:
    result = report_engines(tmp_path, "total", "total", "default")
    assert (result.total.group, result.total.lists) == ("total", 3)
    assert [(group.group, group.lists) for group in result.groups] == [("total", 2), ("default", 1)]


def test_no_spreadsheet_computes_a_name(tmp_path: Path) -> None:
    result = report_engines(tmp_path, "=1+1")
    assert b"\n'=1+1," in write_report(result, "csv")
    assert pl.read_parquet(io.BytesIO(write_report(result, "parquet")))["engine"].to_list() == ["=1+1"]


def test_a_report_reads_again_what_the_intake_merged_meanwhile(
    shop: SimulatedShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, failures = ServedLogStore._table, [NotFound("merged")]

    def read_or_fail(self: ServedLogStore, *given: object) -> object:
        if failures:
            raise failures.pop()
        return read(self, *given)  # type: ignore[arg-type]

    expected = report(shop).total.lists
    monkeypatch.setattr(ServedLogStore, "_table", read_or_fail)
    assert report(shop).total.lists == expected
    assert not failures


def test_a_period_longer_than_the_calendar_is_everything(shop: SimulatedShop) -> None:
    now_ms = shop.clock.now_ms() + 1
    everything = load_report(shop.artifacts, APP, "total", now_ms - 999_999 * 7 * DAY_MS, now_ms)
    assert everything.total.lists == report(shop).total.lists
