"""Texts as they are compared, and the way back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.language.folding import fold, fold_text, fold_typed, fold_with_positions, grams, tokenize


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The Hunger Games (The Hunger Games, #1)", "the hunger games the hunger games 1"),
        ("Sorcerer's Stone", "sorcerers stone"),
        ("Café crème", "cafe creme"),
        ("Straße", "strasse"),
        ("Łódź", "lodz"),
        ("東京タワー", "東京タワー"),
        ("한국어", "한국어"),
        ("  -- ", ""),
        ("Ångström", "angstrom"),
    ],
)
def test_folding_keeps_letters_and_digits(text: str, expected: str) -> None:
    assert fold_text(text) == expected


@given(st.text(max_size=40))
def test_every_folded_character_has_a_place_in_the_text(text: str) -> None:
    folded, places = fold_with_positions(text)
    assert folded == fold_text(text)
    assert len(places) == len(folded)
    assert all(0 <= place < len(text) for place in places)
    assert places == sorted(places)


@given(st.text(max_size=40))
def test_folding_twice_changes_nothing(text: str) -> None:
    assert fold_text(fold_text(text)) == fold_text(text)


@pytest.mark.parametrize(
    ("text", "expected"), [("trow", "trow"), ("steel ", "steel "), ("steel,", "steel "), (" ", "")]
)
def test_a_blank_at_the_end_finishes_the_word(text: str, expected: str) -> None:
    assert fold_typed(text) == expected


def test_accents_case_and_width_do_not_make_another_word() -> None:
    assert fold("Café") == fold("CAFE") == fold("ｃａｆé") == "cafe"


def test_words_are_split_at_everything_that_is_neither_letter_nor_digit() -> None:
    assert tokenize("Hand-forged trowel, 20cm (ash)") == ["hand", "forged", "trowel", "20cm", "ash"]


def test_scripts_without_blanks_are_cut_into_pairs() -> None:
    assert tokenize("東京都庁 tour") == ["東京", "京都", "都庁", "tour"]


def test_grams_mark_both_ends_of_the_word() -> None:
    assert grams("hoe", (3,)) == ["<ho", "hoe", "oe>"]
