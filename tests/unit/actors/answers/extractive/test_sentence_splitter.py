"""Text to sentences."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.answers.extractive.sentence_splitter import split_sentences


@pytest.mark.parametrize(
    ("text", "expected"),
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
def test_sentences_end_where_people_end_them(text: str, expected: list[str]) -> None:
    assert [sentence.text for sentence in split_sentences(text)] == expected


@given(st.text("abC .!?\n\"'1", max_size=200))
def test_sentences_stand_in_order_and_lose_nothing_but_blanks(text: str) -> None:
    sentences = split_sentences(text)
    assert "".join("".join(sentence.text.split()) for sentence in sentences) == "".join(text.split())
    assert all(text[sentence.start : sentence.end] == sentence.text for sentence in sentences)
    assert all(sentence.end <= other.start for sentence, other in itertools.pairwise(sentences))


def test_a_text_without_ends_is_cut_into_pieces() -> None:
    assert max(len(sentence.text) for sentence in split_sentences("word " * 10_000)) <= 1_200
