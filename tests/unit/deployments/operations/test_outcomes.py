"""The report of outcomes against the journal of a simulated world, and its equations against plain computations."""

from __future__ import annotations

import asyncio
import io
import math
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

from cluster.artifacts.logs.day_files import name_day
from cluster.artifacts.logs.outcomes import COLUMNS, SEEN, OutcomeStore
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import NotFound
from cluster.records.served_list import ServedAnswer
from deployments.operations.insight import product_counts
from deployments.operations.insight.outcome_report import MOST_GROUPS, OutcomeReport, estimate_figure
from deployments.operations.insight.outcome_sums import DIMENSIONS, AnswerSums, Dimension
from deployments.operations.insight.outcomes import load_report, write_report
from deployments.operations.insight.product_counts import (
    BUCKETS,
    MOST_CELLS,
    ProductCounts,
    ProductMeasures,
    compute_gini,
)
from tests.fakes.admin_shop import open_admin_shop
from tests.fakes.corner_shop import APP as SHOP
from tests.fakes.request_handler import NOW_MS
from tests.fakes.simulated_shop import APP, DAY_MS, PRODUCTS, ROWS, SimulatedShop, open_simulated_shop

REFUSED = ("unknown", "foreign", "future", "late")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> SimulatedShop:
    return asyncio.run(open_filled_shop(tmp_path_factory.mktemp("world")))


async def open_filled_shop(folder: Path) -> SimulatedShop:
    shop = await open_simulated_shop(folder, 5)
    await shop.run(1_000, people=300)
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
    assert compute_gini(np.bincount([5, 1, 3]), 5) == pytest.approx(pairs / (2 * 5 * sum(everything)))
    assert compute_gini(np.bincount([1, 1, 1, 1]), 4) == pytest.approx(0.0)


def test_product_figures_without_a_bucket_are_those_of_the_other_people() -> None:
    random = np.random.default_rng(2)
    counts, catalog = random.poisson(0.4, (BUCKETS, 50)), 60
    bits, fresh = random.random(50), (random.random(50) < 0.3).astype(float)
    figures = ProductMeasures(bits, fresh, catalog).measure(csr_array(counts.astype(np.uint32)))
    for at in range(BUCKETS + 1):
        shown = counts[[bucket for bucket in range(BUCKETS) if bucket != at - 1]].sum(axis=0)
        everything = np.concatenate([shown, np.zeros(catalog - 50)])
        pairs = np.abs(everything[:, None] - everything[None, :]).sum()
        assert figures["coverage"][at] == pytest.approx((shown > 0).sum() / catalog)
        assert figures["gini"][at] == pytest.approx(pairs / (2 * catalog * shown.sum()))
        assert figures["novelty"][at] == pytest.approx(shown @ bits / shown.sum())
        assert figures["new_products"][at] == pytest.approx(shown @ fresh / shown.sum())


@pytest.mark.parametrize("most", [0, 400, MOST_CELLS])
def test_counts_of_products_add_up_over_tables_and_threads(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(product_counts, "MOST_CELLS", most)
    random = Random(4)
    plain: Counter[tuple[str, int, str]] = Counter()
    halves = [ProductCounts(), ProductCounts()]
    for table in range(12):
        lists = [random.choices("abcdefgh", k=random.randrange(4)) for _ in range(random.choice([2, 300]))]
        groups = [random.randrange(2) for _ in lists]
        buckets = [random.randrange(BUCKETS) for _ in lists]
        names = [f"g{table % 3}", "every"]
        halves[table % 2].add(
            names, np.array(groups), np.array(buckets), pa.array(lists, pa.list_(pa.string()))
        )
        for shown, group, bucket in zip(lists, groups, buckets, strict=True):
            plain.update((names[group], bucket, product) for product in shown)
    halves[0].merge(halves[1])
    counted = {
        (group, bucket, product): int(part[bucket, at])
        for group, part in halves[0].read("every").items()
        for bucket in range(BUCKETS)
        for at, product in enumerate(halves[0].products.to_pylist())
        if part[bucket, at]
    }
    assert counted == plain


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
    answers = AnswerSums("total", with_products=True)
    answers.add(log.to_arrow())
    sums = answers.read(pl.DataFrame(), np.zeros(BUCKETS))
    assert sums.answers["lists"].sum() == 2
    assert sums.people == {"": 1}
    assert sums.shown[""].sum() == 2


def test_an_answer_without_a_rule_is_not_in_the_group_of_a_rule_named_none(tmp_path: Path) -> None:
    artifacts = ArtifactStore.open(tmp_path)
    answers = [
        ServedAnswer(f"s{at}", NOW_MS + at, "search", "default", rules=rules, products=("a",))
        for at, rules in enumerate([("none",), (), ()])
    ]
    ServedLogStore(artifacts).append(APP, answers, "1-0")
    result = load_report(artifacts, APP, "rule", NOW_MS - 1, NOW_MS + DAY_MS)
    assert {group.group: group.lists for group in result.groups} == {"none": 1, "(none)": 2}


def test_the_newest_days_are_listed(tmp_path: Path) -> None:
    artifacts = ArtifactStore.open(tmp_path)
    answers = [
        ServedAnswer(f"s{day}-{at}", NOW_MS - day * DAY_MS - at, "search", "default", products=("a",))
        for day in range(MOST_GROUPS + 5)
        for at in range(1 + day // MOST_GROUPS)
    ]
    ServedLogStore(artifacts).append(APP, answers, "1-0")
    result = load_report(artifacts, APP, "day", NOW_MS - 200 * DAY_MS, NOW_MS + 1)
    assert result.left_out == 5
    assert [group.group for group in result.groups] == [
        name_day(NOW_MS // DAY_MS - day) for day in reversed(range(MOST_GROUPS))
    ]


def test_places_that_were_seen_before_and_after_midnight_count(tmp_path: Path) -> None:
    artifacts = ArtifactStore.open(tmp_path)
    midnight_ms = (NOW_MS // DAY_MS + 1) * DAY_MS
    answer = ServedAnswer("s1", midnight_ms - 60_000, "search", "default", products=("a", "b", "c"))
    ServedLogStore(artifacts).append(APP, [answer], "1-0")
    rows = [
        {
            **dict.fromkeys(COLUMNS.names, ""), "at": at, "type": SEEN, "value": 0.0, "service_id": "s1",
            "answered_at": answer.at, "places": places, "origins": [0] * len(places), "endpoint": "search",
            "rules": [], "experiments": [],
        }
        for at, places in ((midnight_ms - 9, [1, 2]), (midnight_ms + 9, [2, 3]))
    ]  # fmt: skip
    for row in rows:
        table = pa.Table.from_pylist([row], COLUMNS)
        OutcomeStore(artifacts).replace_days(APP, {name_day(row["at"] // DAY_MS): table}, {})
    assert load_report(artifacts, APP, "total", NOW_MS - DAY_MS, midnight_ms + DAY_MS).total.seen == 3


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


def test_groups_are_compared_with_the_first_and_have_a_line_by_day(tmp_path: Path) -> None:
    artifacts = ArtifactStore.open(tmp_path)
    answers = [
        ServedAnswer(
            f"s{at}", NOW_MS + at % 3 * DAY_MS, "search", "ab"[at % 5 // 3], user=f"u{at}", products=("p",)
        )
        for at in range(300)
        if at % 3 != 1
    ]
    ServedLogStore(artifacts).append(APP, answers, "1-0")
    clicked = [answer for answer in answers if answer.engine_id == "b" or answer.at == NOW_MS]
    rows = [
        {
            **dict.fromkeys(COLUMNS.names, ""), "at": answer.at + 9, "type": "click", "product": "p", "value": 0.0,
            "service_id": answer.service_id, "answered_at": answer.at, "places": [1], "origins": [0], "sides": [],
            "endpoint": "search", "rules": [], "experiments": [], "engine_id": answer.engine_id, "user": answer.user,
        }
        for answer in clicked
    ]  # fmt: skip
    OutcomeStore(artifacts).replace_days(
        APP, {name_day(NOW_MS // DAY_MS): pa.Table.from_pylist(rows, COLUMNS)}, {}
    )
    first, second = load_report(artifacts, APP, "engine", NOW_MS - 1, NOW_MS + 9 * DAY_MS).groups
    assert (first.trend, second.trend) == ([1.0, None, 0.0], [1.0, None, 1.0])
    assert first.ctr_to_first is None
    assert second.ctr_to_first is not None
    assert second.ctr_to_first.value == pytest.approx(second.ctr.value - first.ctr.value)
    assert second.ctr_to_first.low is not None
    assert 0.2 < second.ctr_to_first.low < second.ctr_to_first.value


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


async def test_opened_sources_and_feedback_of_answers_to_questions_are_reported(tmp_path: Path) -> None:
    async with open_admin_shop(tmp_path) as shop:
        answers = [
            ServedAnswer(
                f"s{at}", NOW_MS - DAY_MS + at, "ask_question", "", user=f"u{at % 20}", products=("a", "b")
            )
            for at in range(40)
        ]
        ServedLogStore(shop.services.artifacts, shop.corner.clock).append(SHOP, answers, "1-0")
        rows = [
            {
                **dict.fromkeys(COLUMNS.names, ""), "at": answer.at + 9, "type": kind, "product": product,
                "value": 0.0, "service_id": answer.service_id, "answered_at": answer.at, "places": [1],
                "origins": [0], "sides": [], "endpoint": "ask_question", "rules": [], "experiments": [],
                "user": answer.user,
            }
            for answer in answers[:10]
            for kind, product in (("click", "a"), ("product_detail_page_view", "b"), ("like", "b"))
        ]  # fmt: skip
        OutcomeStore(shop.services.artifacts).replace_days(
            SHOP, {name_day(NOW_MS // DAY_MS - 1): pa.Table.from_pylist(rows, COLUMNS)}, {}
        )
        judged = [("v1", "helpful"), ("v1", "not helpful"), ("v2", "helpful"), ("v3", "so so")]
        for visitor, value in judged:
            event = {"type": "feedback", "anonymous_id": visitor, "question_id": "s1", "value": value}
            reply = await shop.corner.send(
                "POST", "/v1/interactions", json={"data": [{**event, "result_type": "answer"}]}
            )
            assert reply.status == 200, reply.body
            shop.corner.clock.pass_ms(1_000)
        result = await shop.perform("outcomes.report", by="engine")
    assert result.total.lists == 0
    assert (result.questions.answers, result.questions.clicked.value) == (40, 0.25)
    assert result.questions.clicked.low < 0.25 < result.questions.clicked.high
    assert (result.questions.helpful, result.questions.not_helpful, result.questions.other) == (1, 1, 1)
    assert result.questions.sentence in result.to_lines()
