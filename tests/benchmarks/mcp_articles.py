"""A generated archive: articles of Zipf-distributed made-up words, and questions about them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from actors.archive.passages import Document, document_from_product
from actors.archive.snapshot_store import PassageSnapshotStore
from cluster.artifacts.storage.artifact_store import ArtifactStore

APP = "news"
WORDS = 30_000
_SYLLABLES = [
    "ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu", "va", "we", "zi",
]  # fmt: skip


def vocabulary(rng: np.random.Generator) -> list[str]:
    """Make up words, the frequent ones short."""
    words: dict[str, None] = {}
    while len(words) < WORDS:
        count = 2 if len(words) < 200 else 3 if len(words) < 4_000 else 4
        words["".join(rng.choice(_SYLLABLES, count))] = None
    return list(words)


def articles(count: int, seed: int = 7) -> Iterator[dict[str, Any]]:
    """Make products of type `article`: a title of seven words, three paragraphs of some seventy."""
    rng = np.random.default_rng(seed)
    words = np.array(vocabulary(rng))
    weights = 1 / np.arange(3, WORDS + 3) ** 1.05
    shares = np.cumsum(weights / weights.sum())
    for number in range(count):
        picked = words[np.minimum(np.searchsorted(shares, rng.random(217)), WORDS - 1)]
        sentences = [" ".join(picked[at : at + 14]).capitalize() + "." for at in range(7, 217, 14)]
        body = "\n\n".join(" ".join(sentences[at : at + 5]) for at in (0, 5, 10))
        yield {
            "product_id": f"a-{number:06d}",
            "type": "article",
            "title": " ".join(picked[:7]).capitalize(),
            "description": body,
            "url": f"https://news.example.com/{number}",
            "published_at": f"20{10 + number % 15:02d}-{1 + number % 12:02d}-{1 + number % 28:02d}",
        }


def questions(count: int, seed: int = 11) -> list[str]:
    """Ask with six words each, some frequent, some rare."""
    rng = np.random.default_rng(seed)
    words = np.array(vocabulary(np.random.default_rng(7)))
    ranks = np.minimum((WORDS * rng.random((count, 6)) ** 2).astype(int) + 40, WORDS - 1)
    return [" ".join(words[row]) for row in ranks]


def write_archive(folder: Path, count: int) -> int:
    """Write a snapshot of `count` articles; returns how many bytes it has."""
    documents: Iterator[Document] = (
        document for document in map(document_from_product, articles(count)) if document is not None
    )
    PassageSnapshotStore(ArtifactStore.open(folder)).write(APP, documents, offset="0", written_at_ms=0)
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
