"""Logged lists become arrays of estimates, what can't be used is counted, and the example of the guide runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from cluster.artifacts.logs.outcomes import COLUMNS, OutcomeStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from jobs.export.columns import SCHEMAS
from jobs.refresh.evaluation.logged_lists import collect_lists, place_ranking
from tests.house.tree import ROOT

EXAMINED = (0.8, 0.6, 0.4)
CHANCES = {"a": 0.3, "b": 0.4, "c": 0.2, "d": 0.6, "e": 0.1}
SHARE, START_MS, DAY = 0.2, 1_772_400_000_000, "2026-03-01"


def answer(number: int, products: str = "abc", **facts: Any) -> dict[str, Any]:
    """Return a row of the log that shows products with ids of one letter, and no exploration."""
    row = {name: [] if pa.types.is_list(kind) else "" if pa.types.is_string(kind) else 0
           for name, kind in zip(SCHEMAS["served"].names, SCHEMAS["served"].types, strict=True)}  # fmt: skip
    changes = {
        "service_id": f"s{number}", "at": START_MS + number, "endpoint": "user_to_products", "products": list(products),
        "origins": [0] * len(products), "propensities": [1.0] * len(products),
    }  # fmt: skip
    return row | changes | facts


def outcome(service_id: str, place: int, kind: str = "click") -> dict[str, Any]:
    """Return a row of an interaction with the product of a place, from 1."""
    row = {name: [] if pa.types.is_list(column) else "" if pa.types.is_string(column) else 0
           for name, column in zip(COLUMNS.names, COLUMNS.types, strict=True)}  # fmt: skip
    return row | {"service_id": service_id, "at": START_MS, "type": kind, "places": [place]}


def frames(
    answers: list[dict[str, Any]], outcomes: list[dict[str, Any]]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    tables = (
        pa.Table.from_pylist(answers, schema=SCHEMAS["served"]),
        pa.Table.from_pylist(outcomes, schema=COLUMNS),
    )
    return pl.DataFrame(tables[0]), pl.DataFrame(tables[1])


def explored_answers(random: np.random.Generator, count: int) -> list[dict[str, Any]]:
    """Return lists of an engine that ranks a, b, c and draws d or e for a place of some lists."""
    rows = []
    for number in range(count):
        products, origins, propensities = list("abc"), [0] * 3, [1 - SHARE / 3] * 3
        if random.random() < SHARE:
            place = int(random.integers(3))
            products[place], origins[place] = "de"[random.integers(2)], 3
            propensities[place] = SHARE / 3 / 2
        facts = {"origins": origins, "propensities": propensities, "user": f"p{number % 900}"}
        rows.append(answer(number, "".join(products), **facts))
    return rows


def run_example(
    folder: Path, monkeypatch: pytest.MonkeyPatch, ranking: str, count: int = 9_000
) -> dict[str, Any]:
    """Run the program of the guide on a generated log, in a folder; return its variables."""
    random = np.random.default_rng(5)
    answers = explored_answers(random, count)
    clicks = [
        outcome(row["service_id"], place + 1)
        for row in answers
        for place, product in enumerate(row["products"])
        if random.random() < EXAMINED[place] * CHANCES[product]
    ]
    frames(answers, [])[0].write_parquet(folder / "answers.parquet")
    store = OutcomeStore(ArtifactStore.open(folder / "data/shelf"))
    store.replace_days("bookshop", {DAY: pa.Table.from_pylist(clicks, schema=COLUMNS)}, {})
    rankings = {row["service_id"]: list(ranking) for row in answers}
    (folder / "rankings.json").write_text(json.dumps(rankings))
    (code,) = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "docs/guides/off-policy.md").read_text(), re.M | re.S
    )
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    exec(compile(code, "off-policy.md", "exec"), names)
    return names


def test_the_example_of_the_guide_estimates_what_a_ranking_would_have_earned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = run_example(tmp_path, monkeypatch, "dbc")
    truth = sum(EXAMINED[place] * CHANCES[product] for place, product in enumerate("dbc"))
    for name, estimate in names["estimates"].items():
        assert estimate.low <= truth <= estimate.high, name
    shown = sum(EXAMINED[place] * CHANCES[product] for place, product in enumerate("abc"))
    assert names["shown"].value == pytest.approx(shown, abs=0.03)
    assert len(np.unique(names["lists"].log.people)) == 900
    assert re.search(r"^support \d+\.\d%, information of .*\nshown: .*\nips: ", capsys.readouterr().out, re.M)


@pytest.mark.parametrize("ranking", ["bac", "zbc", ""])
def test_the_example_of_the_guide_prints_why_a_ranking_has_no_estimate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ranking: str
) -> None:
    run_example(tmp_path, monkeypatch, ranking, count=2_000)
    assert "no estimate: the log can show " in capsys.readouterr().out


def test_answers_that_estimates_can_not_use_are_left_out_and_counted() -> None:
    answers = [
        answer(1), answer(2, endpoint="ask_search"), answer(3, start=10), answer(4, ""),
        answer(5, propensities=[1.0, None, 1.0]), answer(6, propensities=[]), answer(7, propensities=[1.0, 0.0, 1.0]),
        answer(8, origins=[1, 0, 0]), answer(9, start=10, request='{"pagination_id":"walk"}'),
    ]  # fmt: skip
    lists = collect_lists(*frames(answers, []))
    assert lists.left_out == {
        "other endpoints": 1, "later pages without a pagination_id": 1, "no products": 1,
        "no propensities": 3, "places of rules": 1,
    }  # fmt: skip
    assert lists.answers["service_id"].to_list() == ["s1", "s8", "s9"]
    assert lists.log.lists.tolist() == [0, 0, 0, 1, 1, 2, 2, 2]
    assert lists.log.places.tolist() == [0, 1, 2, 1, 2, 0, 1, 2]


def test_clicks_are_credited_once_at_their_places_and_other_interactions_are_not() -> None:
    outcomes = [
        outcome("s1", 2), outcome("s1", 2, "read"), outcome("s2", 1, "checkout"), outcome("s2", 3), outcome("s9", 1),
    ]  # fmt: skip
    log = collect_lists(*frames([answer(1), answer(2)], outcomes)).log
    assert log.rewards.tolist() == [0, 1, 0, 0, 0, 1]


def test_lists_without_a_user_stand_alone() -> None:
    users = ["p1", "", "p1", ""]
    rows = [answer(number, user=user) for number, user in enumerate(users)]
    people = collect_lists(*frames(rows, [])).log.people.tolist()
    assert people[0] == people[2]
    assert len(set(people)) == 3


def test_a_ranking_fills_the_places_that_rules_leave() -> None:
    lists = collect_lists(*frames([answer(1, "xab", origins=[1, 0, 0])], []))
    policy = place_ranking(lists, lambda service_id, user: ["a", "x", "a", "b"])
    assert policy.matches.tolist() == [True, True]


def test_only_products_from_outside_have_support_at_places_with_a_draw() -> None:
    lists = collect_lists(*frames([answer(1, propensities=[0.9, 0.9, 1.0])], []))
    policy = place_ranking(lists, lambda service_id, user: ["c", "d", "e"])
    assert policy.supported.tolist() == [False, True, False]


def test_features_belong_to_the_products_shown_and_chosen() -> None:
    lists = collect_lists(*frames([answer(1, "ab")], []), {"a": [1.0, 2.0], "d": [3.0, 4.0]})
    assert lists.log.features.tolist() == [[1, 2], [0, 0]]
    policy = place_ranking(lists, lambda service_id, user: ["d", "a"])
    assert policy.features.tolist() == [[3, 4], [1, 2]]
