from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from actors.archive.embedding_cache import CachingEmbedder
from actors.archive.passage_index import PassageIndex
from actors.archive.passages import Document, document_from_product
from actors.language.hashing_embedder import HashingEmbedder, Vectors
from tests.fakes.small_archive import ARTICLES


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


class Slow(HashingEmbedder):
    """The hashing embedder, slow and with a count of the texts it saw."""

    is_slow = True

    def __init__(self, takes_s: float = 0.0) -> None:
        super().__init__()
        self.seen = 0
        self._takes_s = takes_s

    def embed(self, texts: Sequence[str]) -> Vectors:
        pause(self._takes_s)
        self.seen += len(texts)
        return super().embed(texts)


def documents() -> list[Document]:
    return [document for article in ARTICLES if (document := document_from_product(article))]


def test_a_second_replica_takes_the_vectors_the_first_one_made(tmp_path: Path) -> None:
    first, second = Slow(), Slow()
    for embedder in (first, second):
        library = PassageIndex(embedder, share=0.5, writing=CachingEmbedder(embedder, tmp_path, sleep=pause))
        library.put(documents())
    assert first.seen == sum(len(document.passages) for document in documents())
    assert second.seen == 0


def test_the_vectors_are_those_of_the_embedder(tmp_path: Path) -> None:
    texts = ["a river treaty", "", "beetles in orchards"]
    once = CachingEmbedder(Slow(), tmp_path, sleep=pause)
    assert np.array_equal(once.embed(texts), HashingEmbedder().embed(texts))
    assert np.array_equal(once.embed(texts), HashingEmbedder().embed(texts))


def test_replicas_that_come_together_embed_a_document_once(tmp_path: Path) -> None:
    embedders = [Slow(0.1) for _ in range(4)]
    threads = [
        threading.Thread(
            target=CachingEmbedder(embedder, tmp_path, sleep=pause).embed, args=(["the same text"],)
        )
        for embedder in embedders
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(embedder.seen for embedder in embedders) == 1


def test_who_claimed_and_died_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    embedder = Slow()
    once = CachingEmbedder(embedder, tmp_path, sleep=pause, wait_s=0.1)
    once.embed(["a text"])
    (vectors,) = tmp_path.rglob("*.npy")
    vectors.rename(vectors.with_suffix(".claim"))
    once.embed(["a text"])
    assert embedder.seen == 2
    assert not list(tmp_path.rglob("*.claim"))


def test_damaged_vectors_are_made_again(tmp_path: Path) -> None:
    embedder = Slow()
    once = CachingEmbedder(embedder, tmp_path, sleep=pause)
    expected = once.embed(["a text"])
    (vectors,) = tmp_path.rglob("*.npy")
    vectors.write_bytes(b"\x93NUMPY nonsense")
    assert np.array_equal(once.embed(["a text"]), expected)
    assert embedder.seen == 2
