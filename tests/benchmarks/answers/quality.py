"""`kiosk bench answers quality`: the quality of composed answers.

The playground's own questions are asked of its newspaper as the archive holds it, both halves apart: weights were
fitted on `tune` only, with the figures of `held` in view. The public sets are asked of their paragraphs, as the
figures to compare with were measured.

    citations    of the sentences shown for questions that have an answer, the share that cites an article that has it
    holds        answers in which the words of the answer stand
    refused      of the questions without an answer, the share that got an honest no
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from actors.answers.extractive.answer_composer import ComposedAnswer, compose_answer, rank_sentences
from actors.archive.messages import ArchiveQuery, Snippet
from actors.archive.passage_index import PassageIndex
from actors.archive.passages import Document, document_from_product
from actors.archive.retrieve import search_passages
from actors.archive.segment import build_segment
from actors.language import latent_embedder
from actors.language.analysis import Analyzers
from jobs.playground.products import product_records_from_articles
from tests.benchmarks.answers import articles, definitions
from tests.benchmarks.quality_sets import data_folder, has
from tests.benchmarks.retrieval import whole
from tests.benchmarks.scenarios import Line
from tests.benchmarks.unmeasured import NO_SET, guarded, unmeasured
from tests.fakes.golden_questions import GoldenQuestion, read_golden_questions

APP = "bench"
PASSAGES = 10
CITATIONS, REFUSED = 0.95, 0.80
"What the playground's questions must reach."


@dataclass(frozen=True, slots=True)
class Floor:
    """A reference figure: the best combination of plain numpy implementations."""

    given: float
    retrieved: float


FLOORS = {"en": Floor(0.813, 0.756), "es": Floor(0.787, 0.736), "de": Floor(0.750, 0.677)}
"Right sentence when the paragraph is given, and when it has to be found; Spanish and German without an encoder."


@dataclass(frozen=True, slots=True)
class AnswerCounts:
    """What a set of questions came to."""

    answerable: int = 0
    answered: int = 0
    supported: int = 0
    citations: int = 0
    right_citations: int = 0
    unanswerable: int = 0
    refused: int = 0
    astray: int = 0
    "Sentences shown for questions that have no answer."

    @property
    def answered_share(self) -> float:
        """Of the questions that have an answer, those that got one."""
        return self.answered / max(self.answerable, 1)

    @property
    def precision(self) -> float:
        """Of the sentences shown for them, those that cite an article that has the answer."""
        return self.right_citations / max(self.citations, 1)

    @property
    def supported_share(self) -> float:
        """Of their answers, those in which the words of the answer stand."""
        return self.supported / max(self.answered, 1)

    @property
    def refused_share(self) -> float:
        """Of the questions without an answer, those that were refused."""
        return self.refused / max(self.unanswerable, 1)


def lines(languages: Sequence[str] = ("en", "es", "de"), every: int = 1) -> Iterator[Line]:
    """Measure the plain questions, the playground's, then the public sets that are there."""
    yield from guarded("plain questions", definitions.lines)
    yield from guarded("own questions", _kiosk_lines)
    missing = next((folder for folder in articles.FOLDERS if not has(folder)), None)
    if missing is None:
        yield from guarded("articles", articles.lines)
    else:
        yield unmeasured("articles", NO_SET.format(missing, data_folder()))
    for language in languages:
        if has("xquad"):
            yield from guarded(f"paragraphs ({language})", partial(paragraphs, language, every))
        else:
            yield unmeasured(f"paragraphs ({language})", NO_SET.format("xquad", data_folder()))


def _kiosk_lines() -> Iterator[Line]:
    library, questions = playground(), read_golden_questions()
    for part in ("tune", "held"):
        yield from _as_lines(
            f"own questions, {part}",
            tally(library, [question for question in questions if question.part == part]),
        )
    yield from _as_lines("own questions, all", tally(library, questions))


# --- the playground's questions -------------------------------------------------------------------------------------


def playground() -> PassageIndex:
    """Put the newspaper into an archive, as an upload does, with the built-in embedder trained on it."""
    return build_library(
        [
            document
            for document in map(document_from_product, product_records_from_articles())
            if document is not None
        ]
    )


def build_library(documents: Sequence[Document]) -> PassageIndex:
    """Make an archive of documents."""
    analyzers = Analyzers()
    embedder = latent_embedder.train_embedder(document.text for document in documents)
    mean_length = float(build_segment(documents, analyzers, None, 1.0).postings.lengths.mean())
    return PassageIndex(
        embedder,
        segments=[build_segment(documents, analyzers, embedder, mean_length)],
        share=latent_embedder.SHARE,
    )


def passages(library: PassageIndex, question: str) -> tuple[Snippet, ...]:
    """Find what an answer is composed of."""
    return search_passages(library, ArchiveQuery(APP, question, rows=PASSAGES), 0).snippets


def tally(library: PassageIndex, questions: Sequence[GoldenQuestion]) -> AnswerCounts:
    """Ask questions and count."""
    counted = AnswerCounts()
    for golden in questions:
        snippets = passages(library, golden.question)
        counted = _counted(counted, golden, compose_answer(golden.question, snippets), snippets)
    return counted


def _counted(
    before: AnswerCounts, golden: GoldenQuestion, composed: ComposedAnswer, snippets: Sequence[Snippet]
) -> AnswerCounts:
    if golden.missing:
        return AnswerCounts(
            before.answerable,
            before.answered,
            before.supported,
            before.citations,
            before.right_citations,
            before.unanswerable + 1,
            before.refused + composed.refused,
            before.astray + len(composed.sentences),
        )
    right = sum(snippets[cited.snippet].product_id in golden.articles for cited in composed.sentences)
    shown = " ".join(cited.text for cited in composed.sentences)
    holds = bool(right) and golden.answer is not None and golden.answer in shown
    return AnswerCounts(
        before.answerable + 1,
        before.answered + (not composed.refused),
        before.supported + holds,
        before.citations + len(composed.sentences),
        before.right_citations + right,
        before.unanswerable,
        before.refused,
        before.astray,
    )


def _as_lines(name: str, counted: AnswerCounts) -> Iterator[Line]:
    questions = f"{counted.answered} of {counted.answerable} questions"
    yield Line(f"{name}: citation precision", counted.precision, "", CITATIONS, at_most=False, note=questions)
    strict = counted.right_citations / max(counted.citations + counted.astray, 1)
    yield Line(f"{name}: citation precision, wrong answers counted", strict, "", None, at_most=False)
    yield Line(f"{name}: answer holds the words", counted.supported_share, "", None, at_most=False)
    yield Line(f"{name}: answered", counted.answered_share, "", None, at_most=False)
    without = f"{counted.refused} of {counted.unanswerable} without an answer"
    yield Line(f"{name}: refused", counted.refused_share, "", REFUSED, at_most=False, note=without)


# --- the public sets ------------------------------------------------------------------------------------------------


def paragraphs(language: str, every: int = 1) -> Iterator[Line]:
    """Ask 1,190 questions of 240 paragraphs: which sentence comes first, and what is answered at all?"""
    with gzip.open(data_folder() / "xquad" / f"{language}.jsonl.gz", "rt", encoding="utf-8") as lines_there:
        rows = [json.loads(line) for line in lines_there]
    documents = {row["id"]: whole(row["id"], row["context"], language) for row in rows}
    library = build_library(list(documents.values()))
    given = retrieved = questions = answered = right = refused = without = 0
    for row in rows[::every]:
        alone = (_alone(row["id"], row["context"]),)
        for pair in row["qas"]:
            questions += 1
            given += _comes_first(pair, row["id"], alone, language)
            seen = passages(library, pair["q"])
            retrieved += _comes_first(pair, row["id"], seen, language)
            composed = compose_answer(pair["q"], seen, language=language)
            answered += not composed.refused
            right += any(
                _is_right(pair, row["id"], seen[sentence.snippet].product_id, sentence.start, sentence.end)
                for sentence in composed.sentences
            )
            others = tuple(snippet for snippet in seen if snippet.product_id != row["id"])
            if not any(pair["a"].lower() in other.text.lower() for other in others):
                without += 1
                refused += compose_answer(pair["q"], others, language=language).refused
    floor = FLOORS[language]
    name = f"paragraphs ({language})"
    yield Line(f"{name}: right sentence, given", given / questions, "", floor.given, at_most=False)
    yield Line(f"{name}: right sentence, found", retrieved / questions, "", floor.retrieved, at_most=False)
    yield Line(
        f"{name}: answered", answered / questions, "", None, at_most=False, note=f"{questions:,} questions"
    )
    yield Line(f"{name}: answers that hold", right / max(answered, 1), "", None, at_most=False)
    taken = f"{without:,} questions whose paragraph was taken away"
    yield Line(f"{name}: refused", refused / max(without, 1), "", None, at_most=False, note=taken)


def _alone(name: str, text: str) -> Snippet:
    return Snippet(name, 0, "", "", (), "", "", text, 1.0, "")


def _comes_first(pair: dict[str, object], name: str, seen: Sequence[Snippet], language: str) -> bool:
    _, ranked = rank_sentences(str(pair["q"]), seen, language)
    if not ranked:
        return False
    best = ranked[0][1]
    return _is_right(pair, name, seen[best.snippet].product_id, best.sentence.start, best.sentence.end)


def _is_right(pair: dict[str, object], name: str, product_id: str, start: int, end: int) -> bool:
    return product_id == name and start <= int(str(pair["start"])) < end
