"""The search index beside a plain reading of what BM25 is, and what it finds that was changed, misspelled or begun."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.language.analysis import Analyzer
from actors.retrieval.lexical.messages import TextQuery
from actors.retrieval.lexical.search_index import SearchIndex
from actors.retrieval.lexical.term_matcher import order_best_first

PRODUCTS: list[dict[str, Any]] = [
    {"title": "Steel trowel, green grip", "description": "Short trowel for pots.", "brand": "Alder"},
    {"title": "Potting trowel", "brand": "Fernhill", "tags": ["steel"]},
    {"title": "Garden hoe", "description": "A hoe of steel for beds.", "categories": [["Garden", "Tools"]]},
    {"title": "Window box", "description": "For herbs.", "custom_attributes": {"wood": "cedar"}},
    {"title": "Lampe de bureau", "language": "fr", "description": "Une lampe pour lire."},
    {"title": "Desk lamp", "i18n_fr": {"title": "Lampe noire"}, "html": "<p>Bends <b>easily</b></p>"},
    {"title": "緑の急須", "language": "ja", "description": "お茶のための急須"},
]


def index_of(*products: dict[str, Any], seal: int = 3) -> SearchIndex:
    index = SearchIndex(seal)
    for row, product in enumerate(products):
        index.put(row, {"language": "en", **product})
    return index


def rows(index: SearchIndex, text: str, **options: Any) -> list[int]:
    return index.find(TextQuery(text, **options)).rows.tolist()


@pytest.fixture
def index() -> SearchIndex:
    return index_of(*PRODUCTS)


# --- BM25 -----------------------------------------------------------------------------------------------------------

WORDS = ["red", "green", "lamp", "chair", "desk", "oak", "box", "kettle"]
TITLES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)


def bm25(texts: dict[int, list[int]], codes: list[int]) -> dict[int, float]:
    """Score as the definition reads."""
    mean = sum(map(len, texts.values())) / max(len(texts), 1)
    scores: Counter[int] = Counter()
    for code in codes:
        having = [row for row, text in texts.items() if code in text]
        rarity = math.log1p((len(texts) - len(having) + 0.5) / (len(having) + 0.5))
        for row in having:
            often = texts[row].count(code)
            norm = 1.2 * (1 - 0.75 + 0.75 * len(texts[row]) / max(mean, 1))
            scores[row] += rarity * often * 2.2 / (often + norm)
    return dict(scores)


@given(
    changes=st.lists(st.tuples(st.integers(0, 9), TITLES | st.none()), min_size=1, max_size=30),
    query=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3, unique=True),
    seal=st.sampled_from([1, 3, 100]),
    merge=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_scores_are_those_of_the_definition_whatever_changed_before(
    changes: list[tuple[int, str | None]], query: list[str], seal: int, merge: bool
) -> None:
    index, texts, analyzer = SearchIndex(seal), dict[int, list[int]](), Analyzer("en")
    for row, text in changes:
        if text is None:
            index.remove(row)
            texts.pop(row, None)
        else:
            # descriptions only: titles have more to them than words
            index.put(row, {"description": text, "language": "en"})
            texts[row] = analyzer.terms(text)
        if merge:
            index.adopt(index.plan_rebuild(every=True)())
    index.adopt(index.plan_rebuild(every=True)())
    codes = analyzer.terms(" ".join(query))
    expected = bm25(texts, codes)
    hits = index.find(TextQuery(" ".join(query), partial=True, correct=False))
    complete = {row for row in expected if all(code in texts[row] for code in codes)}
    if all(any(code in text for text in texts.values()) for code in codes):
        assert set(hits.rows.tolist()) == set(expected)
        assert {row: pytest.approx(score, rel=1e-4) for row, score in expected.items()} == dict(
            zip(hits.rows.tolist(), hits.scores.tolist(), strict=True)
        )
        assert set(hits.rows[hits.complete].tolist()) == complete
        whole = index.find(TextQuery(" ".join(query), correct=False))
        assert set(whole.rows.tolist()) == complete


@given(changes=st.lists(st.tuples(st.integers(0, 30), TITLES | st.none()), min_size=20, max_size=60))
@settings(max_examples=30, deadline=None)
def test_changes_while_parts_are_merged_are_kept(changes: list[tuple[int, str | None]]) -> None:
    index, alive = SearchIndex(2), dict[int, str]()
    work = index.plan_rebuild(every=True)
    for at, (row, text) in enumerate(changes):
        if at % 7 == 3:
            work = index.plan_rebuild(every=True)
        if at % 7 == 6:
            index.adopt(work())
        if text is None:
            index.remove(row)
            alive.pop(row, None)
        else:
            index.put(row, {"title": text})
            alive[row] = text
    assert len(index) == len(alive)
    for word in WORDS:
        assert sorted(rows(index, word + " ", correct=False)) == sorted(
            row for row, text in alive.items() if word in text.split()
        )


@given(st.lists(st.sampled_from([1e-9, 0.5, 1.0, 1.5, 7.25, 300.0]), max_size=40))
@settings(deadline=None)
def test_the_best_go_first_and_equals_stay_as_they_stand(scores: list[float]) -> None:
    values = np.array(scores, np.float64)
    assert order_best_first(values).tolist() == np.argsort(-values, kind="stable").tolist()


# --- what is found --------------------------------------------------------------------------------------------------


def test_every_word_must_occur(index: SearchIndex) -> None:
    assert rows(index, "steel trowel") == [0, 1]
    assert rows(index, "steel hoe") == [2]
    assert rows(index, "steel lamp ", correct=False) == []


def test_stems_and_case_do_not_matter(index: SearchIndex) -> None:
    assert rows(index, "TROWELS") == rows(index, "trowel ")


def test_partial_matches_say_what_they_lack(index: SearchIndex) -> None:
    hits = index.find(TextQuery("green trowel hoe", partial=True))
    assert set(hits.rows.tolist()) == {0, 1, 2}
    assert not hits.complete.any()
    assert hits.missing([0, 2]) == [("hoe",), ("green", "trowel")]


def test_partial_matches_can_require_a_share_of_the_term_weights(index: SearchIndex) -> None:
    assert set(rows(index, "green trowel cedar", partial=0.5)) == {0}


def test_the_whole_title_goes_first() -> None:
    index = index_of({"title": "Desk lamp desk lamp"}, {"title": "Desk lamp"}, {"title": "Lamp desk"})
    assert rows(index, "desk lamp")[0] == 1


def test_neighbours_in_a_title_go_before_strangers() -> None:
    index = index_of({"title": "Oak and green lamp box"}, {"title": "Green oak and lamp box"})
    assert rows(index, "oak lamp")[0] == 1


def test_words_match_in_every_field_and_the_hits_name_it(index: SearchIndex) -> None:
    hits = index.find(TextQuery("steel"))
    fields = dict(zip(hits.rows.tolist(), hits.matched(hits.rows.tolist()), strict=True))
    assert fields == {0: ("title",), 1: ("metadata",), 2: ("description",)}
    assert rows(index, "cedar") == [3]
    assert rows(index, "tools garden") == [2]
    assert rows(index, "easily") == [5]


def test_fields_can_be_left_out_and_weighed(index: SearchIndex) -> None:
    assert set(rows(index, "steel", fields={"description": 0})) == {0, 1}
    assert set(rows(index, "steel", fields={"metadata": 0, "description": 0})) == {0}
    assert rows(index, "steel", fields={"metadata": 9})[0] == 1


def test_only_allowed_rows_match(index: SearchIndex) -> None:
    allowed = np.zeros(7, bool)
    allowed[1] = True
    assert index.find(TextQuery("trowel"), allowed).rows.tolist() == [1]
    assert index.find(TextQuery("trowel"), allowed[:1]).rows.tolist() == []


def test_stop_words_alone_match_in_titles() -> None:
    index = index_of({"title": "The Who"}, {"title": "It"}, {"title": "A lamp", "description": "who is it"})
    assert rows(index, "the who") == [0]
    assert rows(index, "it") == [1]


# --- languages ------------------------------------------------------------------------------------------------------


def test_translations_match(index: SearchIndex) -> None:
    assert set(rows(index, "lampe")) == {4, 5}
    assert set(rows(index, "lampes noires")) == {5}


def test_the_requested_language_comes_first_or_alone() -> None:
    index = index_of({"title": "Piano"}, {"title": "Piano", "language": "fr"})
    assert rows(index, "piano", language="fr") == [1, 0]
    assert rows(index, "piano", language="en") == [0, 1]
    assert rows(index, "piano", language="fr", only_language=True) == [1]
    assert rows(index, "piano", language="de", only_language=True) == []


def test_scripts_without_blanks_match_by_bigrams(index: SearchIndex) -> None:
    assert rows(index, "急須") == [6]
    assert rows(index, "緑の急須") == [6]
    assert rows(index, "北京") == []


# --- typos ----------------------------------------------------------------------------------------------------------


def test_typos_are_corrected_and_reported(index: SearchIndex) -> None:
    hits = index.find(TextQuery("steel trowl"))
    (correction,) = hits.corrections
    assert (correction.start, correction.end, correction.original, correction.suggestions[0]) == (
        6,
        11,
        "trowl",
        "trowel",
    )
    assert hits.corrected == hits.used == "steel trowel"
    assert hits.rows.tolist() == [0, 1]


def test_corrections_can_be_reported_without_being_used(index: SearchIndex) -> None:
    hits = index.find(TextQuery("steel trowl", correct=False))
    assert hits.corrected == "steel trowel"
    assert hits.used == "steel trowl"
    assert hits.rows.tolist() == []


def test_of_equal_suggestions_the_one_that_fits_the_other_words_is_taken() -> None:
    index = index_of({"title": "Bread bin"}, {"title": "Bread knife"}, {"title": "Beard oil"})
    assert index.find(TextQuery("beadr oil")).corrected == "beard oil"


def test_a_word_may_be_written_in_two_and_two_in_one() -> None:
    index = index_of({"title": "Memory foam mattress"}, {"title": "Black headphones"})
    assert index.find(TextQuery("memoryfoam")).corrected == "memory foam"
    assert index.find(TextQuery("head phones")).corrected == "headphones"


def test_a_last_word_may_go_on(index: SearchIndex) -> None:
    hits = index.find(TextQuery("steel tro"))
    assert hits.rows.tolist() == [0, 1]
    assert hits.corrections == ()
    assert index.find(TextQuery("tro steel")).corrections


def test_numbers_are_never_corrected() -> None:
    index = index_of({"title": "Bulb 4500"})
    hits = index.find(TextQuery("bulb 4501"))
    assert hits.rows.tolist() == []
    assert hits.corrections[0].suggestions == ()


def test_words_of_products_that_are_gone_are_not_suggested(index: SearchIndex) -> None:
    index.remove(0)
    index.remove(1)
    assert index.find(TextQuery("trowl")).corrections[0].suggestions == ()


# --- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "*",
        "\x00\x07\x1b",
        "a" * 10_000,
        "trowel " * 2_000,
        "((.*)+)+$",
        "[a-z]{9999}",
        "\ud800",
        "茶" * 9_000,
    ],
)
def test_strange_questions_are_answered(index: SearchIndex, text: str) -> None:
    hits = index.find(TextQuery(text, partial=True))
    assert len(hits.rows) == len(hits.scores) == len(hits.complete)


@given(st.text(max_size=60), st.text(max_size=60))
@settings(max_examples=60, deadline=None)
def test_every_indexed_text_matches(title: str, other: str) -> None:
    index = index_of({"title": title}, {"title": other}, {"title": "steel trowel"})
    hits = index.find(TextQuery(title, correct=False))
    assert hits.corrected == title or hits.corrections
    if any(character.isalnum() and character.isascii() for character in title):
        assert 0 in hits.rows.tolist() or not hits.rows.tolist()


def test_products_may_hold_anything(index: SearchIndex) -> None:
    index.put(
        9,
        {
            "title": None,
            "description": "",
            "tags": None,
            "custom_attributes": {"a": [1, None, {"b": "cork"}]},
        },
    )
    index.put(10, {})
    assert rows(index, "cork") == [9]
