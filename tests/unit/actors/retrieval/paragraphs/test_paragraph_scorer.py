from __future__ import annotations

import pytest

from actors.language.analysis import Analyzers
from actors.retrieval.paragraphs.paragraph_scorer import (
    AnalyzedParagraph,
    probability_from_score,
    score_paragraphs,
)

TEXTS = [
    "Mulch is a loose cover over soil.",
    "Tulip bulbs are set about 15 cm deep, pointed end up.",
    "Tulips like light soil and a dry summer.",
    "Water seedlings every other morning.",
    "A draw hoe is pulled towards you.",
]


def ask(question: str, *, heading: str = "") -> list[float]:
    analyzers = Analyzers()
    english = analyzers.get("en")
    above = frozenset(english.terms(heading))
    pool = [AnalyzedParagraph(text, tuple(english.terms(text)), above) for text in TEXTS]
    return score_paragraphs(question, analyzers.query_terms(question, ["en"]), pool)


@pytest.mark.parametrize(
    ("question", "best"),
    [("What is mulch?", 0), ("How deep are tulip bulbs set?", 1), ("When do I water seedlings?", 3)],
)
def test_the_answering_paragraph_is_the_most_probable(question: str, best: int) -> None:
    probabilities = ask(question)
    assert probabilities.index(max(probabilities)) == best
    assert probabilities[best] > 0.8


def test_what_no_paragraph_speaks_of_is_improbable() -> None:
    assert max(ask("Who won the cup final in Madrid?")) < 0.1
    assert max(ask("How deep is the lake of Constance?")) < 0.6


def test_a_heading_counts_for_the_paragraphs_under_it() -> None:
    alone, under = ask("seedlings cover"), ask("seedlings cover", heading="Seedlings")
    assert under[0] > alone[0]


def test_probabilities_are_probabilities() -> None:
    assert ask("the of and") == [0.0] * len(TEXTS)
    assert all(0 <= value <= 1 for value in ask("tulip bulbs set deep soil water mulch"))
    assert 0 <= probability_from_score(-50) < 0.01 < 0.99 < probability_from_score(50) <= 1
    assert score_paragraphs("mulch", [(1,)], []) == []
