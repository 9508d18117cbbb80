"""A sentence is shown only when its passage holds it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.answers.extractive.number_parser import parse_numbers
from actors.answers.extractive.support_scorer import MIN_SUPPORT, score_support
from jobs.playground import data_files

VOLK = (
    "Hedda Volk took the oath as president of Ostrany in Brevik Hale on 20 January 2025. "
    "She is the country's ninth president and the first woman in the office. "
    "Volk, 58, won the run-off in December with 55.2 percent against the former general Anton Ruhl."
)
FERRY = (
    "The night ferry between Tolvik and Port Sarrin left on time at 21.15 on 18 April 2024, the first crossing in "
    "eleven months. They found 29 mines, more than three times the number on the old charts. "
    "The search cost 17 million crowns. "
    "Fares stay at 64 crowns for a berth. The castle was not damaged. Nobody was hurt."
)


@pytest.mark.parametrize(
    ("sentence", "passage"),
    [
        ("Hedda Volk won the December run-off against Anton Ruhl with 55.2 percent of the vote.", VOLK),
        ("Volk was sworn in on 20 January 2025 in Brevik Hale.", VOLK),
        ("She is the first woman to hold the office of president.", VOLK),
        ("The search for mines cost 17,000,000 crowns.", FERRY),
        ("The night ferry sailed again after 11 months.", FERRY),
        ("A berth costs 64 crowns.", FERRY),
        ("Twenty-nine mines were found.", FERRY),
        ("The castle was not damaged.", FERRY),
        ("The ferry to Port Sarrin left at 21.15.", FERRY),
    ],
)
def test_paraphrases_are_supported(sentence: str, passage: str) -> None:
    assert score_support(sentence, passage) >= MIN_SUPPORT


@pytest.mark.parametrize(
    ("sentence", "passage"),
    [
        ("Hedda Volk won the run-off with 52.2 percent.", VOLK),
        ("Hedda Volk took the oath on 20 February 2025.", VOLK),
        ("Hedda Volk took the oath on 20 January 2024.", VOLK),
        ("Hedda Volk did not win the run-off in December.", VOLK),
        ("Anton Ruhl won the run-off against Hedda Volk.", VOLK),
        ("Hedda Volk lost the run-off in December against Anton Ruhl.", VOLK),
        ("Ines Maddock is president of Ostrany.", VOLK),
        ("Hedda Volk took the oath as president of Velmora.", VOLK),
        ("Hedda Volk, 85, is president.", VOLK),
        ("The search cost 17 billion crowns.", FERRY),
        ("The search cost 17 percent.", FERRY),
        ("They found 92 mines.", FERRY),
        ("The castle was damaged.", FERRY),
        ("The moon is made of cheese.", FERRY),
        ("", FERRY),
        ("They found 29 mines.", ""),
    ],
)
def test_new_claims_are_not_supported(sentence: str, passage: str) -> None:
    assert score_support(sentence, passage) < MIN_SUPPORT


def test_each_newspaper_sentence_is_supported_by_its_article_only() -> None:
    texts = [part.paragraphs[0] for article in data_files.read_articles() for part in article.parts[:1]]
    firsts = [text.split(". ")[0] for text in texts]
    assert all(score_support(first, text) == 1.0 for first, text in zip(firsts, texts, strict=True))
    elsewhere = [score_support(first, other) for first, other in zip(firsts, texts[1:], strict=False)]
    assert max(elsewhere) < MIN_SUPPORT


@given(st.text(max_size=80), st.text(max_size=200))
def test_any_two_texts_can_be_compared(sentence: str, passage: str) -> None:
    assert 0.0 <= score_support(sentence, passage) <= 1.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,900 houses", [1900]),
        ("1.2 million cubic metres", [1_200_000]),
        ("fifty-two of them, nineteen days", [52, 19]),
        ("4,2 Millionen Euro", [4_200_000]),
        ("12.000 Menschen", [12_000]),
        ("three thousand two hundred", [3_200]),
        ("one of them", []),
        ("2 hours, 19 minutes and 44 seconds", [2, 19, 44]),
        ("veintinueve o treinta y dos", [30, 2]),
        ("", []),
    ],
)
def test_numbers_are_read_however_they_are_written(text: str, expected: list[float]) -> None:
    assert [number.value for number in parse_numbers(text)] == expected


def test_a_number_knows_what_it_counts() -> None:
    assert [number.unit for number in parse_numbers("38 percent, $5, 12 metres, 9 years, 4 horses")] == [
        "share", "money", "metre", "year", "",
    ]  # fmt: skip
