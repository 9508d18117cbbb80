"""Text to sentences."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.answers.extractive.text_tokens import split_sentences


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        (
            "Dr. Adams met J. K. Lane in the U.S. on Monday.",
            ["Dr. Adams met J. K. Lane in the U.S. on Monday."],
        ),
        ("It cost 3.5 million. Nobody paid.", ["It cost 3.5 million.", "Nobody paid."]),
        ('He said "Go." Then he went.', ['He said "Go."', "Then he went."]),
        ("e.g. this one. And that.", ["e.g. this one.", "And that."]),
        ("Erstens. Zweitens z.B. das. Ende", ["Erstens.", "Zweitens z.B. das.", "Ende"]),
        ("東京は大きい。人が多い。", ["東京は大きい。", "人が多い。"]),
        ("A heading\n\nA paragraph.", ["A heading", "A paragraph."]),
        ("", []),
        ("   ", []),
    ],
)
def test_sentences_end_where_people_end_them(text: str, wanted: list[str]) -> None:
    assert [sentence.text for sentence in split_sentences(text)] == wanted


@given(st.text("abC .!?\n\"'1", max_size=200))
def test_sentences_stand_in_order_and_lose_nothing_but_blanks(text: str) -> None:
    found = split_sentences(text)
    assert "".join("".join(one.text.split()) for one in found) == "".join(text.split())
    assert all(text[one.start : one.end] == one.text for one in found)
    assert all(one.end <= other.start for one, other in itertools.pairwise(found))


def test_a_text_without_ends_is_cut_into_pieces() -> None:
    assert max(len(one.text) for one in split_sentences("word " * 10_000)) <= 1_200
