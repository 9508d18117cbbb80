"""The questions that answers are measured by are many, varied and true to the newspaper."""

from __future__ import annotations

from collections import Counter

from jobs.playground import data_files
from tests.benchmarks.answers.definitions import LANGUAGES, definition_questions, read_set
from tests.fakes.golden_questions import read_golden_questions


def test_a_third_of_at_least_a_hundred_questions_has_no_answer() -> None:
    questions = read_golden_questions()
    without = [question for question in questions if question.missing]
    assert len(questions) >= 100
    assert 0.33 <= len(without) / len(questions) <= 0.4
    assert {question.missing for question in without} == {"fact", "entity", "year"}
    assert len({question.question for question in questions}) == len(questions)


def test_both_halves_are_of_a_kind() -> None:
    counted = Counter((question.part, bool(question.missing)) for question in read_golden_questions())
    assert abs(counted["tune", True] - counted["held", True]) <= 1
    assert abs(counted["tune", False] - counted["held", False]) <= 1


def test_every_answer_stands_in_its_sentence_and_the_sentence_in_its_article() -> None:
    texts = {
        entry.id: [text for part in entry.parts for text in part.paragraphs]
        for entry in data_files.read_articles()
    }
    for entry in read_golden_questions():
        assert bool(entry.articles) == bool(entry.sentences) == bool(entry.answer) != bool(entry.missing), (
            entry.question
        )
        for sentence in entry.sentences:
            assert entry.answer is not None
            assert entry.answer in sentence
            assert any(sentence in text for name in entry.articles for text in texts[name]), entry.question


def test_every_article_has_a_question() -> None:
    questions = {name for entry in read_golden_questions() for name in entry.articles}
    assert questions == {entry.id for entry in data_files.read_articles()}


def test_plain_questions_are_at_least_sixty_in_three_languages_a_third_without_an_answer() -> None:
    questions = definition_questions()
    counted = Counter((question.language, question.part, bool(question.missing)) for question in questions)
    assert len(questions) >= 60
    assert (
        len({question.question for question in questions if question.language == "en"}) == counted.total() / 3
    )
    for language in LANGUAGES:
        for part in ("tune", "held"):
            assert counted[language, part, False] == 2 * counted[language, part, True]


def test_every_answer_to_a_plain_question_stands_in_its_text() -> None:
    texts = {entry["id"]: entry["text"] for entry in read_set()["texts"]}
    for entry in definition_questions():
        assert bool(entry.articles) == bool(entry.sentences) == bool(entry.answer) != bool(entry.missing)
        for sentence in entry.sentences:
            assert entry.answer is not None
            assert entry.answer in sentence
            assert all(sentence in texts[name] for name in entry.articles), entry.question
