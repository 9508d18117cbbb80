"""Locked articles: what a tier may not read changes nothing that its users get."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import chain, combinations
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest

from actors.archive.follower import ArchiveFollower, apply_records
from actors.archive.messages import ArchiveQuery, ArchiveResult
from actors.archive.passage_index import PassageIndex
from actors.archive.passage_snapshot import PassageSnapshot, document_from_bytes, document_to_bytes
from actors.archive.passages import document_from_product, split_kind
from actors.archive.retrieve import get_article, search_passages
from actors.archive.segment import build_segment, merge_segments
from actors.archive.snapshot_store import PassageSnapshotStore
from actors.archive.snapshot_writer import WeightedEmbedder
from actors.archive.teasers import list_teasers
from actors.language.analysis import Analyzers
from actors.language.hashing_embedder import HashingEmbedder
from cluster.access_tier import MOST_TIERS, may_read
from cluster.artifacts.segments import SegmentStore
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.clock import SystemClock
from cluster.meter import SilentMeter
from deployments.hosts.gateway import read_article
from tests.fakes.stores.memory import memory_stores

NOW_MS = 1_717_200_000_000
WORDS = [
    f"{start}{middle}{end}"
    for start in "bdfgklmp"
    for middle in ("ar", "el", "on", "un")
    for end in ("do", "ka", "mi")
]
ACCESSES = ("", "", "registered", "subscriber", "gold", "silver")
TIERS = tuple(
    frozenset(names)
    for names in chain.from_iterable(
        combinations(("registered", "subscriber", "gold", "silver"), size) for size in range(5)
    )
)
ARTICLES = 400


def a_record(number: int, access: str, draw: random.Random) -> dict[str, Any]:
    text = " ".join(draw.choice(WORDS) for _ in range(draw.randint(8, 120)))
    return {
        "product_id": f"a-{number}", "type": "article", "language": "en", "title": f"{draw.choice(WORDS)} {text[:20]}",
        "html": f"<p>{text}.</p>", "published_at": "2024-03-01", **({"access": access} if access else {}),
    }  # fmt: skip


def build_library(records: Sequence[Mapping[str, Any]], steps: int = 40) -> PassageIndex:
    library = PassageIndex(HashingEmbedder(), share=0.1)
    for start in range(0, len(records), steps):
        apply_records(library, [dict(record) for record in records[start : start + steps]])
    return library


def ask(library: PassageIndex, question: str, tiers: frozenset[str], **more: Any) -> ArchiveResult:
    return search_passages(library, ArchiveQuery("news", question, tiers=tiers, **more), NOW_MS)


def test_what_a_tier_may_not_read_changes_nothing_it_gets() -> None:
    """Each set of tiers is asked over two archives that differ in every article it may not read.

    The articles differ in text, length and title. All results are equal: passages, order, scores, coverage, counts.
    """
    draw = random.Random(7)
    accesses = [draw.choice(ACCESSES) for _ in range(ARTICLES)]
    records = [a_record(number, access, draw) for number, access in enumerate(accesses)]
    library = build_library(records)
    questions = [" ".join(draw.choice(WORDS) for _ in range(draw.randint(1, 6))) for _ in range(16)]
    pairs = quoted = 0
    for tiers in TIERS:
        others = random.Random(len(tiers))
        changed = [
            record if may_read(access, tiers) else a_record(number, access, others)
            for number, (record, access) in enumerate(zip(records, accesses, strict=True))
        ]
        other_library = build_library(changed)
        for at, question in enumerate(questions):
            more = {"context": questions[at - 1]} if at % 3 == 0 else {}
            result = ask(library, question, tiers, **more)
            again = ask(other_library, question, tiers, **more)
            assert (result.snippets, result.coverage) == (again.snippets, again.coverage)
            for snippet in result.snippets:
                assert may_read(accesses[int(snippet.product_id[2:])], tiers)
            quoted += len(result.snippets)
            pairs += ARTICLES
        for number, access in enumerate(accesses):
            article = get_article(library, f"a-{number}", 0, tiers)
            assert (article is not None) == may_read(access, tiers)
    assert pairs == len(TIERS) * len(questions) * ARTICLES == 102_400
    assert quoted > 2_000


def test_an_archive_of_open_articles_has_no_mask() -> None:
    draw = random.Random(1)
    library = build_library([a_record(number, "", draw) for number in range(30)])
    for segment in library.segments:
        assert segment.access == ""
        assert segment.mask_of_type("article") is None


def test_each_tier_has_separate_segments_that_others_never_search() -> None:
    draw = random.Random(2)
    library = build_library([a_record(number, ("", "gold")[number % 2], draw) for number in range(30)], 7)
    assert {segment.access for segment in library.segments} == {"", "gold"}
    view = library.view(frozenset({"silver"}))
    assert {segment.access for segment in view.segments} == {""}
    assert view.passages == 15
    assert sorted(map(id, library.view(frozenset({"gold"})).segments)) == sorted(map(id, library.segments))
    assert library.view(frozenset({"silver"})) is view
    for segment in library.segments:
        assert segment.mask_of_type("article") is None


def test_an_article_is_locked_and_opened_by_its_record() -> None:
    draw = random.Random(3)
    record = a_record(1, "", draw)
    library = build_library([record, a_record(2, "", draw)])
    word = record["title"].split()[0]
    for access in ("subscriber", "open", "gold", None):
        apply_records(library, [{**record, "access": access}])
        is_open = access in ("open", None)
        assert (get_article(library, "a-1", 0) is not None) == is_open
        product_ids = {snippet.product_id for snippet in ask(library, word, frozenset()).snippets}
        assert ("a-1" in product_ids) == is_open


def test_filters_by_product_and_type_keep_the_lock() -> None:
    draw = random.Random(4)
    library = build_library([a_record(number, ("", "gold")[number % 2], draw) for number in range(20)])
    question = " ".join(WORDS[:60])
    for product_type in ("article", None):
        result = ask(library, question, frozenset(), type=product_type, only=frozenset({"a-1", "a-2"}))
        assert {snippet.product_id for snippet in result.snippets} <= {"a-2"}
    assert ask(library, question, frozenset(), only=frozenset({"a-1"})).snippets == ()
    assert ask(library, question, frozenset({"gold"}), only=frozenset({"a-1"})).snippets


def test_merged_segments_keep_the_lock() -> None:
    draw = random.Random(5)
    documents = [
        document for number in range(8) if (document := document_from_product(a_record(number, "gold", draw)))
    ]
    parts = [build_segment(documents[start : start + 4], Analyzers(), None, 90.0) for start in (0, 4)]
    merged = merge_segments(parts)
    assert (merged.access, merged.types, len(merged)) == ("gold", ("article",), 8)


def test_a_locked_document_is_written_as_a_kind_that_earlier_releases_take_for_another_type() -> None:
    document = document_from_product(a_record(1, "gold", random.Random(6)))
    assert document is not None
    assert document_from_bytes(document_to_bytes(document)) == document
    assert split_kind(document.kind) == ("article", "gold")
    assert document.kind != "article"


@pytest.mark.parametrize("meaning", [None, WeightedEmbedder(HashingEmbedder(), 0.1)])
def test_a_snapshot_keeps_the_lock(tmp_path: Path, meaning: WeightedEmbedder | None) -> None:
    draw = random.Random(8)
    records = [a_record(number, ("", "", "gold")[number % 3], draw) for number in range(60)]
    store = PassageSnapshotStore(ArtifactStore.open(tmp_path))
    documents = [document for record in records if (document := document_from_product(record))]
    store.write("news", documents, offset="1-0", written_at_ms=1, meaning=meaning)
    opened = store.open("news")
    assert opened is not None
    library, _ = opened
    assert library.knows_access
    question = " ".join(WORDS[:60])
    for tiers in (frozenset[str](), frozenset({"gold"})):
        result = ask(library, question, tiers, rows=60, per_product=0)
        locked = [snippet for snippet in result.snippets if int(snippet.product_id[2:]) % 3 == 2]
        assert bool(locked) == bool(tiers)
    assert get_article(library, "a-2", 0) is None
    assert get_article(library, "a-2", 0, frozenset({"gold"})) is not None
    folder = tmp_path / "news" / "passages" / store.list_sequences("news")[0]
    assert PassageSnapshot.open(folder).facts["has_access"] is True


async def test_a_snapshot_of_an_earlier_release_is_locked_by_the_compacted_records(tmp_path: Path) -> None:
    draw = random.Random(10)
    records = [a_record(number, ("", "gold")[number % 2], draw) for number in range(20)]
    puts = [orjson.dumps(record) for record in records]
    segments = SimpleNamespace(
        load_records_since=lambda *_, containing, **__: SimpleNamespace(
            puts=[record for record in puts if containing in record]
        ),
        offsets=lambda _: {"product": "1-0"},
    )
    opened = [
        document for record in records if (document := document_from_product({**record, "access": None}))
    ]
    library = PassageIndex(HashingEmbedder(), share=0.1, knows_access=False)
    library.put(opened)
    stores = memory_stores(SystemClock())
    follower = ArchiveFollower(
        "news", "f", stores, cast(SegmentStore, segments), SystemClock(), SilentMeter(), lambda _: (library, "1-0"),
        lambda _: 0,
    )  # fmt: skip
    again, offset = follower._open_library_state()
    assert offset == "1-0"
    assert get_article(again, "a-1", 0) is None
    assert get_article(again, "a-2", 0) is not None
    question = " ".join(WORDS[:60])
    assert all(int(snippet.product_id[2:]) % 2 == 0 for snippet in ask(again, question, frozenset()).snippets)


def test_words_of_locked_articles_change_no_score_of_a_snapshot(tmp_path: Path) -> None:
    draw = random.Random(9)
    opened_records = [a_record(number, "", draw) for number in range(0, 80, 2)]
    results = []
    for seed in (1, 2):
        others = random.Random(seed)
        locked = [a_record(number, "gold", others) for number in range(1, 80, 2)]
        records = [record for pair in zip(opened_records, locked, strict=True) for record in pair]
        store = PassageSnapshotStore(ArtifactStore.open(tmp_path / str(seed)))
        documents = [document for record in records if (document := document_from_product(record))]
        meaning = WeightedEmbedder(HashingEmbedder(), 0.0)
        store.write("news", documents, offset="1-0", written_at_ms=1, meaning=meaning)
        opened = store.open("news")
        assert opened is not None
        results.append([ask(opened[0], " ".join(WORDS[at : at + 4]), frozenset()) for at in range(0, 60, 4)])
    assert [(result.snippets, result.coverage) for result in results[0]] == [
        (result.snippets, result.coverage) for result in results[1]
    ]


def test_articles_of_too_many_tiers_are_left_out_of_library_and_snapshot(tmp_path: Path) -> None:
    draw = random.Random(11)
    records = [a_record(number, f"tier-{number}", draw) for number in range(MOST_TIERS + 20)]
    everything = frozenset(record["access"] for record in records)
    library = build_library([a_record(MOST_TIERS + 5, "", draw)])
    for record in records:
        apply_records(library, [record])
    store = PassageSnapshotStore(ArtifactStore.open(tmp_path))
    documents = [document for record in records if (document := document_from_product(record))]
    store.write(
        "news", documents, offset="1-0", written_at_ms=1, meaning=WeightedEmbedder(HashingEmbedder(), 0.0)
    )
    opened = store.open("news")
    assert opened is not None
    for archive in (library, opened[0]):
        assert len(frozenset(segment.access for segment in archive.segments) - {""}) == MOST_TIERS
        assert get_article(archive, f"a-{MOST_TIERS - 1}", 0, everything) is not None
        assert get_article(archive, f"a-{MOST_TIERS + 5}", 0, everything) is None


def test_a_locked_article_is_no_news_of_a_thread() -> None:
    record = a_record(1, "gold", random.Random(12))
    assert read_article(record) is None
    assert read_article({**record, "access": "open"}) is not None


def test_a_type_can_not_look_like_a_lock() -> None:
    document = document_from_product({**a_record(1, "", random.Random(13)), "type": "article\x00gold"})
    assert document is not None
    assert split_kind(document.kind) == ("articlegold", "")


def test_teasers_are_locked_articles_with_an_address_and_leave_passages_as_they_were() -> None:
    draw = random.Random(14)
    records = [
        {
            **a_record(number, ("", "gold", "silver")[number % 3], draw),
            "url": f"https://news.example/{number}",
        }
        for number in range(60)
    ]
    records[1].pop("url")
    library = build_library(records)
    question = " ".join(WORDS[:20])
    before = ask(library, question, frozenset({"silver"}))
    result = ask_host(library, question, frozenset({"silver"}), teasers=5)
    assert (result.snippets, result.coverage) == ((), None)
    assert len(result.teasers) == 5
    assert all(int(teaser.url.rpartition("/")[2]) % 3 == 1 for teaser in result.teasers)
    assert ask(library, question, frozenset({"silver"})) == before
    assert ask_host(library, question, frozenset({"silver", "gold"}), teasers=5).teasers == ()


def ask_host(library: PassageIndex, question: str, tiers: frozenset[str], **more: Any) -> ArchiveResult:
    return list_teasers(library, ArchiveQuery("news", question, tiers=tiers, **more), NOW_MS)
