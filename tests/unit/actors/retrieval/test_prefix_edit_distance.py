"""Typos between what was typed and the beginnings of texts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from actors.retrieval.autocomplete.folded_texts import FoldedTexts
from actors.retrieval.prefix_edit_distance import EditPattern, char_codes, max_edits

WORDS = st.text("abc ", min_size=1, max_size=70).map(" ".join).map(lambda text: "".join(text.split("  ")))


@given(st.text("abc", min_size=1, max_size=64), st.text("abc", max_size=30), st.integers(1, 4))
def test_the_nearest_prefix_equals_the_result_of_comparing_every_prefix(
    typed: str, text: str, most: int
) -> None:
    texts = FoldedTexts.of([text])
    distances = EditPattern(char_codes(typed)).compare(texts.codes, np.array([1]), most)
    expected = min(OSA.distance(typed, text[:length]) for length in range(len(text) + 1))
    if expected <= most:
        assert distances.edits[0] == expected
        assert OSA.distance(typed, text[: distances.cut[0]]) == expected
    else:
        assert distances.edits[0] > most


@pytest.mark.parametrize("length", [1, 8, 9, 16, 17, 32, 33, 64])
def test_what_was_typed_may_have_any_length_up_to_the_longest(length: int) -> None:
    typed = ("abcdefghij" * 7)[:length]
    distances = EditPattern(char_codes(typed)).compare(
        FoldedTexts.of([typed + "xyz"]).codes, np.array([1]), 2
    )
    assert (distances.edits[0], distances.cut[0]) == (0, length)


def test_a_text_ends_where_the_next_one_begins() -> None:
    texts = FoldedTexts.of(["steel", "trowel"])
    distances = EditPattern(char_codes("steel trowel")).compare(texts.codes, texts.starts[:1] + 1, 4)
    assert distances.edits[0] > 4


def test_longer_texts_may_have_more_typos() -> None:
    assert [max_edits(length) for length in (2, 3, 5, 6, 8, 9, 11, 12, 60)] == [0, 1, 1, 2, 2, 3, 3, 4, 4]
