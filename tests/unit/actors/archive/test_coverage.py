"""How much of a question the best passage holds, and how well that tells questions with an answer from others."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterable, Mapping, Sequence

import pytest

from actors.archive.messages import ArchiveQuery
from actors.archive.passage_index import PassageIndex
from actors.archive.passages import document_from_product
from actors.archive.retrieve import search_passages
from actors.language.hashing_embedder import HashingEmbedder
from deployments.operations.insight.archive.call_sums import UNANSWERED_BELOW
from tests.benchmarks.quality_sets import data_folder, has
from tests.benchmarks.retrieval_sets import collections

_SAMPLED = 150


def library_of(documents: Mapping[str, str], language: str = "en") -> PassageIndex:
    """Make an archive of texts."""
    library = PassageIndex(HashingEmbedder(), share=0.1)
    records = (
        {"product_id": name, "type": "article", "title": "", "html": text, "language": language}
        for name, text in documents.items()
    )
    library.put([document for record in records if (document := document_from_product(record)) is not None])
    return library


def coverage(library: PassageIndex, question: str, context: str = "") -> float:
    """Ask, and say how much was found."""
    share = search_passages(library, ArchiveQuery("a", question, context=context), 0).coverage
    assert share is not None
    return share


RIVER = {
    "a": "Farms along the river must meter the water they pump from April on, the parliament decided on Thursday.",
    "b": "The comet was seen again in June by observers on three continents, who photographed its tail.",
    **{
        f"c{n}": f"The council met on day {n} and spoke about roads, schools and taxes of the town."
        for n in range(30)
    },
}


def test_a_question_is_covered_as_far_as_one_passage_holds_its_words() -> None:
    library = library_of(RIVER)
    whole = coverage(library, "farms meter river water")
    half = coverage(library, "farms meter zebra quantum")
    assert whole > 0.9
    assert 0.3 < half < 0.7
    assert coverage(library, "zebra quantum") == 0.0
    assert coverage(library, "") == 0.0
    assert coverage(library, "farms comet") < 0.9, "no passage holds both"
    assert 0.0 <= coverage(library, "water " * 60) <= 1.0


def test_context_neither_helps_nor_harms() -> None:
    library = library_of(RIVER)
    for question in ("farms meter zebra quantum", "comet"):
        alone = coverage(library, question)
        assert coverage(library, question, context="river parliament April pump") == pytest.approx(
            alone, abs=1e-5
        )


# --- the public sets ----------------------------------------------------------------------------------------------


def unanswered(name: str, library: PassageIndex, questions: Iterable[str]) -> float:
    """Count the questions below the report's threshold, as a share."""
    every = list(questions)
    chosen = random.Random(0).sample(every, min(_SAMPLED, len(every)))
    share = sum(coverage(library, question) < UNANSWERED_BELOW for question in chosen) / len(chosen)
    print(f"{name}: {share:.1%} of {len(chosen)} below {UNANSWERED_BELOW}")
    return share


def everyday_questions() -> Sequence[str]:
    """Read questions people typed, most of which no news archive answers."""
    with gzip.open(data_folder() / "nq-open/dev.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line)["question"] for line in lines if line.strip()]


needs_data = pytest.mark.skipif(not has("xquad"), reason="the public data sets are not here")


@pytest.mark.data
@needs_data
@pytest.mark.parametrize(("language", "lost"), [("en", 0.06), ("es", 0.06), ("de", 0.16)])
def test_questions_of_a_missing_subject_lie_below_and_others_above(language: str, lost: float) -> None:
    (collection,) = collections((f"xquad-{language}",))
    assert (
        unanswered(
            f"xquad-{language}, answerable",
            library_of(collection.documents, language),
            collection.questions.values(),
        )
        <= lost
    )
    # Paragraphs `<article>-<number>`: an archive without every second article.
    articles = sorted({name.partition("-")[0] for name in collection.documents})
    gone = set(articles[::2])
    rest = {name: text for name, text in collection.documents.items() if name.partition("-")[0] not in gone}
    questions = [text for name, text in collection.questions.items() if name.partition("-")[0] in gone]
    assert unanswered(f"xquad-{language}, subject missing", library_of(rest, language), questions) >= 0.88


@pytest.mark.data
@needs_data
def test_headlines_lie_above_and_everyday_questions_below_on_news() -> None:
    (news,) = collections(("wikinews",))
    library = library_of(news.documents)
    assert unanswered("wikinews, headlines", library, news.questions.values()) <= 0.02
    assert unanswered("wikinews, everyday questions", library, everyday_questions()) >= 0.5
    (squad,) = collections(("xquad-en",))
    assert unanswered("wikinews, questions on other texts", library, squad.questions.values()) >= 0.6


@pytest.mark.data
@needs_data
def test_beginnings_of_events_lie_above_and_other_questions_below() -> None:
    (events,) = collections(("events",))
    documents = dict(list(events.documents.items())[:4_000])
    library = library_of(documents)
    beginnings = [" ".join(text.split()[:10]) for text in documents.values()]
    assert unanswered("events, first ten words", library, beginnings) <= 0.02
    assert unanswered("events, everyday questions", library, everyday_questions()) >= 0.75
    (squad,) = collections(("xquad-en",))
    assert unanswered("events, questions on other texts", library, squad.questions.values()) >= 0.88
