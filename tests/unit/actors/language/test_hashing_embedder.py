from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from actors.language.hashing_embedder import HashingEmbedder, embedding_text

_ROOT = Path(__file__).parents[4]


def _likeness(left: str, right: str) -> float:
    vectors = HashingEmbedder().embed([left, right])
    return float(vectors[0] @ vectors[1])


def test_rows_have_length_one_and_a_text_without_words_is_all_zeros() -> None:
    vectors = HashingEmbedder().embed(["steel trowel", "", "!?"])
    assert vectors.shape == (3, 128)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 0, 0], atol=1e-6)


def test_texts_that_share_words_are_nearer_than_texts_that_do_not() -> None:
    assert _likeness("red garden trowel", "green garden trowel") > 0.4
    assert _likeness("red garden trowel", "leather office chair") < 0.25


def test_inflected_and_misspelt_words_still_resemble_each_other() -> None:
    pairs = [("trowel", "trowels"), ("gardening", "garden"), ("lantern", "lantrn"), ("bottle", "bottles")]
    alike = [_likeness(left, right) for left, right in pairs]
    others = [_likeness(pairs[at][0], pairs[at - 1][0]) for at in range(len(pairs))]
    assert sum(alike) / len(alike) > 0.2 > 0.1 > sum(others) / len(others)


def test_filling_words_hardly_count() -> None:
    assert _likeness("the trowel", "trowel for a") > 0.9


@pytest.mark.usefixtures("allow_world")
def test_another_process_makes_the_same_vectors() -> None:
    vectors = HashingEmbedder().embed(["Café au lait, 20cm"]).tobytes().hex()
    script = "from actors.language.hashing_embedder import HashingEmbedder as E;import sys;"
    script += "sys.stdout.write(E().embed(['Café au lait, 20cm']).tobytes().hex())"
    there = subprocess.run(
        [sys.executable, "-c", script], cwd=_ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert there.stdout == vectors


def test_remembered_words_do_not_change_the_result() -> None:
    embedder = HashingEmbedder()
    first = embedder.embed(["ash handle"])
    embedder.embed(["ash bucket", "oak handle"])
    np.testing.assert_array_equal(embedder.embed(["ash handle"]), first)


def test_the_text_of_a_product_holds_what_it_is_about() -> None:
    text = embedding_text(
        {
            "product_id": "trowel-02",
            "title": "Steel trowel",
            "brand": "Alder & Sons",
            "categories": [["Garden", "Hand tools"]],
            "tags": ["small"],
            "description": "Short trowel for pots.",
            "custom_attributes": {"handle": "ash", "weight_g": 210, "vegan": True},
            "url": "https://shop.example/trowel-02",
        }
    )
    assert text.count("Steel trowel") == 3
    for piece in (
        "brand_aldersons",
        "category_garden_handtools",
        "tag_small",
        "handle_ash",
        "vegan_true",
        "pots",
    ):
        assert piece in text
    assert "https" not in text
    assert "210" not in text


def test_only_the_first_values_of_a_long_list_are_read() -> None:
    numbers = [f"n{number:04d}" for number in range(10_000)]
    text = embedding_text(
        {
            "product_id": "x",
            "tags": numbers,
            "authors": numbers,
            "categories": [[number] for number in numbers],
        }
    )
    for prefix in ("tag", "author", "category"):
        assert f"{prefix}_n0199" in text
        assert f"{prefix}_n0200" not in text


def test_a_product_without_a_title_is_read_by_its_translations() -> None:
    assert "Truelle" in embedding_text({"product_id": "t", "i18n_fr": {"title": "Truelle"}})


def test_odd_records_do_not_disturb_the_text() -> None:
    assert (
        embedding_text(
            {"product_id": "x", "tags": None, "categories": None, "custom_attributes": None}
        ).strip()
        == ""
    )
