"""Plain questions: what a thing is, what it is made of, what it does, who does something; in three languages.

Each has small texts that hold the answer, or name the subject and do not hold it. Texts, questions and answers were
written by hand before the code that answers them. Halves are drawn by a fixed seed: thresholds and rules are chosen on
`tune`; of `held` only the totals are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from actors.answers.extractive.answer_composer import compose_answer
from actors.archive.messages import ArchiveQuery
from actors.archive.passage_index import PassageIndex
from actors.archive.passages import document_from_product
from actors.archive.retrieve import search_passages
from actors.archive.segment import build_segment
from actors.language.analysis import Analyzers
from tests.benchmarks.answers.articles import AnswerCounts
from tests.benchmarks.scenarios import Line
from tests.fakes.golden_questions import GoldenQuestion

LANGUAGES = ("en", "de", "es")
PRECISION, RECALL = 0.95, 0.75
"What all questions together must reach."
_APP = "bench"
_ROWS = 12
"Passages an answer is made from, as in the service."


class DefinitionQuestion(GoldenQuestion):
    """A plain question and what a good answer to it says."""

    language: str


@cache
def read_set() -> dict[str, Any]:
    """Read texts and questions."""
    return dict(orjson.loads(Path(__file__).with_name("definitions.json").read_bytes()))


def definition_questions() -> list[DefinitionQuestion]:
    """Read the questions."""
    return [DefinitionQuestion.model_validate(row) for row in read_set()["questions"]]


def build_library(language: str) -> PassageIndex:
    """Put the texts of one language into an archive, as a fresh installation has it: without an embedder."""
    products = [
        {
            "product_id": text["id"],
            "type": "article",
            "title": text["title"],
            "html": f"<p>{text['text']}</p>",
        }
        for text in read_set()["texts"]
        if text["language"] == language
    ]
    documents = [document for document in map(document_from_product, products) if document is not None]
    analyzers = Analyzers()
    mean_length = float(build_segment(documents, analyzers, None, 1.0).postings.lengths.mean())
    return PassageIndex(None, segments=[build_segment(documents, analyzers, None, mean_length)])


def is_right(question: DefinitionQuestion, library: PassageIndex) -> bool | None:
    """Ask a question: is the answer right? None: it was refused."""
    snippets = search_passages(library, ArchiveQuery(_APP, question.question, rows=_ROWS), 0).snippets
    composed = compose_answer(question.question, snippets)
    if composed.refused:
        return None
    cited = {snippets[sentence.snippet].product_id for sentence in composed.sentences}
    shown = " ".join(sentence.text for sentence in composed.sentences)
    return question.answer is not None and question.answer in shown and cited <= set(question.articles)


def score(questions: Sequence[DefinitionQuestion]) -> AnswerCounts:
    """Ask questions, each of the texts of its language, and count."""
    libraries = {language: build_library(language) for language in LANGUAGES}
    outcomes = [(question, is_right(question, libraries[question.language])) for question in questions]
    return AnswerCounts(
        answerable=sum(question.missing is None for question, _ in outcomes),
        unanswerable=sum(question.missing is not None for question, _ in outcomes),
        answered=sum(right is not None for _, right in outcomes),
        right=sum(right is True for _, right in outcomes),
        refused=sum(right is None and question.missing is not None for question, right in outcomes),
    )


def lines() -> Iterator[Line]:
    """Measure precision and recall by half and by language, then over all."""
    questions = definition_questions()
    for part in ("tune", "held"):
        yield from _as_lines(
            f"plain questions, {part}", [question for question in questions if question.part == part]
        )
    for language in LANGUAGES:
        yield from _as_lines(
            f"plain questions ({language})",
            [question for question in questions if question.language == language],
        )
    yield from _as_lines("plain questions, all", questions, PRECISION, RECALL)


def _as_lines(
    name: str,
    questions: Sequence[DefinitionQuestion],
    precision: float | None = None,
    recall: float | None = None,
) -> Iterator[Line]:
    counts = score(questions)
    shown = f"{counts.right} of {counts.answered} answers"
    yield Line(f"{name}: precision", counts.precision, "", precision, at_most=False, note=shown)
    right = f"{counts.right} of {counts.answerable} questions"
    yield Line(f"{name}: recall", counts.recall, "", recall, at_most=False, note=right)
    without = f"{counts.refused} of {counts.unanswerable} without an answer"
    yield Line(
        f"{name}: refused",
        counts.refused / max(counts.unanswerable, 1),
        "",
        None,
        at_most=False,
        note=without,
    )
