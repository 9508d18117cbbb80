from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cluster.artifacts.logs.day_files import ERASURE_MEMORY_MS, MOST_FILES_A_DAY
from cluster.artifacts.logs.query_log import QueryLogStore, drop_keystrokes
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.records.logged_query import LoggedQuery, QueryKind
from tests.fakes.request_handler import NOW_MS, StillClock

APP = "shop"
DAY_MS = 86_400_000


def logged_query(
    text: str,
    at: int = NOW_MS,
    kind: QueryKind = "search",
    *,
    user_key: str = "",
    typist: str = "",
    total: int = 1,
) -> LoggedQuery:
    return LoggedQuery(
        at=at, kind=kind, text=text, total=total, language="en", served_by="search", engine_id="default",
        took_ms=2.5, reader=user_key, typist=typist or user_key,
    )  # fmt: skip


@pytest.fixture
def clock() -> StillClock:
    return StillClock()


@pytest.fixture
def artifacts(tmp_path: Path, clock: StillClock) -> QueryLogStore:
    return QueryLogStore(ArtifactStore.open(tmp_path), clock)


def texts(artifacts: QueryLogStore, since_ms: int = 0, **more: int) -> list[str]:
    queries: list[str] = artifacts.read(APP, since_ms, **more)["text"].to_pylist()
    return queries


def files(tmp_path: Path) -> list[Path]:
    return sorted(tmp_path.rglob("*.parquet"))


def test_queries_stand_by_day_and_read_back_by_time(artifacts: QueryLogStore, tmp_path: Path) -> None:
    assert artifacts.last_offset(APP) == "0"
    assert texts(artifacts) == []
    queries = [logged_query(f"query {day}", NOW_MS - day * DAY_MS) for day in range(3)]
    assert artifacts.append(APP, queries, "7-0") == 3
    assert artifacts.last_offset(APP) == "7-0"
    assert len(files(tmp_path)) == 3
    assert texts(artifacts) == ["query 2", "query 1", "query 0"]
    assert texts(artifacts, NOW_MS - DAY_MS) == ["query 1", "query 0"]
    assert texts(artifacts, until_ms=NOW_MS - DAY_MS) == ["query 2", "query 1"]
    first = artifacts.read(APP, NOW_MS).to_pylist()[0]
    assert first == {
        "at": NOW_MS, "kind": "search", "text": "query 0", "total": 1, "language": "en", "served_by": "search",
        "engine_id": "default", "took_ms": 2.5, "reader": "", "origin": "", "written": "",
    }  # fmt: skip


def test_a_batch_without_queries_moves_the_offset(artifacts: QueryLogStore, tmp_path: Path) -> None:
    artifacts.append(APP, [], "3-0")
    assert artifacts.last_offset(APP) == "3-0"
    assert files(tmp_path) == []


def test_nothing_tells_typists_apart_once_settled(artifacts: QueryLogStore, tmp_path: Path) -> None:
    artifacts.append(APP, [logged_query("tulip", typist="somebodys-browser")], "1-0")
    assert "typist" not in artifacts.read(APP, 0).column_names
    assert b"somebodys-browser" not in files(tmp_path)[0].read_bytes()


def test_forgotten_readers_leave_no_row_and_late_ones_of_theirs_stay_away(
    artifacts: QueryLogStore, clock: StillClock, tmp_path: Path
) -> None:
    artifacts.append(
        APP, [logged_query("mine", user_key="gina"), logged_query("hers", user_key="mara")], "1-0"
    )
    assert artifacts.delete(APP, ["gina"]) == 1
    assert texts(artifacts) == ["hers"]
    assert not any(b"mine" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    late = [
        logged_query("late", clock.at_ms - 500, user_key="gina"),
        logged_query("again", clock.at_ms + 500, user_key="gina"),
    ]
    artifacts.append(APP, late, "2-0")
    assert texts(artifacts) == ["hers", "again"]
    assert artifacts.delete(APP, ["nobody"]) == 0


def test_who_was_forgotten_is_itself_forgotten(
    artifacts: QueryLogStore, clock: StillClock, tmp_path: Path
) -> None:
    artifacts.delete(APP, ["gina"])
    clock.pass_ms(ERASURE_MEMORY_MS + 1)
    artifacts.delete(APP, ["mara"])
    assert not any(b"gina" in path.read_bytes() for path in tmp_path.rglob("*.json"))


def test_old_days_go_and_young_ones_stay(artifacts: QueryLogStore) -> None:
    artifacts.append(APP, [logged_query("old", NOW_MS - 5 * DAY_MS), logged_query("young")], "1-0")
    assert artifacts.expire_and_compact(APP, NOW_MS - 2 * DAY_MS) == 1
    assert artifacts.expire_and_compact(APP, NOW_MS - 2 * DAY_MS) == 0
    assert texts(artifacts) == ["young"]


def test_many_small_files_of_a_day_become_one(
    artifacts: QueryLogStore, clock: StillClock, tmp_path: Path
) -> None:
    for at in range(MOST_FILES_A_DAY):
        clock.pass_ms(1)
        artifacts.append(APP, [logged_query(f"query {at}", NOW_MS + at)], f"{at + 1}-0")
    assert len(files(tmp_path)) == MOST_FILES_A_DAY
    artifacts.expire_and_compact(APP, 0)
    assert len(files(tmp_path)) == 1
    assert texts(artifacts) == [f"query {at}" for at in range(MOST_FILES_A_DAY)]
    assert artifacts.last_offset(APP) == f"{MOST_FILES_A_DAY}-0"


def test_a_damaged_file_is_left_out_and_a_damaged_manifest_begun_again(
    artifacts: QueryLogStore, clock: StillClock, tmp_path: Path
) -> None:
    artifacts.append(APP, [logged_query("gone")], "1-0")
    files(tmp_path)[0].write_bytes(b"PAR1 nothing")
    artifacts.append(APP, [logged_query("kept")], "2-0")
    assert texts(artifacts) == ["kept"]
    assert artifacts.delete(APP, ["gina"]) == 1  # nobody can say who stood in the damaged one
    next(tmp_path.rglob("manifest-*.json")).write_bytes(b"{}")
    assert (texts(artifacts), artifacts.last_offset(APP)) == ([], "0")
    artifacts.append(APP, [logged_query("new")], "9-0")
    assert (texts(artifacts), artifacts.last_offset(APP)) == (["new"], "9-0")


def test_what_interrupted_writers_left_is_removed(
    artifacts: QueryLogStore, clock: StillClock, tmp_path: Path
) -> None:
    artifacts.append(APP, [logged_query("kept")], "1-0")
    stray = files(tmp_path)[0].with_name("2026-01-01-stray.parquet")
    stray.write_bytes(b"x")
    assert artifacts.tidy(APP) == 0
    clock.at_ms = int(stray.stat().st_mtime * 1000) + 2 * ERASURE_MEMORY_MS
    assert artifacts.tidy(APP) == 1
    assert texts(artifacts) == ["kept"]


def typed(*texts: str, every_ms: int = 300, user_key: str = "", typist: str = "t") -> list[LoggedQuery]:
    return [
        logged_query(text, NOW_MS + at * every_ms, "autocomplete", user_key=user_key, typist=typist)
        for at, text in enumerate(texts)
    ]


@pytest.mark.parametrize(
    ("queries", "left"),
    [
        (typed("t", "tr", "tro", "trow"), ["trow"]),
        (typed("trowe", "trow", "trowel"), ["trowel"]),
        (typed("trow", "trowel", every_ms=2_001), ["trow", "trowel"]),
        (typed("trow", "hoe"), ["trow", "hoe"]),
        (typed("trow", "trow"), ["trow", "trow"]),
        (typed("trow", "trow", user_key="gina", typist="gina"), ["trow"]),
        (typed("trow", "hoe", user_key="gina", typist="gina"), ["hoe"]),
        ([logged_query("trow", kind="search", typist="t"), *typed("trowel")], ["trow", "trowel"]),
        (typed("t", "tr", typist=""), ["t", "tr"]),
        ([*typed("tr", "tro", typist="a"), *typed("tro", "trow", typist="b")], ["tro", "trow"]),
    ],
    ids=[
        "a word", "a correction", "pauses", "many behind one server", "one wish of many", "a wish again",
        "one reader", "searches", "nobody", "two",
    ],
)  # fmt: skip
def test_keystrokes_on_the_way_are_no_queries(queries: list[Any], left: list[str]) -> None:
    assert [query.text for query in drop_keystrokes(queries)] == left
