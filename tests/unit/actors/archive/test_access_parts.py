"""A question reads the passages alone that its user may read: locked articles are no work for others."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actors.archive.messages import ArchiveQuery
from actors.archive.passage_index import PassageIndex
from actors.archive.passages import Document, document_from_product
from actors.archive.retrieve import get_article, is_fast, resize_snippets, search_passages
from actors.archive.snapshot_store import PassageSnapshotStore
from actors.language.hashing_embedder import HashingEmbedder
from cluster.artifacts.storage.artifact_store import ArtifactStore
from tests.fakes.sealed_segments import Sealed, count_calls

WORDS = [
    f"{start}{middle}{end}"
    for start in "bdfgklmp"
    for middle in ("ar", "el", "on", "un")
    for end in ("do", "ka")
]
GOLD = frozenset({"gold"})
QUESTIONS = [
    "bardo belka",
    "quartz",
    "bardo quartz?",
    "news of gondo since 2024-01-01",
    "partly quarzt fonka",
]
Build = Callable[[Sequence[Document], Path], PassageIndex]


def draw_documents(access: str, count: int, seed: int) -> list[Document]:
    draw = random.Random(seed)
    words = WORDS if not access else [*WORDS, "quartz"]
    records = [
        {
            "product_id": f"{access or 'open'}-{number}",
            "type": "article",
            "language": "en",
            "title": f"{draw.choice(words)} {draw.choice(words)}",
            "html": f"<p>{' '.join(draw.choice(words) for _ in range(60))}.</p>",
            "published_at": "2024-03-01",
            "access": access or "open",
        }
        for number in range(count)
    ]
    return [document for record in records if (document := document_from_product(record)) is not None]


OPEN = draw_documents("", 40, 1)
LOCKED = draw_documents("gold", 30, 2)


def put_into_library(documents: Sequence[Document], folder: Path) -> PassageIndex:
    library = PassageIndex(HashingEmbedder(), share=0.1)
    library.put(documents)
    return library


def write_and_open(documents: Sequence[Document], folder: Path) -> PassageIndex:
    store = PassageSnapshotStore(ArtifactStore.open(folder))
    store.write("news", documents, offset="1-0", written_at_ms=1)
    opened = store.open("news")
    assert opened is not None
    return opened[0]


def ask(library: PassageIndex, question: str, tiers: frozenset[str] = frozenset()) -> Any:
    query = ArchiveQuery("news", question, context="belka", rows=8, tiers=tiers)
    result = resize_snippets(library, search_passages(library, query, 1_717_200_000_000), 9, tiers)
    article = get_article(library, "gold-3", 0, tiers)
    return result.snippets, result.coverage, article, is_fast(library, tiers)


@pytest.mark.parametrize("build", [put_into_library, write_and_open])
def test_locked_articles_are_no_work_for_others(build: Build, tmp_path: Path) -> None:
    mixed = [*LOCKED[:10], *OPEN, *LOCKED[10:]]
    absent = build(OPEN, tmp_path / "absent")
    locked = build(mixed, tmp_path / "locked")
    for question in QUESTIONS:
        assert ask(locked, question) == ask(absent, question)
        assert count_calls(ask, locked, question) == count_calls(ask, absent, question)
    assert "gold" in str(ask(locked, "quartz", GOLD)[0])
    sealed: Any = Sealed()
    for segment in locked.segments:
        if segment.access:
            segment.document_source = segment.frame = segment.postings = segment.vectors = sealed
    for question in QUESTIONS:
        assert ask(locked, question) == ask(absent, question)
    with pytest.raises(AssertionError, match="was used"):
        ask(locked, QUESTIONS[0], GOLD)


def test_the_files_of_open_articles_are_those_of_a_snapshot_without_locked_ones(tmp_path: Path) -> None:
    folders = []
    for name, documents in (("absent", OPEN), ("locked", [*LOCKED, *OPEN])):
        write_and_open(documents, tmp_path / name)
        (folder,) = (tmp_path / name / "news" / "passages").iterdir()
        folders.append({path.name: path.read_bytes() for path in folder.iterdir()})
    absent, locked = folders
    for files in folders:
        files.pop("manifest.json")
    others = {name for name in locked if name not in absent}
    assert {name: data for name, data in locked.items() if name not in others} == absent
    assert others == {f"1-{name}" for name in absent if not name.startswith("embedder-")}


@pytest.mark.parametrize("opened", [0, 40])
def test_a_snapshot_with_the_files_of_all_accesses_together_is_split(opened: int, tmp_path: Path) -> None:
    """Snapshots were written so before each tier had files of its own: the access was a part of the type."""
    together = [replace(document, type=document.kind, access="") for document in LOCKED]
    split = write_and_open([*OPEN[:opened], *together], tmp_path / "together")
    apart = write_and_open([*OPEN[:opened], *LOCKED], tmp_path / "apart")
    assert [segment.access for segment in split.segments] == [segment.access for segment in apart.segments]
    for library in (split, apart):
        assert get_article(library, "gold-3", 0) is None
        assert get_article(library, "gold-3", 0, GOLD) is not None
        assert "gold" not in str(ask(library, "bardo quartz"))
        assert "gold" in str(ask(library, "quartz", GOLD)[0])
    assert split.view(GOLD).passages == apart.view(GOLD).passages == opened + len(LOCKED)
