"""Titles as catalogs list them and as users type them."""

from __future__ import annotations

import numpy as np
import pytest

from actors.language.folding import fold_text
from actors.retrieval.autocomplete.folded_texts import restore_article
from actors.retrieval.autocomplete.highlighting import highlight, match_typed_words
from actors.retrieval.autocomplete.text_index import RowTextIndex


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Matrix, The (1999)", "The Matrix (1999)"),
        ("Good, the Bad and the Ugly, The (Buono, il brutto, il cattivo, Il) (1966)",
         "The Good, the Bad and the Ugly (Buono, il brutto, il cattivo, Il) (1966)"),
        ("Avventura, L' (1960)", "L'Avventura (1960)"),
        ("Boot, Das", "Das Boot"),
        ("Fish Called Wanda, A", "A Fish Called Wanda"),
        ("Monsters, Inc. (2001)", "Monsters, Inc. (2001)"),
        ("Shirt, blue", "Shirt, blue"),
        (", The", ", The"),
        ("The Matrix", "The Matrix"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_moved_article_comes_back_to_the_front(title: str, expected: str) -> None:
    assert restore_article(title) == expected


def test_other_texts_stay_the_very_same() -> None:
    title = "Garden hose, 25 m (green)"
    assert restore_article(title) is title


def test_a_moved_article_matches_and_is_shown_as_uploaded() -> None:
    index = RowTextIndex.of({0: (1, ("Matrix, The (1999)",)), 1: (2, ("The Matador",))}, np.array([5.0, 1.0]))
    hit = next(index.look_up("the matr", 5, 5, np.ones(2, np.bool_)))
    assert hit.text == "Matrix, The (1999)"
    assert hit.place == (-1, 0)
    highlighted = highlight(hit.text, match_typed_words(fold_text(hit.text), "the matr"))
    assert highlighted.text_with_inverted_markups == "<mark>Matr</mark>ix, <mark>The</mark> (1999)"


def test_other_titles_are_highlighted_where_they_match() -> None:
    index = RowTextIndex.of({0: (1, ("The Matador",))}, np.array([1.0]))
    assert next(index.look_up("the mat", 5, 5, np.ones(1, np.bool_))).place == (0, 7)
