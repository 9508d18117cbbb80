from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import orjson
import polars as pl
import pytest

from cluster.artifacts.logs.call_log import COLUMNS, CallLogStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.records.archive.archive_client import ArchiveCall
from cluster.store import keys
from cluster.store.archive.log_stream import LogStream
from cluster.store.seals.seal import salt_from_key, seal
from tests.fakes.request_handler import NOW_MS, StillClock

APP = "news"


def call(call_id: str, at: int = NOW_MS, **more: object) -> ArchiveCall:
    row = ArchiveCall(
        at, "ask_archive", "c-1", "Agent", "brief", "Who won?", ("a", "b"), coverage=0.25, took_ms=1.5,
        call_id=call_id, question_id=call_id, host="agent.example", reply_bytes=900,
        experiments=({"experiment": "e1", "variant": "v2"},), marked=True,
    )  # fmt: skip
    return replace(row, **more)


@pytest.fixture
def log(tmp_path: Path) -> CallLogStore:
    return CallLogStore(ArtifactStore.open(tmp_path), StillClock())


def test_plain_polars_reads_calls_and_no_column_names_a_person(log: CallLogStore, tmp_path: Path) -> None:
    log.append(APP, [call("c2", NOW_MS + 1), call("c1", coverage=None)], "7-0")
    [path] = tmp_path.rglob("*.parquet")
    assert path.parent == tmp_path / APP / "calls"
    frame = pl.read_parquet(path)
    assert frame.columns == COLUMNS.names
    assert not {"user", "user_id", "reader", "session", "address"} & {*frame.columns}
    first, second = frame.to_dicts()
    assert (first["call_id"], first["coverage"], second["coverage"]) == ("c1", None, 0.25)
    assert (second["articles"], second["experiments"]) == (
        ["a", "b"],
        [{"experiment": "e1", "variant": "v2"}],
    )


def test_rows_that_were_written_twice_are_stored_once(log: CallLogStore) -> None:
    visit = call("c1", NOW_MS + 5, event="visit", articles=("a",))
    old = call("", NOW_MS)
    assert log.append(APP, [call("c1"), call("c1"), visit, visit, old, old], "1-0") == 4
    again = [call("c1"), visit, call("c2"), replace(visit, at=NOW_MS + 6), replace(visit, articles=("b",))]
    assert log.append(APP, again, "2-0") == 3
    events = log.read(APP, 0)["event"].to_pylist()
    assert sorted(events) == ["call"] * 4 + ["visit"] * 3


def test_the_erasure_of_a_person_leaves_rows_that_name_none(log: CallLogStore) -> None:
    log.append(APP, [call("c1")], "1-0")
    assert log.delete(APP, ["pseudonym"]) == 0
    assert log.append(APP, [call("c2", NOW_MS - 1)], "2-0") == 1
    assert log.expire_and_compact(APP, NOW_MS + 86_400_000 * 2) == 2


def test_rows_of_earlier_releases_stand_alone_in_the_queue() -> None:
    stream: LogStream[ArchiveCall] = LogStream(cast("Any", None), keys.archive_call, ArchiveCall)
    salt = salt_from_key(keys.archive_call(APP))
    given = {"at": NOW_MS, "tool": "search", "client": "c", "client_name": "Agent", "articles": ["a"]}
    assert [row.articles for row in stream._parse(seal(orjson.dumps(given), salt), salt)] == [("a",)]
    assert len(stream._parse(seal(orjson.dumps([given, given]), salt), salt)) == 2
