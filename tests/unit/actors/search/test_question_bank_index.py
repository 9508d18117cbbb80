from __future__ import annotations

import pytest

from actors.search.question_bank_cache import QuestionBankIndex
from cluster.records.question import BankQuestion

QUESTIONS = [
    BankQuestion(question="What is mulch?"),
    BankQuestion(question="How deep do I plant tulips?", weight=3),
    BankQuestion(question="How often do I water seedlings?", weight=9),
    BankQuestion(question="Wie tief pflanze ich Tulpen?"),
    BankQuestion(question="郁金香种多深？"),
]


@pytest.fixture(scope="module")
def bank() -> QuestionBankIndex:
    return QuestionBankIndex.of(QUESTIONS)


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("what is m", "What is mulch?"),
        ("mulch", "What is mulch?"),
        ("waht is mulhc", "What is mulch?"),
        ("how d", "How deep do I plant tulips?"),
        ("tulips plant deep", "How deep do I plant tulips?"),
        ("TIEF", "Wie tief pflanze ich Tulpen?"),
        ("郁金香", "郁金香种多深？"),
    ],
)
def test_a_question_matches_by_prefix_words_and_in_spite_of_typos(
    bank: QuestionBankIndex, typed: str, first: str
) -> None:
    assert bank.look_up(typed, 5)[0].question == first


def test_among_equals_the_weightier_comes_first(bank: QuestionBankIndex) -> None:
    assert [question.weight for question in bank.look_up("how", 5)] == [9, 3]


def test_a_question_that_stands_twice_counts_with_its_larger_weight() -> None:
    twice = [BankQuestion(question="a b c", weight=weight) for weight in (1, 5, 2)]
    assert QuestionBankIndex.of(twice).look_up("a b", 5) == [twice[1]]


@pytest.mark.parametrize("typed", ["", " ", "?!", "\u0000"])
def test_nothing_typed_finds_nothing(bank: QuestionBankIndex, typed: str) -> None:
    assert bank.look_up(typed, 5) == []


def test_an_empty_bank_is_a_bank() -> None:
    assert QuestionBankIndex.of([]).look_up("what", 5) == []


@pytest.mark.parametrize("weight", [-1.0, 0.0, 1e308, -1e308])
def test_any_weight_is_a_weight(weight: float) -> None:
    questions = QuestionBankIndex.of([BankQuestion(question="what", weight=weight)]).look_up("wha", 1)
    assert [question.weight for question in questions] == [weight]
