"""Titles as catalogs list them and as people say them."""

from __future__ import annotations

import pytest

from actors.retrieval.autocomplete.moved_articles import restore_article


@pytest.mark.parametrize(
    ("title", "said"),
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
def test_a_moved_article_comes_back_to_the_front(title: str, said: str) -> None:
    assert restore_article(title) == said


def test_other_texts_stay_the_very_same() -> None:
    title = "Garden hose, 25 m (green)"
    assert restore_article(title) is title
