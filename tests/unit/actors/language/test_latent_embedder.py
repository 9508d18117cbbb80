from __future__ import annotations

import numpy as np
import pytest

from actors.archive.passages import document_from_product
from actors.language.latent_embedder import LatentEmbedder, train_embedder
from tests.fakes.small_archive import ARTICLES

TEXTS = [
    document.passage_text(passage)
    for record in ARTICLES
    if (document := document_from_product(record)) is not None
    for passage in document.passages
]


@pytest.fixture(scope="module")
def embedder() -> LatentEmbedder:
    return train_embedder(TEXTS, dimensions=32)


def test_rows_have_length_one_and_texts_without_words_are_zero(embedder: LatentEmbedder) -> None:
    vectors = embedder.embed([*TEXTS, "", "   ", "\x00"])
    assert vectors.shape == (len(TEXTS) + 3, 32)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors[: len(TEXTS)], axis=1), 1, atol=1e-5)
    assert not vectors[len(TEXTS) :].any()


def test_training_again_gives_the_same_vectors_under_the_same_name(embedder: LatentEmbedder) -> None:
    again = train_embedder(iter(TEXTS), dimensions=32)
    assert again.version == embedder.version
    assert np.array_equal(again.embed(TEXTS), embedder.embed(TEXTS))
    assert train_embedder(TEXTS[1:], dimensions=32).version != embedder.version


def test_other_forms_of_words_that_were_never_seen_are_near(embedder: LatentEmbedder) -> None:
    query, near, far = embedder.embed(["beetleish orcharded", TEXTS[-7], "penalties goalkeeper cup"])
    beetles = next(text for text in TEXTS if "beetle" in text)
    near = embedder.embed([beetles])[0]
    assert query @ near > query @ far


def test_words_that_were_forgotten_are_made_again(embedder: LatentEmbedder) -> None:
    small = LatentEmbedder(embedder.features, embedder.projection, remember=5)
    for text in (*TEXTS, *TEXTS):
        assert np.allclose(small.embed([text]), embedder.embed([text]), atol=1e-6)


@pytest.mark.parametrize("texts", [["one text only"], ["", ""], ["a b", "c d"]])
def test_hardly_any_text_still_makes_an_embedder(texts: list[str]) -> None:
    assert train_embedder(texts, dimensions=8).embed(["a b one"]).shape == (1, 8)
