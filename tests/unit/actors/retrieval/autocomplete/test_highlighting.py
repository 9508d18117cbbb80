"""What was typed and what was not."""

from __future__ import annotations

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.language.folding import fold_text
from actors.retrieval.autocomplete.highlighting import highlight, match_typed_words


@pytest.mark.parametrize(
    ("text", "stretches", "normal", "inverted"),
    [
        ("Trowel rack", [(0, 4)], "Trow<mark>el rack</mark>", "<mark>Trow</mark>el rack"),
        ("Steel trowel", [(6, 10)], "<mark>Steel </mark>trow<mark>el</mark>", "Steel <mark>trow</mark>el"),
        ("Café crème", [(0, 4)], "Café<mark> crème</mark>", "<mark>Café</mark> crème"),
        ("Sorcerer's Stone", [(0, 9)], "Sorcerer's<mark> Stone</mark>", "<mark>Sorcerer's</mark> Stone"),
        (
            "<b> & co",
            [(0, 1)],
            "<mark>&lt;</mark>b<mark>&gt; &amp; co</mark>",
            "&lt;<mark>b</mark>&gt; &amp; co",
        ),
        ("Trowel", [(0, 6)], "Trowel", "<mark>Trowel</mark>"),
        ("Trowel", [], "<mark>Trowel</mark>", "Trowel"),
        ("--", [(0, 2)], "<mark>--</mark>", "--"),
    ],
)
def test_marks_stand_around_what_was_not_typed(
    text: str, stretches: list[tuple[int, int]], normal: str, inverted: str
) -> None:
    highlighted = highlight(text, stretches)
    assert (highlighted.text_with_markups, highlighted.text_with_inverted_markups) == (normal, inverted)


@given(st.text(max_size=30), st.integers(0, 40), st.integers(0, 40))
def test_without_its_marks_the_text_is_what_it_was(text: str, begin: int, end: int) -> None:
    highlighted = highlight(text, [(begin, end)])
    for shown in (highlighted.text_with_markups, highlighted.text_with_inverted_markups):
        assert unescape(re.sub("</?mark>", "", shown)) == text
        assert "<" not in re.sub("</?mark>", "", shown)


def test_words_in_another_order_are_marked_where_they_stand() -> None:
    text = "The Last Berth"
    assert match_typed_words(fold_text(text), "berth last") == [(4, 8), (9, 14)]
    assert match_typed_words(fold_text(text), "bertha") == [(9, 14)]
    assert match_typed_words(fold_text(text), "xyz") == []
