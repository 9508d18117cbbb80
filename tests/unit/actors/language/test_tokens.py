from __future__ import annotations

from actors.language.folding import fold
from actors.language.tokens import grams, tokenize


def test_accents_case_and_width_do_not_make_another_word() -> None:
    assert fold("Café") == fold("CAFE") == fold("ｃａｆé") == "cafe"


def test_words_are_split_at_everything_that_is_neither_letter_nor_digit() -> None:
    assert tokenize("Hand-forged trowel, 20cm (ash)") == ["hand", "forged", "trowel", "20cm", "ash"]


def test_scripts_without_blanks_are_cut_into_pairs() -> None:
    assert tokenize("東京都庁 tour") == ["東京", "京都", "都庁", "tour"]


def test_grams_mark_both_ends_of_the_word() -> None:
    assert grams("hoe", (3,)) == ["<ho", "hoe", "oe>"]
