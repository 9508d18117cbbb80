"""Somebody who answers the questions of threads, as told, for tests of the monitor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from actors.history.article_relevance import UploadedArticle
from actors.history.messages import AnswerService
from actors.history.news_monitor import RelevanceDependencies
from actors.language.hashing_embedder import HashingEmbedder
from cluster.records.thread import ThreadAnswer
from cluster.store.stores import Stores


@dataclass
class ScriptedAnswerer:
    """Remembers what it is asked; answers when told to, at once by default."""

    answers: dict[str, ThreadAnswer] = field(default_factory=dict)
    "Question -> its answer."
    questions: list[tuple[str, str, str, str]] = field(default_factory=list)
    "Reader, text, parent, question; each question once."
    times: int = 0
    "How often it was asked, repeats included."
    reply: ThreadAnswer | None = None
    "What every new question is answered with; none: not yet."
    wrong: Exception | None = None

    async def ask(self, app_id: str, user_id: str, text: str, parent_id: str, question_id: str) -> None:
        """Take a question; again is once."""
        self.times += 1
        if self.wrong is not None:
            raise self.wrong
        if question_id not in self.answers:
            self.questions.append((user_id, text, parent_id, question_id))
            self.answers[question_id] = self.reply or ThreadAnswer(finished=False)

    async def get_progress(self, app_id: str, question_id: str) -> ThreadAnswer | None:
        """Say how far an answer is."""
        return self.answers.get(question_id)

    def finish(self, reply: ThreadAnswer) -> None:
        """Finish everything that is open."""
        for question_id, answer in self.answers.items():
            if not answer.finished:
                self.answers[question_id] = reply


def read_plain(record: Mapping[str, Any]) -> UploadedArticle | None:
    """Read `{product_id, title, text}`; a text may be split by blank lines into passages."""
    if "text" not in record:
        return None
    passages = tuple(f"{record['title']}\n{part}" for part in str(record["text"]).split("\n\n"))
    return UploadedArticle(record["product_id"], record["title"], passages, "en", record.get("published_ms"))


class ReadyAnswerer:
    """Answers every question at once, out of whatever was uploaded; keeps nothing, so it may die at any time."""

    async def ask(self, app_id: str, user_id: str, text: str, parent_id: str, question_id: str) -> None:
        """Take a question."""

    async def get_progress(self, app_id: str, question_id: str) -> ThreadAnswer | None:
        """Give the answer, which is another one for every question."""
        sources = tuple(f"news-{number}" for number in range(100))
        return ThreadAnswer(True, True, sources, f"{question_id} {question_id[::-1]}")


def ready_answer_services(stores: Stores) -> tuple[RelevanceDependencies, AnswerService]:
    """Give a tracker plain articles and ready answers."""
    return RelevanceDependencies(read_plain, HashingEmbedder()), ReadyAnswerer()
