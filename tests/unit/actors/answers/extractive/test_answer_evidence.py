"""A sentence answers only with an entity of the requested kind, of the right subject."""

from __future__ import annotations

import pytest

from actors.answers.extractive.answer_composer import ComposedAnswer, compose_answer
from actors.answers.extractive.question_analysis import analyze_question, classify_question
from actors.answers.extractive.sentence_splitter import split_sentences
from actors.answers.extractive.text_tokens import TextTokenizer
from actors.archive.messages import Snippet

TOWER = (
    "A tower block in Brellin has collapsed. Thirty-nine people died in the Brellin collapse on Monday. "
    "The block of 1973 was home to over 1,000 people, and 48 flats were damaged."
)
MINISTER = "Helga Storm, the minister of trade, announces that Count Otto Brandis has died at the age of 88."
SINGER = "Ada Quill performed in Tolm in 1957. She sings about the sea."
SINGER_LEAD = "The singer was 78. She died at her home in Veyle, according to her agent."


def answer(question: str, *texts: tuple[str, str], language: str = "en") -> ComposedAnswer:
    snippets = [
        Snippet(f"article-{number}", 0, title, "", (), "2024-05-01", "", text, 1.0 - number / 10, "")
        for number, (title, text) in enumerate(texts)
    ]
    return compose_answer(question, snippets, language=language)


def text_of(composed: ComposedAnswer) -> str:
    return " ".join(sentence.text for sentence in composed.sentences)


def test_a_number_is_taken_from_the_sentence_that_counts_the_right_thing() -> None:
    shown = text_of(answer("How many people died in the Brellin collapse?", ("Tower falls", TOWER)))
    assert "Thirty-nine" in shown
    assert "48" not in shown


@pytest.mark.parametrize(
    ("question", "title", "text"),
    [
        ("When did Ada Quill die?", "Ada Quill", SINGER),
        ("When was Ada Quill born?", "Ada Quill", SINGER),
        ("How tall is Ada Quill?", "Ada Quill", SINGER),
        ("How old is Helga Storm?", "A death", MINISTER),
        ("How old is Ada Quill?", "Ada Quill", SINGER),
        ("What is the population of Brellin?", "Tower falls", TOWER),
        ("Which university did Ada Quill attend?", "Ada Quill", SINGER),
        ("Which school does Ada Quill attend?", "Ada Quill", "Ada Quill met the driver of the school bus."),
        ("Who is the president of Tolm?", "A visit", "Ida Marsh, president of Veyle, came to Tolm."),
        ("How many people live in Brellin?", "Tower falls", "The tower of Brellin fell on ten people."),
        ("When did Ada Quill become mayor of Tolm?", "Ada Quill", "Ada Quill, mayor of Tolm, sang in 1957."),
        ("When was Ada Quill founded?", "A trial", "Ada Quill was found guilty in 1957."),
    ],
)
def test_a_question_is_refused_without_the_requested_kind_of_entity(
    question: str, title: str, text: str
) -> None:
    composed = answer(question, (title, text))
    assert composed.refused, text_of(composed)


@pytest.mark.parametrize(
    ("question", "text", "language"),
    [
        ("Wann heiratete Otto Brandis?", "Der Forscher Otto Brandis zeigte 2009 neue Belege.", "de"),
        ("Wie schwer ist Otto Brandis?", "Der Forscher Otto Brandis zeigte 2009 neue Belege.", "de"),
        ("¿Cuándo murió Rosa Lane?", "Rosa Lane se asoció en 1886 con dos hombres de negocios.", "es"),
        ("¿Cuánto pesa la torre de Brellin?", "La torre de Brellin fue construida en 1973.", "es"),
    ],
)
def test_other_languages_refuse_too(question: str, text: str, language: str) -> None:
    assert answer(question, ("", text), language=language).refused


def test_the_age_is_that_of_the_person_in_the_question() -> None:
    assert "88" in text_of(answer("How old was Otto Brandis when he died?", ("A death", MINISTER)))
    text = "Otto Brandis, the former President of Tolm, died aged 91 in a hospital."
    assert "91" in text_of(answer("How old was Otto Brandis when he died?", ("Otto Brandis dies", text)))


def test_the_headline_names_the_subject_of_a_lead_sentence() -> None:
    composed = answer("How old was the singer Ada Quill?", ("Singer Ada Quill dies", SINGER_LEAD))
    assert "78" in text_of(composed)


def test_a_sentence_with_a_pronoun_comes_with_the_sentence_that_names_the_person() -> None:
    composed = answer("What does Ada Quill sing about?", ("Ada Quill", SINGER))
    assert text_of(composed).startswith("Ada Quill")
    assert "the sea" in text_of(composed)


def test_according_to_somebody_is_no_place() -> None:
    place = "He fell ill in Veyle. Otto Brandis died at the Hospital of Tolm in spring."
    agent = "Otto Brandis has died, according to Helga Storm."
    assert "Tolm" in text_of(answer("Where did Otto Brandis die?", ("News", f"{agent} {place}")))
    assert answer("Where did Otto Brandis die?", ("News", agent)).refused


@pytest.mark.parametrize(
    ("question", "language", "answer_type"),
    [
        ("How high was the bail of Otto Brandis?", "en", "money"),
        ("How high is the tariff on boats?", "en", "share"),
        ("How high is the tower?", "en", "length"),
        ("When did it open?", "en", "time"),
        ("What does a diver do when the air is gone?", "en", "which"),
        ("Wie hoch sind die Studiengebühren?", "de", "money"),
        ("Wie schwer ist die Glocke?", "de", "weight"),
        ("¿Cuánto medía el muro?", "es", "long"),
        ("¿Cuánto pesa la campana?", "es", "weight"),
    ],
)
def test_the_requested_kind_is_recognized(question: str, language: str, answer_type: str) -> None:
    assert classify_question(question, language) == answer_type


def test_a_german_date_does_not_end_a_sentence() -> None:
    text = "Der Vertrag wurde am 18. Mai unterzeichnet. Im 19. Jahrhundert galt er. Er hatte 12. Danach kam mehr."
    assert len(split_sentences(text)) == 4


def test_a_role_may_belong_to_the_name_of_the_question() -> None:
    text = "Ida Marsh, president of Tolm, met the mayor of Veyle."
    assert "Ida Marsh" in text_of(answer("Who is the president of Tolm?", ("A visit", text)))


def test_what_happened_asks_for_no_kind_of_thing() -> None:
    text = "Quill lost her chain on the stones of Rope Street and ran the last steps with the bicycle."
    assert "chain" in text_of(answer("What happened to Ada Quill on Rope Street?", ("Ada Quill wins", text)))


@pytest.mark.parametrize(
    ("question", "focus", "names"),
    [
        ("Welche Firma entwickelte Brellnet?", "firma", {"brelln"}),
        ("Welche christlichen Akademien gibt es in Tolm?", "akademi", {"tolm"}),
        ("Wie viele verschiedene Arten von Quallen gibt es?", "art", {"quall"}),
        ("Wer entwickelte Brellnet?", "entwickelt", {"brelln"}),
    ],
)
def test_a_german_question_picks_the_first_noun(question: str, focus: str, names: set[str]) -> None:
    analysis = analyze_question(question, "de", TextTokenizer("de"))
    assert analysis.focus[0] == focus
    assert analysis.names == names


@pytest.mark.parametrize(
    ("question", "text", "language"),
    [
        ("When was Tolm wholly wooded?", "In 9.000 BP Tolm was wholly wooded.", "en"),
        ("Wann war Tolm vollständig bewaldet?", "In 9.000 BP war Tolm vollständig bewaldet.", "de"),
        ("Wann war Tolm vollständig bewaldet?", "Im Jahr 90 v. Chr. war Tolm vollständig bewaldet.", "de"),
    ],
)
def test_a_number_before_an_era_is_a_time(question: str, text: str, language: str) -> None:
    assert text_of(answer(question, ("Tolm", text), language=language)) == text


def test_a_sentence_that_refers_to_its_subject_answers_with_the_sentence_before() -> None:
    text = (
        "In der Stadt Tolm fährt die Quill Metro als öffentliches Verkehrsmittel, ein System von Vorortbahnen. "
        "Es wurde in fünf Phasen zwischen 1980 und 1984 eröffnet und war das erste Stadtbahnsystem des Landes; "
        "zwei Erweiterungen wurden 1991 und 2002 fertiggestellt. Eine Brücke wurde über den Fluss zwischen den "
        "Städten Brellin und Tolm errichtet und 1981 von der Königin eröffnet."
    )
    shown = text_of(answer("Wann wurde die Quill Metro eröffnet?", ("Tolm", text), language="de"))
    assert "zwischen 1980 und 1984" in shown
