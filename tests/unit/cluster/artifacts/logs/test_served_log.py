from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from cluster.artifacts.logs.served_log import COLUMNS, ServedLogStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.records.served_list import ServedAnswer
from tests.fakes.request_handler import NOW_MS, StillClock

APP = "shop"
MINUTE_MS = 60_000
DAY_MS = 86_400_000


def answer(service_id: str, at: int = NOW_MS, user: str = "") -> ServedAnswer:
    return ServedAnswer(
        service_id, at, "user_to_products", "default", user=user, rows=2, level="personal",
        rules=("spring",), experiments=({"experiment": "e1", "variant": "v2"},), products=("p1", "p2"),
        scores=(1.5, 0.25), origins=(1, 0), propensities=(1.0, None),
    )  # fmt: skip


@pytest.fixture
def log(tmp_path: Path) -> ServedLogStore:
    return ServedLogStore(ArtifactStore.open(tmp_path), StillClock())


def test_plain_polars_reads_what_was_written(log: ServedLogStore, tmp_path: Path) -> None:
    log.append(APP, [answer("s2", NOW_MS + 1, "anna"), answer("s1", NOW_MS, "")], "7-0")
    [path] = tmp_path.rglob("*.parquet")
    assert path.name.startswith("20")
    assert path.parent == tmp_path / APP / "served"
    frame = pl.read_parquet(path)
    assert frame.columns == COLUMNS.names
    assert frame["service_id"].to_list() == ["s1", "s2"]
    row = frame.row(1, named=True)
    assert (row["products"], row["scores"], row["origins"]) == (["p1", "p2"], [1.5, 0.25], [1, 0])
    assert row["propensities"] == [1.0, None]
    assert row["experiments"] == [{"experiment": "e1", "variant": "v2"}]
    assert (row["rules"], row["schema"], row["user"]) == (["spring"], 1, "anna")


def test_a_session_ends_after_half_an_hour_and_survives_a_restart(
    log: ServedLogStore, tmp_path: Path
) -> None:
    times = [NOW_MS, NOW_MS + 29 * MINUTE_MS, NOW_MS + 59 * MINUTE_MS]
    log.append(APP, [answer(f"s{at}", at, "anna") for at in times[:2]], "1-0")
    log.append(APP, [answer("other", times[0], "bert"), answer("nobody", times[0])], "2-0")
    again = ServedLogStore(ArtifactStore.open(tmp_path), StillClock())
    again.append(APP, [answer("continued", times[1] + MINUTE_MS, "anna")], "3-0")
    again.append(APP, [answer("late", times[2] + 2 * MINUTE_MS, "anna")], "4-0")
    table = log.read(APP, 0)
    sessions = dict(zip(table["service_id"].to_pylist(), table["session"].to_pylist(), strict=True))
    anna = sessions[f"s{times[0]}"]
    assert anna
    assert sessions[f"s{times[1]}"] == sessions["continued"] == anna
    assert sessions["late"] not in (anna, "")
    assert sessions["other"] not in (anna, "")
    assert sessions["nobody"] == ""


def test_a_session_continues_whichever_order_the_files_have(tmp_path: Path) -> None:
    """The file that was written later has the older rows, of another user."""
    clock = StillClock()
    log = ServedLogStore(ArtifactStore.open(tmp_path), clock)
    log.append(APP, [answer("first", NOW_MS + 2, "anna")], "1-0")
    clock.pass_ms(1_000)
    log.append(APP, [answer("other", NOW_MS + 1, "bert")], "2-0")
    log.append(APP, [answer("second", NOW_MS + 3, "anna")], "3-0")
    table = log.read(APP, 0)
    sessions = dict(zip(table["service_id"].to_pylist(), table["session"].to_pylist(), strict=True))
    assert sessions["first"] == sessions["second"]


def test_an_erasure_rewrites_only_files_that_name_the_person(log: ServedLogStore, tmp_path: Path) -> None:
    log.append(APP, [answer("s1", NOW_MS - DAY_MS, "bert"), answer("s2", NOW_MS, "anna")], "1-0")
    log.append(APP, [answer("s3", NOW_MS, "bert")], "2-0")
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    assert log.delete(APP, ["anna"]) == 1
    after = {path.name: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    assert after.items() < before.items()
    assert len(after) == 2
    assert log.read(APP, 0)["service_id"].to_pylist() == ["s1", "s3"]
    assert log.rows_of(APP, ["anna"]) == []
    assert [row["service_id"] for row in log.rows_of(APP, ["bert"])] == ["s1", "s3"]
    log.append(APP, [answer("late", NOW_MS - 1, "anna"), answer("s4", NOW_MS, "bert")], "3-0")
    assert sorted(log.read(APP, NOW_MS - 1)["service_id"].to_pylist()) == ["s3", "s4"]


def test_an_answer_that_was_written_twice_has_one_row(log: ServedLogStore) -> None:
    log.append(APP, [answer("s1", NOW_MS, "anna"), answer("s1", NOW_MS, "anna")], "1-0")
    log.append(APP, [answer("s1", NOW_MS, "anna"), answer("s2", NOW_MS + 1, "")], "2-0")
    assert log.read(APP, 0)["service_id"].to_pylist() == ["s1", "s2"]


def test_only_the_last_completion_of_a_typing_burst_stays(log: ServedLogStore) -> None:
    def typed(name: str, at: int, typist: str) -> ServedAnswer:
        return replace(answer(name, NOW_MS + at, ""), endpoint="autocomplete", typist=typist)

    rows = [
        typed("t", 0, "anna"), typed("tu", 300, "anna"), typed("k", 400, "bert"), typed("tul", 900, "anna"),
        answer("list", NOW_MS + 1_000, "anna"), typed("again", 2_901, "anna"),
    ]  # fmt: skip
    log.append(APP, rows, "1-0")
    assert log.read(APP, 0)["service_id"].to_pylist() == ["k", "tul", "list", "again"]
