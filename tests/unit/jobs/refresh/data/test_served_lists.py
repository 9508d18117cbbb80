"""Rows of the log become lists of known users with their clicks; what can't be used is counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from cluster.artifacts.logs.outcomes import COLUMNS as OUTCOME_COLUMNS
from cluster.artifacts.logs.served_log import COLUMNS
from cluster.records.logged_query import pseudonym
from cluster.records.served_list import COLD_START, EXPLORED, REPEATED, RULE
from jobs.refresh.data.dataset import Interactions, interactions_from_frame
from jobs.refresh.data.served_lists import ServedLists, collect_served_lists, select_clicks

SALT, START_MS = b"salt", 1_772_400_000_000


def shop() -> Interactions:
    """Two users, three products."""
    frame = pl.DataFrame(
        [("u:ann", "a", 1.0), ("u:ann", "b", 2.0), ("u:bob", "c", 3.0)],
        ["reader", "item", "at"],
        orient="row",
    )
    return interactions_from_frame(frame)


def empty_row(schema: Any) -> dict[str, Any]:
    return {
        field.name: [] if pa.types.is_list(field.type) else "" if pa.types.is_string(field.type) else 0
        for field in schema
    }


def answer(number: int, **facts: Any) -> dict[str, Any]:
    """Return a list of a, b and c for Ann."""
    return (
        empty_row(COLUMNS)
        | {
            "service_id": f"s{number}",
            "at": START_MS + number,
            "endpoint": "user_to_products",
            "engine_id": "default",
            "user": pseudonym(SALT, "u:ann"),
            "products": ["a", "b", "c"],
            "origins": [0, 0, 0],
        }
        | facts
    )


def outcome(number: int, place: int, kind: str = "click", engine: str = "default") -> dict[str, Any]:
    """Return an interaction with the product of a place, from 1."""
    facts = {"service_id": f"s{number}", "type": kind, "places": [place], "engine_id": engine}
    return empty_row(OUTCOME_COLUMNS) | facts


def collect(
    answers: list[dict[str, Any]],
    outcomes: list[dict[str, Any]],
    most: int = 100,
    endpoint: str = "user_to_products",
) -> ServedLists:
    frames = [
        pl.DataFrame(pa.Table.from_pylist(rows, schema=schema))
        for rows, schema in ((answers, COLUMNS), (outcomes, OUTCOME_COLUMNS))
    ]
    clicks = select_clicks(frames[1], "default")
    return collect_served_lists(frames[0], clicks, "default", endpoint, shop(), SALT, most)


def search_answer(number: int, **facts: Any) -> dict[str, Any]:
    """Return a search that shows a, b and c to Ann."""
    return answer(number, endpoint="search", scores=[2.5, 2.0, 0.5], **facts)


def test_searches_keep_their_scores_and_users_who_are_unknown() -> None:
    answers = [search_answer(1), search_answer(2, user=""), answer(3)]
    answers.append(search_answer(4, user=pseudonym(b"other", "u:ann"), origins=[0, RULE, 0]))
    lists = collect(answers, [outcome(number, 1) for number in range(1, 5)], endpoint="search")
    assert lists.users.tolist() == [0, -1, -1]
    assert lists.items.tolist() == [0, 1, 2, 0, 1, 2, 0, 2]
    assert lists.scores.tolist() == [2.5, 2.0, 0.5, 2.5, 2.0, 0.5, 2.5, 0.5]
    assert lists.places.tolist() == [0, 1, 2, 0, 1, 2, 0, 2]


def test_searches_that_no_score_ordered_are_left_out() -> None:
    answers = [
        search_answer(1) | {"scores": [0.0, -1.0, -2.0]},  # sorted by the client
        search_answer(2, sides=[1, 2, 0]),
        search_answer(3) | {"scores": []},
        search_answer(4),
    ]
    lists = collect(answers, [outcome(number, 1) for number in range(1, 5)], endpoint="search")
    assert lists.at_s.tolist() == [(START_MS + 4) / 1000]
    assert lists.left_out["sorted or interleaved"] == 3


def test_places_items_and_clicks_are_those_of_the_log() -> None:
    lists = collect([answer(1), answer(2)], [outcome(1, 2), outcome(1, 2, "checkout"), outcome(2, 1)])
    assert lists.items.tolist() == [0, 1, 2] * 2
    assert lists.places.tolist() == [0, 1, 2] * 2
    assert lists.clicks.tolist() == [False, True, False, True, False, False]
    assert lists.starts.tolist() == [0, 3, 6]
    assert lists.users.tolist() == [0, 0]
    assert lists.at_s.tolist() == [(START_MS + number) / 1000 for number in (1, 2)]


def test_places_of_rules_are_left_out_and_the_others_keep_their_number() -> None:
    lists = collect([answer(1, origins=[RULE, EXPLORED, COLD_START])], [outcome(1, 3)])
    assert lists.places.tolist() == [1, 2]
    assert lists.clicks.tolist() == [False, True]


def test_new_products_have_no_item() -> None:
    lists = collect([answer(1, products=["new", "b", "c"])], [outcome(1, 2)])
    assert lists.items.tolist() == [-1, 1, 2]


def test_what_can_not_be_used_is_left_out() -> None:
    answers = [
        answer(1, endpoint="search"),
        answer(2, engine_id="other"),
        answer(3, start=20),
        answer(4, user=""),
        answer(5, user=pseudonym(b"other", "u:ann")),
        answer(6, products=["a"], origins=[0]),
        answer(7),
        answer(8, origins=[REPEATED] * 3),
        answer(9, products=[], origins=[]),
    ]
    lists = collect(answers, [outcome(number, 1) for number in range(1, 10)])
    assert len(lists) == 1
    assert lists.at_s.tolist() == [(START_MS + 7) / 1000]
    assert lists.left_out == {"people unknown": 2, "no choice": 3}


def test_impressions_and_dislikes_are_no_clicks() -> None:
    kinds = ("impression", "seen", "dislike", "refund")
    assert len(collect([answer(1)], [outcome(1, 1, kind) for kind in kinds])) == 0
    assert len(collect([answer(1)], [outcome(1, 1, engine="other")])) == 0


def test_the_newest_lists_are_taken_and_a_repeated_row_counts_once() -> None:
    answers = [answer(number) for number in (3, 1, 2, 3)]
    lists = collect(answers, [outcome(number, 1) for number in (1, 2, 3)], most=2)
    np.testing.assert_array_equal(lists.at_s * 1000, [START_MS + 2, START_MS + 3])


def test_an_empty_log_is_no_error() -> None:
    lists = collect([], [])
    assert len(lists) == 0
    assert lists.starts.tolist() == [0]
