"""Postings of accesses that are often read together are joined, and answers stay as they were."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from actors.archive import candidates, joined_postings
from actors.archive import follower as follower_module
from actors.archive.follower import apply_records
from actors.archive.host import ArchiveHost
from actors.archive.joined_postings import FREQUENT
from actors.archive.messages import ArchiveQuery, ArchiveResult
from actors.archive.passage_index import PassageIndex
from actors.archive.passages import document_from_product
from actors.archive.retrieve import search_passages
from actors.archive.snapshot_store import PassageSnapshotStore
from actors.language.hashing_embedder import HashingEmbedder
from actors.retrieval.lexical import passage_postings
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.meter import SilentMeter
from tests.fakes.corner_shop import upload
from tests.fakes.stores.memory import memory_stores
from tests.suites.waiting import until

# Few words and short texts, so that many passages have equal scores.
WORDS = [f"{start}{end}" for start in ("bar", "del", "fon", "gun", "kar") for end in ("do", "ka", "mi", "su")]
ACCESSES = ("open", "open", "registered", "subscriber", "gold")
TIERS = frozenset({"registered", "subscriber"})
OTHER_TIERS = (frozenset[str](), frozenset({"gold"}), frozenset({"gold", "registered", "subscriber"}))


def a_record(number: int, draw: random.Random, access: str = "") -> dict[str, Any]:
    text = " ".join(draw.choice(WORDS) for _ in range(draw.choice((4, 4, 5, 30))))
    return {
        "product_id": f"a-{number}", "type": draw.choice(("article", "report")), "language": "en", "title": "News",
        "html": f"<p>{text}.</p>", "published_at": f"202{number % 5}-03-01", "access": access or draw.choice(ACCESSES),
    }  # fmt: skip


def put_into_libraries(records: Sequence[dict[str, Any]], folder: Path) -> list[PassageIndex]:
    libraries = [PassageIndex(HashingEmbedder(), share=0.1) for _ in range(2)]
    for library in libraries:
        for start in range(0, len(records), 90):
            apply_records(library, list(records[start : start + 90]))
    return libraries


def write_and_open(records: Sequence[dict[str, Any]], folder: Path) -> list[PassageIndex]:
    store = PassageSnapshotStore(ArtifactStore.open(folder))
    documents = [document for record in records if (document := document_from_product(record))]
    store.write("news", documents, offset="1-0", written_at_ms=1)
    opened = [store.open("news") for _ in range(2)]
    return [each[0] for each in opened if each is not None]


def ask(library: PassageIndex, question: str, tiers: frozenset[str], **more: Any) -> ArchiveResult:
    return search_passages(library, ArchiveQuery("news", question, tiers=tiers, **more), 1_717_200_000_000)


def ask_often(library: PassageIndex, tiers: frozenset[str] = TIERS) -> None:
    for _ in range(FREQUENT):
        ask(library, "bardo", tiers)


def assert_equal_answers(library: PassageIndex, apart: PassageIndex, draw: random.Random) -> None:
    for count in (1, 1, 1, 2, 2, 3, 5, 9):
        question = " ".join(draw.choice(WORDS) for _ in range(count))
        options: dict[str, Any] = draw.choice(
            [
                {},
                {"rows": 40},
                {"context": " ".join(draw.sample(WORDS, 3))},
                {"type": "report"},
                {"only": tuple(f"a-{number}" for number in range(0, 600, 3))},
                {"yearly_decay": 0.8},
            ]
        )
        for tiers in (TIERS, *OTHER_TIERS):
            joined = ask(library, question, tiers, **options)
            parts = ask(apart, question, tiers, **options)
            assert (joined.snippets, joined.coverage) == (parts.snippets, parts.coverage)


@pytest.mark.parametrize("long_list", [8, 8_192])
@pytest.mark.parametrize("build", [put_into_libraries, write_and_open])
def test_joined_postings_give_the_answers_of_the_segments(
    build: Any, long_list: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal are passages, order, scores and coverage, after updates, removals and changes of access too.

    With few candidates and short lists, all ways to find the best passages are taken.
    """
    monkeypatch.setattr(candidates, "CANDIDATES", 12)
    monkeypatch.setattr(passage_postings, "_LONG_LIST", long_list)
    monkeypatch.setattr(passage_postings, "_LEADERS", 6)
    draw = random.Random(5)
    library, apart = build([a_record(number, draw) for number in range(600)], tmp_path)
    for _ in range(3):
        ask_often(library)
        if library.needs_join:
            library.join_segments()
        assert library.view(TIERS).is_joined
        assert not apart.view(TIERS).is_joined
        for _ in range(4):
            assert_equal_answers(library, apart, draw)
            changed = [a_record(draw.randrange(620), draw) for _ in range(4)]
            removed = [f"a-{draw.randrange(600)}" for _ in range(3)]
            for each in (library, apart):
                apply_records(each, changed)
                each.remove(removed)
            assert_equal_answers(library, apart, draw)


def test_segments_are_joined_after_some_questions_and_others_are_not_read() -> None:
    draw = random.Random(6)
    (library, _) = put_into_libraries([a_record(number, draw) for number in range(200)], Path())
    before = library.nbytes
    for tiers in (frozenset[str](), frozenset({"subscriber", "registered"})):
        for _ in range(FREQUENT - 1):
            ask(library, "bardo", tiers)
    assert not library.needs_join
    ask(library, "bardo", frozenset())
    assert not library.needs_join, "what one access alone has is not joined"
    gold = next(segment for segment in library.segments if segment.access == "gold")
    postings, gold.postings = gold.postings, None  # type: ignore[assignment]
    ask(library, "bardo", TIERS)
    assert library.needs_join
    library.join_segments()
    gold.postings = postings
    assert not library.needs_join
    view = library.view(TIERS)
    assert view.is_joined
    assert library.nbytes == before + view.runs[0].postings.nbytes
    assert not library.view(frozenset()).is_joined
    assert not library.view(frozenset({"gold"})).is_joined


def test_postings_of_segments_that_merged_are_dropped_and_joined_again() -> None:
    draw = random.Random(7)
    (library, apart) = put_into_libraries([a_record(number, draw) for number in range(200)], Path())
    before = library.nbytes
    ask_often(library)
    library.join_segments()
    records = [a_record(number, draw, "open") for number in range(200, 800)]
    for each in (library, apart):
        apply_records(each, records)
    assert not library.view(TIERS).is_joined
    assert library.needs_join
    library.join_segments()
    assert library.nbytes == apart.nbytes > before
    assert_equal_answers(library, apart, draw)
    ask_often(library)
    library.join_segments()
    assert library.view(TIERS).is_joined
    assert_equal_answers(library, apart, draw)


def test_joined_postings_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(8)
    (library, _) = put_into_libraries([a_record(number, draw) for number in range(200)], Path())
    sizes = sorted(library.view(tiers).passages for tiers in (TIERS, frozenset({"gold"})))
    monkeypatch.setattr(joined_postings, "MOST_PASSAGES", sizes[-1])
    for tiers in (TIERS, frozenset({"gold"})):
        ask_often(library, tiers)
        if library.needs_join:
            library.join_segments()
    assert library.view(TIERS).is_joined
    assert not library.view(frozenset({"gold"})).is_joined
    assert not library.needs_join


async def test_a_replica_joins_what_its_users_often_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower_module, "SNAPSHOT_POLL_S", 0.01)
    draw = random.Random(9)
    stores = memory_stores(SystemClock())
    await upload(stores, [a_record(number, draw) for number in range(60)], app_id="news")
    host = ArchiveHost(stores, None, None, SystemClock(), SilentMeter())
    try:

        async def is_joined() -> bool:
            await host.ask(ArchiveQuery("news", "bardo", tiers=TIERS))
            follower = host._followers.find("news")
            library = None if follower is None else follower._library
            return library is not None and library.view(TIERS).is_joined

        await until(is_joined)
    finally:
        await host.close()
