"""Queries of readers: counted by distinct readers, fading, forgotten, without counting everything again each time."""

from __future__ import annotations

import time

import pytest

from actors.retrieval.popular_queries import WINDOW_MS, PopularQueries
from tests.fakes.corner_shop import NOW_MS

DAY_MS = 86_400_000


def texts(asked: PopularQueries, typed: str, least: int, now_ms: int = NOW_MS) -> list[str]:
    return [hit.text for hit in asked.look_up(typed, 10, least, now_ms)]


def test_the_query_that_more_users_sent_lately_comes_first() -> None:
    asked = PopularQueries()
    for reader in range(6):
        asked.add("tulip vase", f"u:{reader}", NOW_MS - 25 * DAY_MS)
    for reader in range(5):
        asked.add("tulip bulbs", f"u:{reader}", NOW_MS)
    assert texts(asked, "tulip", 5) == ["tulip bulbs", "tulip vase"]


def test_readers_fade_out_of_the_window_while_nobody_asks() -> None:
    asked = PopularQueries()
    for reader in range(5):
        asked.add("tulip bulbs", f"u:{reader}", NOW_MS + reader)
    assert texts(asked, "tul", 5) == ["tulip bulbs"]
    assert texts(asked, "tul", 5, NOW_MS + WINDOW_MS + 2) == []
    assert texts(asked, "tul", 2, NOW_MS + WINDOW_MS + 2) == ["tulip bulbs"]


def test_the_same_words_in_another_dress_are_one_query() -> None:
    asked = PopularQueries()
    for reader, query in enumerate(("Café  crème", "cafe creme", "CAFÉ CRÈME!")):
        asked.add(query, f"u:{reader}", NOW_MS)
    assert len(asked) == 1
    assert texts(asked, "cafe", 3) == ["Café crème"]


@pytest.mark.parametrize("keywords", ["", "   ", "?!", "x" * 301])
def test_what_nobody_types_is_no_query(keywords: str) -> None:
    asked = PopularQueries()
    asked.add(keywords, "u:1", NOW_MS)
    asked.add("tulip", "", NOW_MS)
    assert len(asked) == 0


def test_one_more_search_does_not_count_all_the_others_again() -> None:
    asked = PopularQueries()
    for number in range(20_000):
        for reader in range(5):
            asked.add(f"query number {number}", f"u:{number % 97}-{reader}", NOW_MS)
    build = asked.plan_rebuild(NOW_MS)
    assert build is not None
    build[0].adopt(build[1]())
    texts(asked, "query number 1999", 5)
    began = time.thread_time()
    for turn in range(20):
        asked.add("query number 1999", f"late-{turn}", NOW_MS + turn)
        assert texts(asked, "query number 1999", 5, NOW_MS + turn)[0] == "query number 1999"
    assert (time.thread_time() - began) / 20 < 0.02
    asked.delete(["u:59-0"])
    assert "query number 59" not in texts(asked, "query number 59", 5, NOW_MS + 20)
    assert "query number 59" in texts(asked, "query number 59", 4, NOW_MS + 20)
