"""A title whose article a catalog moved behind it is shown as it was uploaded, and what was typed is marked in it."""

from __future__ import annotations

import numpy as np

from actors.retrieval.autocomplete.highlighting import highlight, match_typed_words
from actors.retrieval.autocomplete.text_index import RowTextIndex
from actors.retrieval.text import fold_text


def test_a_moved_article_matches_and_is_shown_as_uploaded() -> None:
    laid = RowTextIndex.of({0: (1, ("Matrix, The (1999)",)), 1: (2, ("The Matador",))}, np.array([5.0, 1.0]))
    hit = next(laid.look_up("the matr", 5, 5, np.ones(2, np.bool_)))
    assert hit.text == "Matrix, The (1999)"
    assert hit.place == (-1, 0)
    found = highlight(hit.text, match_typed_words(fold_text(hit.text), "the matr"))
    assert found.text_with_inverted_markups == "<mark>Matr</mark>ix, <mark>The</mark> (1999)"


def test_other_titles_are_highlighted_where_they_match() -> None:
    laid = RowTextIndex.of({0: (1, ("The Matador",))}, np.array([1.0]))
    assert next(laid.look_up("the mat", 5, 5, np.ones(1, np.bool_))).place == (0, 7)
