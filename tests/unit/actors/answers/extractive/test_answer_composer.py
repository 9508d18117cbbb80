"""Answers are made of sentences of the passages, or there is an honest no."""

from __future__ import annotations

import pytest

from actors.answers.extractive.answer_composer import ComposedAnswer, compose_answer
from actors.archive.messages import Snippet

HARBOUR = (
    "The harbour of Veyle was dredged in 1931. Mayor Anna Brandt had asked for it because ships ran aground. "
    "Today it handles forty ships a week. She is remembered by a statue of bronze on the quay."
)
MUSEUM = (
    "The museum of Veyle opened in 1988. Its director, Paul Lorne, collects anchors. Entry costs 6.50 crowns."
)


def passage(name: str, title: str, text: str, score: float = 1.0, published: str = "2024-05-01") -> Snippet:
    return Snippet(name, 0, title, "", (), published, f"https://x.example/{name}", text, score, "")


SNIPPETS = [
    passage("harbour", "The harbour of Veyle", HARBOUR),
    passage("museum", "A museum of anchors", MUSEUM, 0.6),
]


def answer_texts(composed: ComposedAnswer) -> str:
    return " ".join(sentence.text for sentence in composed.sentences)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("When was the harbour of Veyle dredged?", "1931"),
        ("Who had asked for the dredging of the harbour?", "Anna Brandt"),
        ("How many ships does the harbour of Veyle handle a week?", "forty ships"),
        ("Who is the director of the museum of Veyle?", "Paul Lorne"),
        ("What does entry to the museum of Veyle cost?", "6.50 crowns"),
    ],
)
def test_the_sentence_that_holds_the_answer_is_shown(question: str, expected: str) -> None:
    composed = compose_answer(question, SNIPPETS)
    assert not composed.refused
    assert expected in answer_texts(composed)
    assert composed.confidence > 0.5


@pytest.mark.parametrize(
    "question",
    [
        "Who painted the Mona Lisa?",
        "When was the harbour of Tolm dredged?",
        "Who is the director of the harbour of Veyle?",
        "How deep is the harbour of Veyle?",
        "How many ships sank in the harbour of Veyle in 1977?",
        "What happened to the museum of Veyle in 2003?",
        "???",
        "",
        "the of and",
        "\x00",
    ],
)
def test_what_the_passages_do_not_hold_is_refused(question: str) -> None:
    composed = compose_answer(question, SNIPPETS)
    assert composed.refused
    assert composed.sentences == ()


def test_sentence_spans_point_into_their_passage() -> None:
    for sentence in compose_answer("When was the harbour of Veyle dredged?", SNIPPETS).sentences:
        assert SNIPPETS[sentence.snippet].text[sentence.start : sentence.end] == sentence.text
        assert sentence.support == 1.0


def test_a_sentence_that_leans_on_another_brings_it_along() -> None:
    text = "Ines Marlow runs the bakery of Oldham. She bakes 800 loaves every night."
    composed = compose_answer(
        "How many loaves does Ines Marlow bake every night?",
        [passage("b", "Bakery of Oldham", text)],
    )
    assert [sentence.text for sentence in composed.sentences] == [
        "Ines Marlow runs the bakery of Oldham.",
        "She bakes 800 loaves every night.",
    ]


def test_answers_repeat_no_sentence() -> None:
    again = [passage("a", "Harbour", HARBOUR), passage("b", "Harbour", HARBOUR, 0.9)]
    texts = [
        sentence.text for sentence in compose_answer("Why was the harbour of Veyle dredged?", again).sentences
    ]
    assert len(texts) == len(set(texts))


def test_no_passages_are_no_answer() -> None:
    assert compose_answer("When was the harbour dredged?", []) == ComposedAnswer()


@pytest.mark.parametrize(
    ("language", "title", "text", "question", "expected"),
    [
        ("de", "Der Hafen von Veyle",
         "Der Hafen von Veyle wurde 1931 ausgebaggert. Bürgermeisterin Anna Brandt hatte es verlangt.",
         "Wann wurde der Hafen von Veyle ausgebaggert?", "1931"),
        ("es", "El puerto de Veyle", "El puerto de Veyle fue dragado en 1931. La alcaldesa Anna Brandt lo pidió.",
         "¿Cuándo fue dragado el puerto de Veyle?", "1931"),
        ("fr", "Le port de Veyle",
         "Le port de Veyle fut creusé en 1931. La maire Anna Brandt avait demandé les travaux.",
         "Quand fut creusé le port de Veyle ?", "1931"),
    ],
)  # fmt: skip
def test_other_languages_are_answered_too(
    language: str, title: str, text: str, question: str, expected: str
) -> None:
    assert expected in answer_texts(compose_answer(question, [passage("x", title, text)]))
    assert expected in answer_texts(compose_answer(question, [passage("x", title, text)], language=language))


def test_a_question_of_any_length_is_taken() -> None:
    assert compose_answer("harbour " * 20_000, SNIPPETS).confidence <= 1.0
