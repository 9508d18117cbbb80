"""Words and meaning in one list."""

from __future__ import annotations

import numpy as np
import pytest

from actors.retrieval.lexical.hybrid_ranking import blend_hits
from actors.retrieval.lexical.text_query import TextHits

NOBODY = np.zeros(0, np.int64), np.zeros(0, np.float32)


def text_hits(**scores: float) -> TextHits:
    rows = np.array([int(name[1:]) for name in scores], np.int64)
    values = np.array(list(scores.values()), np.float32)
    return TextHits(rows, values, np.ones(len(rows), bool))


def near(**likeness: float) -> tuple[np.ndarray, np.ndarray]:
    return np.array([int(name[1:]) for name in likeness], np.int64), np.array(
        [*likeness.values()], np.float32
    )


def test_both_lists_are_scaled_and_added() -> None:
    mixed = blend_hits(text_hits(p1=8.0, p2=4.0, p3=2.0), *near(p3=0.9, p2=0.5, p1=0.4), 0.5, least=0.0)
    worth = dict(zip(mixed.rows.tolist(), (mixed.scores / 8).round(3).tolist(), strict=True))
    assert worth == {1: 0.5, 3: 0.5, 2: pytest.approx(0.5 / 3 + 0.1, abs=1e-3)}


def test_products_near_in_meaning_join_when_they_are_near_enough() -> None:
    mixed = blend_hits(text_hits(p1=8.0), *near(p5=0.9, p6=0.4), 0.5, least=0.5)
    assert set(mixed.rows.tolist()) == {1, 5}
    assert dict(zip(mixed.rows.tolist(), mixed.complete.tolist(), strict=True)) == {1: True, 5: False}


def test_without_words_meaning_decides_alone() -> None:
    mixed = blend_hits(text_hits(), *near(p5=0.9, p6=0.6, p7=0.1), 0.1, least=0.5)
    assert mixed.rows.tolist() == [5, 6]
    assert (mixed.scores > 0).all()


def test_without_hits_the_result_is_empty() -> None:
    assert not len(blend_hits(text_hits(), *NOBODY, 0.5, least=0.5).rows)


def test_what_stands_behind_the_best_hundred_keeps_its_order() -> None:
    scores = np.linspace(9, 1, 300).astype(np.float32)
    words = TextHits(np.arange(300), scores, np.ones(300, bool))
    mixed = blend_hits(words, *NOBODY, 0.2, least=0.5)
    assert mixed.rows.tolist() == list(range(300))
    assert (np.diff(mixed.scores) <= 0).all()
