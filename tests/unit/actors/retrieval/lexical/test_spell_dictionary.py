"""Words near a misspelled one, words that go on, and words that came since the index was built."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.retrieval.lexical.spell_dictionary import MOST_WORDS, ProductVocabulary, SpellDictionary

WORD_COUNTS = {
    "trowel": 40,
    "towel": 4,
    "trowels": 3,
    "kettle": 9,
    "mattress": 12,
    "matters": 1,
    "écharpe": 2,
    "123": 8,
}


def vocabulary(*words: str) -> ProductVocabulary:
    made = ProductVocabulary()
    made.add(words)
    return made


def near(word: str) -> list[str]:
    return [suggestion.word for suggestion in SpellDictionary.of(WORD_COUNTS).suggest(word, 5)]


def test_of_equally_near_words_the_more_frequent_one_goes_first() -> None:
    assert near("trowl")[0] == "trowel"
    assert near("towle")[0] == "towel"


def test_a_wrong_first_letter_is_suggested_at_a_higher_cost() -> None:
    assert near("rtowel")[0] in ("trowel", "towel")
    assert near("mettle") == ["kettle"]


def test_short_words_may_have_few_typos() -> None:
    assert near("ke") == []
    assert near("ketl") == []
    assert "kettle" in near("kettl")


def test_numbers_are_not_suggested() -> None:
    assert near("124") == []


def test_accents_do_not_matter() -> None:
    assert near("echarp") == ["echarpe"]


def test_words_that_go_on_come_by_frequency() -> None:
    spelling = SpellDictionary.of(WORD_COUNTS)
    assert [word for word, _ in spelling.complete("tro", 5)] == ["trowel", "trowels"]
    assert spelling.complete("xyz", 5) == []
    assert SpellDictionary.of({}).complete("t", 5) == []
    assert SpellDictionary.of({}).suggest("trowl", 5) == []


def test_words_count_from_the_moment_they_come() -> None:
    words = vocabulary("trowel", "kettle")
    words.adopt(words.plan_rebuild()())
    words.add(["mattress"])
    assert words.suggest("matress", 1)[0].word == "mattress"
    assert words.complete("matt", 1) == [("mattress", 1)]
    words.add(["mattress"])
    words.adopt(words.plan_rebuild()())
    assert words.complete("matt", 1) == [("mattress", 2)]


def test_the_vocabulary_is_bounded_also_after_products_are_uploaded_again() -> None:
    numbers = [f"part{number}" for number in range(MOST_WORDS - 1)]
    words = vocabulary(*numbers, "trowel")
    words.add([*numbers, "trowel"])
    words.add(["trowel", "kettle", "kettle"])
    assert 0 < len(words) < MOST_WORDS
    assert words.complete("trow", 1) == [("trowel", 3)]


def test_words_added_during_a_rebuild_are_kept() -> None:
    words = vocabulary("trowel")
    work = words.plan_rebuild()
    words.add(["kettle"])
    words.adopt(work())
    assert words.suggest("ketle", 1)[0].word == "kettle"
    assert not words.needs_rebuild


@given(st.lists(st.text("abcdef", min_size=6, max_size=9), min_size=1, max_size=20, unique=True), st.data())
@settings(max_examples=60, deadline=None)
def test_a_word_with_one_letter_missing_is_suggested(words: list[str], data: st.DataObject) -> None:
    word = data.draw(st.sampled_from(words))
    at = data.draw(st.integers(1, len(word) - 1))
    typed = word[:at] + word[at + 1 :]
    if typed not in words:
        assert word in [
            suggestion.word for suggestion in SpellDictionary.of(dict.fromkeys(words, 1)).suggest(typed, 50)
        ]
