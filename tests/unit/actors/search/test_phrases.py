"""Phrases: decided by what stands in the texts, and never by reading more than the budgets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actors.recommender.state.catalog import Catalog
from actors.search.phrases import MOST_LETTERS, MOST_LOOKS, MOST_READ, TAKEN_APART, PhraseMatcher
from actors.vectors.types import Rows
from tests.fakes.corner_shop import open_shop, product_change


def catalog_of(*products: dict[str, Any]) -> tuple[Catalog, Rows]:
    shop = open_shop()
    named = [{"product_id": f"x{at}", **product} for at, product in enumerate(products)]
    shop.apply(product_change(named, "1772452800001-0"))
    catalog = shop.overlay.catalog
    return catalog, np.array([catalog.row_of(product["product_id"]) for product in named], np.int64)


@pytest.mark.parametrize(
    "texts",
    [
        {"title": "A Red trowel"},
        {"title": "red\n\ttrowel\x1b"},
        {"title": "red\x1b trowel", "brand": "Größe"},
        {"title": 'the "red" (trowel)'},
        {"tags": ["blue", "red  trowel!"]},
        {"custom_attributes": {"a": {"b": ["x", "red-trowel"]}}},
        {"title": "ＲＥＤ　trowel"},
        {"html": "<p>Red, <b>trowel</b></p>", "description": "nothing"},
    ],
)
def test_words_that_follow_each_other_in_any_text_are_a_phrase(texts: dict[str, Any]) -> None:
    catalog, rows = catalog_of(texts)
    phrase = "red b trowel" if "html" in texts else "red trowel"
    assert PhraseMatcher(catalog, 1).match_rows(rows, phrase, len(catalog))[rows].all()


@pytest.mark.parametrize(
    "texts",
    [
        {"title": "red", "subtitle": "trowel"},
        {"tags": ["red", "trowel"]},
        {"title": "redtrowel"},
        {"title": "bored trowel"},
        {"title": "red trowels"},
        {"title": "r\u00e9d trowel"},
        {"title": "red and trowel"},
        {"url": "red trowel", "title": "trowel red"},
    ],
)
def test_words_apart_in_longer_words_or_in_addresses_are_none(texts: dict[str, Any]) -> None:
    catalog, rows = catalog_of(texts)
    assert not PhraseMatcher(catalog, 1).match_rows(rows, "red trowel", len(catalog)).any()


def test_scripts_without_blanks_have_phrases() -> None:
    catalog, rows = catalog_of({"title": "園芸用スコップ"}, {"title": "用園芸"})
    matched = PhraseMatcher(catalog, 1).match_rows(rows, "芸用", len(catalog))
    assert matched[rows].tolist() == [True, False]


def test_all_phrases_of_a_query_together_read_no_more_than_their_budgets() -> None:
    catalog, rows = catalog_of(*({"title": f"red {at}"} for at in range(50)))
    many = np.tile(rows, 400)
    single_phrase = PhraseMatcher(catalog, 1)
    single_phrase.match_rows(many, "red trowel", len(catalog))
    assert single_phrase.looks == MOST_READ
    phrases = PhraseMatcher(catalog, 32)
    for at in range(32):
        phrases.match_rows(many, f"red trowel {at}", len(catalog))
    assert phrases.looks == MOST_LOOKS
    assert phrases.letters == single_phrase.letters < 50 * 100


def test_a_word_that_stands_everywhere_is_not_looked_at_place_by_place() -> None:
    catalog, rows = catalog_of({"title": "a " * 15_000 + "red trowel"})
    phrases = PhraseMatcher(catalog, 1)
    assert phrases.match_rows(rows, "a red trowel", len(catalog))[rows].all()
    assert not phrases.match_rows(rows, "a blue trowel", len(catalog)).any()
    assert phrases.letters >= TAKEN_APART * 2 * 30_000


def test_every_phrase_has_its_share_of_long_texts() -> None:
    catalog, rows = catalog_of(*({"description": f"red {at} " + "x" * 300_000} for at in range(20)))
    phrases = PhraseMatcher(catalog, 4)
    for at in range(4):
        phrases.match_rows(np.roll(rows, at * 4), f"red {at * 4} trowel", len(catalog))
    assert phrases.letters <= MOST_LETTERS + 4 * (TAKEN_APART + 1) * 300_100
