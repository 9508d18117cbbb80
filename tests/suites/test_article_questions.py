"""300 questions over public articles: right answers, refusals, and the same with a language model configured."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence

import pytest

from actors.answers.client import QuestionClient, open_question_client
from actors.answers.extractive.sentence_splitter import split_sentences
from actors.answers.llm.draft import NO_ANSWER
from actors.answers.llm.provider_endpoint import LanguageModelConfig
from actors.answers.render import composed_from_answer
from actors.archive.messages import ArchiveArticle, ArchiveQuery, ArchiveResult, Snippet
from actors.archive.retrieve import search_passages
from cluster.clock import SystemClock
from cluster.ids import new_question_id
from cluster.meter import SilentMeter
from cluster.records.question import Answer, Question
from cluster.store.stores import Stores
from tests.benchmarks.answers import articles
from tests.benchmarks.answers.articles import ArticleQuestion
from tests.fakes.llm_provider import Provider
from tests.fakes.stores.memory import memory_stores

pytestmark = [
    pytest.mark.data,
    pytest.mark.timeout(300),
    pytest.mark.slow,
    pytest.mark.skipif(not articles.has_articles(), reason="the public data sets are not here"),
]

PRECISION, RECALL, REFUSAL = 0.90, 0.70, 0.90
"What the development part must reach."
GERMAN_RECALL = 0.75
INVENTED = "Quentin Zabriskie paid 4711 florins for it in 1688"
"No article has a word of this."


def questions_of(part: str) -> list[ArticleQuestion]:
    return [question for question in articles.read_article_questions() if question.part == part]


def test_a_third_has_no_answer_and_about_half_is_for_the_final_test() -> None:
    questions = articles.read_article_questions()
    assert len(questions) == len({question.question_id for question in questions}) == 300
    assert sum(not question.answers for question in questions) == 100
    assert 140 <= len(questions_of("held-out")) <= 160
    assert {question.language for question in questions} == {"en", "de", "es"}
    assert {question.corpus for question in questions} == set(articles.CORPORA)


def test_questions_are_answered_right_or_refused() -> None:
    counts = articles.score_questions(questions_of("dev"))
    assert counts.precision >= PRECISION, counts
    assert counts.recall >= RECALL, counts
    assert counts.refusal >= REFUSAL, counts


def test_german_questions_are_answered_as_often_as_english_ones() -> None:
    counts = articles.score_questions(
        question for question in questions_of("dev") if question.language == "de"
    )
    assert counts.recall >= GERMAN_RECALL, counts
    assert counts.precision >= PRECISION, counts


# --- with a language model -------------------------------------------------------------------------------------------


class LibraryArchiveClient:
    """An archive client that searches the library of the articles in which a question is asked."""

    question: ArticleQuestion

    async def ask(self, query: ArchiveQuery) -> ArchiveResult:
        library = articles.build_article_library(self.question.corpus, self.question.language)
        return search_passages(library, query, 0)

    async def article(
        self, app_id: str, product_id: str, position: int, tiers: frozenset[str] = frozenset()
    ) -> ArchiveArticle | None:
        return None


class ModelRun:
    """A question client with a recorded language model behind a real HTTP server."""

    def __init__(
        self, stores: Stores, archive: LibraryArchiveClient, client: QuestionClient, provider: Provider
    ) -> None:
        self._stores = stores
        self._archive = archive
        self._client = client
        self._provider = provider

    async def ask(self, question: ArticleQuestion, completion: str) -> Answer:
        self._archive.question, self._provider.text = question, completion
        now_ms = SystemClock().now_ms()
        stored = Question(
            question_id=new_question_id(), app_id=articles.APP, text=question.question,
            asked_at=now_ms, deadline_at=now_ms + 60_000,
        )  # fmt: skip
        await self._client.submit(stored)
        await self._client.queue.wait_idle()
        record = await self._stores.questions.read(articles.APP, stored.question_id)
        assert record is not None
        return record.answer


@pytest.fixture
async def model_run() -> AsyncIterator[ModelRun]:
    clock, stores, archive = SystemClock(), memory_stores(), LibraryArchiveClient()
    async with Provider() as provider:
        llm = {"url": provider.url, "model": "recorded", "key": "k", "may_be_internal": True}
        assert LanguageModelConfig(**llm)
        client = open_question_client(
            stores, archive, clock, SilentMeter(), app_ids=lambda: (articles.APP,), llm=llm
        )
        await client.start()
        yield ModelRun(stores, archive, client, provider)
        await client.close()


def build_completion(question: ArticleQuestion, snippets: Sequence[Snippet]) -> str:
    """Return what a model replies: the sentence with the answer and three faults; without an answer, an invention.

    The faults: an invented sentence, the answer with other digits, the answer without a citation.
    """
    for number, snippet in enumerate(snippets, 1):
        for sentence in split_sentences(snippet.text) if snippet.product_id in question.articles else ():
            if any(articles.has_text(sentence.text, text) for text in question.answers):
                plain = " ".join(sentence.text.rstrip(".").split())
                changed = re.sub(r"\d", lambda digit: str((int(digit[0]) + 3) % 10), plain)
                altered = f"{changed} [{number}].\n" if changed != plain else ""
                return f"{plain} [{number}].\n{INVENTED} [{number}].\n{altered}{plain} for sure.\n"
    return NO_ANSWER if len(question.question) % 2 else f"{INVENTED} [1]."


async def test_a_model_is_checked_sentence_by_sentence(model_run: ModelRun) -> None:
    outcomes: list[tuple[ArticleQuestion, bool | None]] = []
    shown: list[str] = []
    for question in questions_of("dev"):
        answer = await model_run.ask(question, build_completion(question, articles.search_articles(question)))
        snippets = [
            Snippet(
                passage.product_id, passage.position, passage.title, "", (), "", "", passage.text, 1.0, ""
            )
            for passage in answer.passages
        ]
        assert answer.public_finish_reason == ("success" if answer.sentences else "no_answer")
        shown += [sentence.text for sentence in answer.sentences]
        for sentence in answer.sentences:
            passage = " ".join(answer.passages[sentence.passage].text.split())
            if answer.composer == "model":
                assert sentence.text.rstrip(".") in passage, (question, sentence.text)
        outcomes.append((question, articles.is_right(question, snippets, composed_from_answer(answer))))
    assert not any("Zabriskie" in text for text in shown)
    counts = articles.count_outcomes(outcomes)
    assert counts.precision >= PRECISION, counts
    assert counts.recall >= RECALL, counts
    assert counts.refusal >= REFUSAL, counts
