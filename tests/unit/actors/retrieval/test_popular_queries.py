"""Queries of readers: counted by distinct readers, fading, forgotten, without counting everything again each time."""

from __future__ import annotations

import time

import pytest

from actors.retrieval.popular_queries import MOST_QUERIES, MOST_USERS, WINDOW_MS, PopularQueries
from tests.fakes.corner_shop import NOW_MS

DAY_MS = 86_400_000


def texts(popular: PopularQueries, typed: str, least: int, now_ms: int = NOW_MS) -> list[str]:
    return [hit.text for hit in popular.look_up(typed, 10, least, now_ms)]


def test_the_query_that_more_users_sent_lately_comes_first() -> None:
    popular = PopularQueries()
    for number in range(6):
        popular.add("tulip vase", f"u:{number}", NOW_MS - 25 * DAY_MS)
    for number in range(5):
        popular.add("tulip bulbs", f"u:{number}", NOW_MS)
    assert texts(popular, "tulip", 5) == ["tulip bulbs", "tulip vase"]


def test_readers_fade_out_of_the_window_while_nobody_asks() -> None:
    popular = PopularQueries()
    for number in range(5):
        popular.add("tulip bulbs", f"u:{number}", NOW_MS + number)
    assert texts(popular, "tul", 5) == ["tulip bulbs"]
    assert texts(popular, "tul", 5, NOW_MS + WINDOW_MS + 2) == []
    assert texts(popular, "tul", 2, NOW_MS + WINDOW_MS + 2) == ["tulip bulbs"]
    popular.delete([f"u:{number}" for number in range(5)])
    assert texts(popular, "tul", 1, NOW_MS + WINDOW_MS + 2) == []


def test_users_and_queries_that_left_the_window_make_room_for_others() -> None:
    popular = PopularQueries()
    for number in range(MOST_USERS):
        popular.add("tulip bulbs", f"u:{number}", NOW_MS)
    for number in range(MOST_QUERIES):
        popular.add(f"query {number}", "u:0", NOW_MS)
    assert len(popular) == MOST_QUERIES
    later_ms = NOW_MS + WINDOW_MS
    for turn in range(2):
        popular.add("tulip bulbs", "u:late", later_ms)
        for number in range(turn * 10, turn * 10 + 10):
            popular.add(f"rose {number}", "u:late", later_ms)
        assert texts(popular, "tulip", 1, later_ms) == ["tulip bulbs"] * turn
    assert sorted(texts(popular, "rose", 1, later_ms)) == [f"rose {number}" for number in range(10, 20)]
    assert texts(popular, "query", 1, NOW_MS) == []


def test_the_same_words_in_another_dress_are_one_query() -> None:
    popular = PopularQueries()
    for number, query in enumerate(("Café  crème", "cafe creme", "CAFÉ CRÈME!")):
        popular.add(query, f"u:{number}", NOW_MS)
    assert len(popular) == 1
    assert texts(popular, "cafe", 3) == ["Café crème"]


@pytest.mark.parametrize("keywords", ["", "   ", "?!", "x" * 301])
def test_what_nobody_types_is_no_query(keywords: str) -> None:
    popular = PopularQueries()
    popular.add(keywords, "u:1", NOW_MS)
    popular.add("tulip", "", NOW_MS)
    assert len(popular) == 0


def test_one_more_search_does_not_count_all_the_others_again() -> None:
    popular = PopularQueries()
    for number in range(20_000):
        for user in range(5):
            popular.add(f"query number {number}", f"u:{number % 97}-{user}", NOW_MS)
    build = popular.plan_rebuild(NOW_MS)
    assert build is not None
    build[0].adopt(build[1]())
    texts(popular, "query number 1999", 5)
    began = time.thread_time()
    for turn in range(20):
        popular.add("query number 1999", f"late-{turn}", NOW_MS + turn)
        assert texts(popular, "query number 1999", 5, NOW_MS + turn)[0] == "query number 1999"
    assert (time.thread_time() - began) / 20 < 0.02
    popular.delete(["u:59-0"])
    assert "query number 59" not in texts(popular, "query number 59", 5, NOW_MS + 20)
    assert "query number 59" in texts(popular, "query number 59", 4, NOW_MS + 20)
