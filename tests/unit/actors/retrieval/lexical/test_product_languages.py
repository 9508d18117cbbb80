"""Languages of an index after changes, beside an index that never had other products."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from actors.retrieval.lexical.messages import TextQuery
from actors.retrieval.lexical.product_languages import ProductLanguages
from actors.retrieval.lexical.search_index import SearchIndex
from actors.retrieval.lexical.snapshot_format import SavedIndex, load, save

LANGUAGES = ("en", "de", "fr", "it", "es", "nl", "ja")


def _product(language: str, *others: str) -> dict[str, Any]:
    return {
        "title": "Piano",
        "language": language,
        **{f"i18n_{other}": {"title": "Klavier"} for other in others},
    }


def _saved(products: list[dict[str, Any]]) -> SavedIndex:
    index = load(*save(products))
    assert index is not None
    return index


def _scores(index: SearchIndex, text: str, language: str = "") -> list[tuple[int, float]]:
    hits = index.find(TextQuery(text, language=language, correct=False))
    return list(zip(hits.rows.tolist(), hits.scores.tolist(), strict=True))


def test_a_language_ends_with_its_last_product() -> None:
    """Queries are analyzed in the four most frequent languages of the products."""
    index = SearchIndex()
    for row, language in enumerate(("de", "fr", "it", "es") * 3):
        index.put(row, {"title": "Tisch", "language": language})
    index.put(12, {"title": "Run", "language": "en"})
    assert _scores(index, "running") == []
    for row in range(12):
        index.remove(row)
    fresh = SearchIndex()
    fresh.put(12, {"title": "Run", "language": "en"})
    assert _scores(index, "running") == _scores(fresh, "running") != []


def test_products_without_a_language_lose_no_score_to_one_that_ended() -> None:
    index, fresh = SearchIndex(), SearchIndex()
    index.put(0, _product("en", "fr"))
    for each in (index, fresh):
        each.put(1, _product("en"))
    index.put(0, _product("en"))
    fresh.put(0, _product("en"))
    assert _scores(index, "piano", "fr") == _scores(fresh, "piano", "fr")


@pytest.mark.parametrize("seed", range(20))
def test_counts_are_those_of_the_products_after_any_history(seed: int) -> None:
    """Puts, removals and snapshots in any order, beside the languages counted anew."""
    rng = random.Random(seed)
    followed, present = ProductLanguages(), dict[int, list[str]]()
    for _ in range(60):
        rows = rng.sample(range(12), rng.randint(1, 6))
        if rng.random() < 0.2:
            each = [[language] for language in rng.choices(LANGUAGES, k=len(rows))]
            saved = _saved([_product(*languages) for languages in each])
            open_codes = np.zeros(len(rows), np.uint8)
            followed.bind_rows(saved, np.arange(len(rows)), np.array(rows), open_codes, open_codes)
            present.update(zip(rows, each, strict=True))
            continue
        for row in rows:
            followed.remove(row)
            present.pop(row, None)
            if rng.random() < 0.5:
                present[row] = rng.sample(LANGUAGES, rng.randint(0, 3))
                followed.put(row, present[row])
    anew = ProductLanguages()
    for row, languages in present.items():
        anew.put(row, languages)
    assert followed.list_frequent(9) == anew.list_frequent(9)
    for language in LANGUAGES:
        assert followed.has_products(language) == anew.has_products(language)
        every = np.arange(12)
        having = [row for row in every if language in present.get(row, ())]
        assert np.flatnonzero(followed.select(language, every)).tolist() == having
