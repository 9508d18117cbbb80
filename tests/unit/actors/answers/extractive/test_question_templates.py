"""Plain questions are taken apart, and sentences that are built like their answers are told from others."""

from __future__ import annotations

import pytest

from actors.answers.extractive.answer_composer import compose_answer
from actors.answers.extractive.question_templates import QuestionForm, parse_form
from actors.archive.messages import Snippet
from actors.language.language_data import find_plain_questions, load_languages

DIBBER = "A dibber is a pointed wooden stick that is used to make holes for seeds."
MULCH = (
    "Mulch is a layer of loose material on the soil. It is made of bark or straw. A layer of mulch keeps the soil "
    "moist and feeds the worms."
)
PEARS = "Pear trees are pruned in January. Apple trees are pruned by the wardens in March."
PERMACULTURE = "Permaculture is a way of gardening that copies nature."
TEXTS = [("The dibber", DIBBER), ("Mulch", MULCH), ("Pruning", PEARS), ("Gardens", PERMACULTURE)]


def answer(question: str, *texts: tuple[str, str], language: str = "") -> str:
    snippets = [
        Snippet(f"p{at}", 0, title, "", (), "2024-05-01", "", text, 1.0 - at / 10, "")
        for at, (title, text) in enumerate(texts or TEXTS)
    ]
    return " ".join(
        sentence.text for sentence in compose_answer(question, snippets, language=language).sentences
    )


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is a dibber?", "pointed wooden stick"),
        ("What is permaculture?", "a way of gardening"),
        ("What is mulch?", "a layer of loose material"),
        ("Define mulch", "a layer of loose material"),
        ("What is mulch made of?", "bark or straw"),
        ("How does mulch help the soil?", "keeps the soil moist"),
        ("What is a dibber used for?", "holes for seeds"),
        ("What does a layer of mulch do?", "feeds the worms"),
        ("Who prunes the apple trees?", "the wardens"),
    ],
)
def test_the_plainest_questions_are_answered(question: str, expected: str) -> None:
    assert expected in answer(question)


@pytest.mark.parametrize(
    "question",
    [
        "Who prunes pears?",
        "Who prunes pear trees?",
        "What is a worm?",
        "What is bark?",
        "What are dibbers made of?",
        "Define straw",
        "What is a trowel?",
        "Who sells mulch?",
    ],
)
def test_what_is_only_mentioned_is_not_taken_for_an_answer(question: str) -> None:
    assert answer(question) == ""


@pytest.mark.parametrize(
    ("language", "text", "question", "expected"),
    [
        ("en", "Kefir (also called milk beer) is a sour drink.", "What is kefir?", True),
        ("en", "Kefir is sold at the dairy.", "What is kefir?", False),
        ("en", "The oldest kefir of the town is a gift of the abbot.", "What is kefir?", False),
        ("en", "Boatmen call the stretch between two locks a pound.", "What is a pound?", True),
        ("en", "His friends called the pound at night.", "What is a pound?", False),
        ("en", "Spindle: a rod on which thread is wound.", "Define spindle", True),
        ("en", "In botany, a drupe is a fruit with a stone.", "What does drupe mean?", True),
        ("de", "Unter Karst versteht man Land aus löslichem Gestein.", "Was ist Karst?", True),
        ("de", "Der Karst ist im Winter gesperrt.", "Was ist Karst?", False),
        ("de", "Die Äpfel werden im Herbst gepflückt.", "Wer pflückt die Äpfel?", False),
        ("de", "Die Äpfel werden von Schülern gepflückt.", "Wer pflückt die Äpfel?", True),
        ("es", "Se llama noria a la rueda que sube el agua.", "¿Qué es una noria?", True),
        ("es", "La noria fue vendida en otoño.", "¿Qué es una noria?", False),
        ("fr", "Le paillis est une couche de matière sur le sol.", "Qu'est-ce que le paillis ?", True),
        ("fr", "Le paillis est vendu au marché.", "Qu'est-ce que le paillis ?", False),
    ],
)
def test_form_scores_separate_answers_from_other_sentences(
    language: str, text: str, question: str, expected: bool
) -> None:
    assert bool(answer(question, ("Notes", text), language=language)) is expected


@pytest.mark.parametrize(
    ("language", "question", "form"),
    [
        ("en", "What is a lock keeper?", QuestionForm("definition", ("lock", "keeper"), strict=True)),
        ("en", "What is the capital?", QuestionForm("definition", ("capital",))),
        ("en", "What is Velmora?", QuestionForm("definition", ("Velmora",))),
        ("en", "What is the capital of Velmora?", None),
        ("en", "What was discovered?", None),
        ("en", "Who is the mayor?", None),
        ("en", "Who has led the team?", QuestionForm("agent", ("led",), ("has", "the", "team"), strict=True)),
        ("de", "Was ist die Hauptstadt?", QuestionForm("definition", ("Hauptstadt",), strict=True)),
        ("de", "Woraus besteht der Mantel?", QuestionForm("material", ("Mantel",), strict=True)),
        ("es", "¿Para qué sirve un botijo?", QuestionForm("purpose", ("botijo",))),
        ("ru", "Что такое мульча?", None),
        ("en", "", None),
        ("en", "what is " + "a very " * 400 + "long thing", None),
    ],
)
def test_questions_are_taken_apart(language: str, question: str, form: QuestionForm | None) -> None:
    assert parse_form(question, language) == form


@pytest.mark.parametrize(
    "language", [code for code, data in load_languages().items() if data.plain_questions]
)
def test_word_lists_are_whole_and_in_lower_case(language: str) -> None:
    lists = find_plain_questions(language)
    assert lists is not None
    assert {"material", "purpose", "deeds", "effect", "definition"} <= set(lists.forms)
    for text in (*lists.indefinite, *lists.definite, *lists.naming, *lists.copulas, *lists.not_a_kind):
        assert text == text.lower()
    for templates in lists.forms.values():
        for template in templates:
            assert "X" in template.split()
