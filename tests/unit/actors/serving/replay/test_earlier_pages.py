"""Earlier pages of a list come from the log of answers, of which each day is read once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from actors.serving.replay.past_app import EarlierPages
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.records.run import DAY_MS
from cluster.records.served_list import ServedAnswer

APP, NOON_MS = "shop", 20_000 * DAY_MS + DAY_MS // 2
HOUR_MS = 3_600_000


def answer(
    service_id: str, at_ms: int, product: str, pagination_id: str = "", user: str = "ann"
) -> ServedAnswer:
    request = orjson.dumps({"pagination_id": pagination_id}).decode() if pagination_id else ""
    facts: dict[str, Any] = {"user": user, "request": request, "products": (product,), "origins": (0,)}
    return ServedAnswer(service_id, at_ms, "user_to_products", "default", **facts)


def test_pages_are_those_of_the_same_list_within_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifacts = ArtifactStore.open(tmp_path)
    log = ServedLogStore(artifacts)
    answers = [
        answer("s0", NOON_MS - 25 * HOUR_MS, "older than a day", "list"),
        answer("s1", NOON_MS - 14 * HOUR_MS, "first", "list"),
        answer("s2", NOON_MS - 2 * HOUR_MS, "second", "list"),
        answer("s3", NOON_MS - 2 * HOUR_MS, "other list", "list of shoes"),
        answer("s4", NOON_MS - HOUR_MS, "other user", "list", "bob"),
        answer("s5", NOON_MS - HOUR_MS, "no page"),
        answer("s6", NOON_MS, "itself", "list"),
        answer("s7", NOON_MS + HOUR_MS, "later", "list"),
    ]
    log.append(APP, answers, "1-0")
    reads: list[int] = []
    read = ServedLogStore.read

    def count(store: ServedLogStore, app_id: str, since_ms: int, *more: Any) -> Any:
        reads.append(since_ms)
        return read(store, app_id, since_ms, *more)

    monkeypatch.setattr(ServedLogStore, "read", count)
    pages = EarlierPages(artifacts, APP, ["ann"])
    row = {"at": NOON_MS, "user": "ann", "service_id": "s6"}
    for _ in range(3):
        assert pages.list(row, "list") == ["first", "second"]
    assert pages.list(row | {"at": NOON_MS + HOUR_MS, "service_id": "s7"}, "list") == [
        "first",
        "second",
        "itself",
    ]
    assert len(reads) == 2
