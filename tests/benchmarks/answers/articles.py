"""Questions over public articles of three kinds, in three languages: precision, recall, refusals.

The questions were written before the code that answers them. A question is held out when the SHA-256 digest of its id
is odd: thresholds and rules are chosen on the others. The public articles are not part of this repository. A question
of XQuAD is stored as its id.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from actors.answers.extractive.answer_composer import ComposedAnswer, compose_answer
from actors.archive.messages import ArchiveQuery, Snippet
from actors.archive.passage_index import PassageIndex
from actors.archive.passages import document_from_product
from actors.archive.retrieve import search_passages
from actors.archive.segment import build_segment
from actors.language.analysis import Analyzers
from tests.benchmarks.quality_sets import data_folder, has
from tests.benchmarks.scenarios import Line

CORPORA = ("wikinews", "current-events", "xquad")
FOLDERS = ("wikinews", "wikipedia-current-events", "xquad")
PARTS = ("dev", "held-out")
APP = "bench"
_ROWS = 12
"Passages from which an answer is made, as in the service."
_MONTHS = ("2025-03", "2025-04")
"Months of the current events that are searched: 875 items."


@dataclass(frozen=True, slots=True)
class ArticleQuestion:
    """A question, the texts that a right answer contains, and the articles that have them."""

    question_id: str
    corpus: str
    language: str
    question: str
    answers: tuple[str, ...]
    "One of these is in a right answer; empty: the articles do not answer the question."
    articles: tuple[str, ...]

    @property
    def part(self) -> str:
        """Return `dev` or `held-out`."""
        return PARTS[int(hashlib.sha256(self.question_id.encode()).hexdigest(), 16) % 2]


@dataclass(frozen=True, slots=True)
class AnswerCounts:
    """Counts over a set of questions."""

    answerable: int = 0
    unanswerable: int = 0
    answered: int = 0
    "Questions of both kinds that got an answer."
    right: int = 0
    refused: int = 0
    "Unanswerable questions that were refused."

    @property
    def precision(self) -> float:
        """Return the share of answers that are right; an answer to an unanswerable question is wrong."""
        return self.right / max(self.answered, 1)

    @property
    def recall(self) -> float:
        """Return the share of answerable questions with a right answer."""
        return self.right / max(self.answerable, 1)

    @property
    def refusal(self) -> float:
        """Return the share of unanswerable questions that were refused."""
        return self.refused / max(self.unanswerable, 1)


def has_articles() -> bool:
    """Return whether all public sets are present."""
    return all(has(folder) for folder in FOLDERS)


@cache
def read_article_questions() -> tuple[ArticleQuestion, ...]:
    """Read the 300 questions; those of XQuAD with their texts from the public set."""
    lines = Path(__file__).with_name("article_questions.jsonl").read_bytes().splitlines()
    return tuple(_build_question(orjson.loads(line)) for line in lines)


def _build_question(row: Mapping[str, Any]) -> ArticleQuestion:
    question, answers = row.get("question"), row.get("answers", ())
    if "reference" in row:
        pair = _read_pairs(row["language"])[row["reference"]]
        question, answers = pair["q"], [pair["a"]]
    return ArticleQuestion(
        row["id"], row["corpus"], row["language"], str(question), tuple(answers), tuple(row["articles"])
    )


@cache
def _read_pairs(language: str) -> Mapping[str, Mapping[str, str]]:
    return {pair["id"]: pair for row in _read_lines(f"xquad/{language}.jsonl.gz") for pair in row["qas"]}


def _read_lines(path: str) -> list[dict[str, Any]]:
    with gzip.open(data_folder() / path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def read_products(corpus: str, language: str) -> Iterator[dict[str, Any]]:
    """Return the articles as an owner uploads them."""
    if corpus == "wikinews":
        for row in _read_lines("wikinews/articles.jsonl.gz"):
            yield _product(row["id"], row["title"], row["text"], row["date"])
    elif corpus == "current-events":
        for row in _read_lines("wikipedia-current-events/items.jsonl.gz"):
            if row["date"].startswith(_MONTHS):
                title = row["story"][0] if row["story"] else row["category"]
                yield _product(row["id"], title, row["text"], row["date"])
    else:
        for row in _read_lines(f"xquad/{language}.jsonl.gz"):
            yield _product(row["id"], row["title"], row["context"], "")


def _product(product_id: str, title: str, text: str, published: str) -> dict[str, Any]:
    dated = {"published_at": f"{published}T00:00:00Z"} if published else {}
    return {"product_id": product_id, "type": "article", "title": title, "description": text, **dated}


@cache
def build_article_library(corpus: str, language: str) -> PassageIndex:
    """Put the articles into an archive, as a fresh installation has it: without an embedder."""
    documents = [
        document
        for document in map(document_from_product, read_products(corpus, language))
        if document is not None
    ]
    analyzers = Analyzers()
    mean_length = float(build_segment(documents, analyzers, None, 1.0).postings.lengths.mean())
    return PassageIndex(None, segments=[build_segment(documents, analyzers, None, mean_length)])


def search_articles(question: ArticleQuestion) -> tuple[Snippet, ...]:
    """Return the passages from which an answer is made."""
    library = build_article_library(question.corpus, question.language)
    return search_passages(library, ArchiveQuery(APP, question.question, rows=_ROWS), 0).snippets


def answer_question(question: ArticleQuestion) -> tuple[tuple[Snippet, ...], ComposedAnswer]:
    """Return the passages and the answer that is composed of them."""
    snippets = search_articles(question)
    return snippets, compose_answer(question.question, snippets)


def is_right(question: ArticleQuestion, snippets: Sequence[Snippet], composed: ComposedAnswer) -> bool | None:
    """Return whether an answer has an accepted text and cites an accepted article; None: it is a refusal."""
    if composed.refused:
        return None
    cited = {snippets[sentence.snippet].product_id for sentence in composed.sentences}
    shown = " ".join(sentence.text for sentence in composed.sentences)
    return not cited.isdisjoint(question.articles) and any(has_text(shown, text) for text in question.answers)


def has_text(shown: str, text: str) -> bool:
    """Return whether an answer contains a text as whole words; case is ignored."""
    return re.search(rf"(?<!\w){re.escape(text)}(?!\w)", shown, re.IGNORECASE) is not None


def score_questions(questions: Iterable[ArticleQuestion]) -> AnswerCounts:
    """Ask questions and count."""
    return count_outcomes(
        (question, is_right(question, *answer_question(question))) for question in questions
    )


def count_outcomes(outcomes: Iterable[tuple[ArticleQuestion, bool | None]]) -> AnswerCounts:
    """Count right answers, wrong ones and refusals."""
    pairs = list(outcomes)
    return AnswerCounts(
        answerable=sum(bool(question.answers) for question, _ in pairs),
        unanswerable=sum(not question.answers for question, _ in pairs),
        answered=sum(right is not None for _, right in pairs),
        right=sum(right is True for _, right in pairs),
        refused=sum(right is None and not question.answers for question, right in pairs),
    )


def lines() -> Iterator[Line]:
    """Measure both parts, then each kind of articles and each language."""
    questions = read_article_questions()
    for part in PARTS:
        yield from _as_lines(
            f"articles, {part}", [question for question in questions if question.part == part]
        )
    for corpus in CORPORA:
        yield from _as_lines(
            f"articles, {corpus}", [question for question in questions if question.corpus == corpus]
        )
    for language in ("en", "de", "es"):
        yield from _as_lines(
            f"articles ({language})", [question for question in questions if question.language == language]
        )


def _as_lines(name: str, questions: Sequence[ArticleQuestion]) -> Iterator[Line]:
    counts = score_questions(questions)
    for figure, value, note in (
        ("precision", counts.precision, f"{counts.right} of {counts.answered} answers"),
        ("recall", counts.recall, f"{counts.right} of {counts.answerable} questions"),
        ("refusal", counts.refusal, f"{counts.refused} of {counts.unanswerable} without an answer"),
    ):
        yield Line(f"{name}: {figure}", value, "", None, at_most=False, note=note)
