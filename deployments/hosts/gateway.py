"""Wires the history tracker to the question repeater: `deployments.hosts.gateway:open_tracker_services`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actors.answers.repeated_questions import QuestionRepeater
from actors.archive.passages import document_from_product
from actors.history.article_relevance import UploadedArticle
from actors.history.messages import AnswerService
from actors.history.news_monitor import RelevanceDependencies
from actors.language.hashing_embedder import HashingEmbedder
from cluster.access_tier import NOBODY, may_read
from cluster.clock import SystemClock
from cluster.records.field_types.times import moment_ms
from cluster.store.stores import Stores

_MOST_PASSAGES = 200


def open_tracker_services(stores: Stores) -> tuple[RelevanceDependencies, AnswerService]:
    """Return the configuration of the content monitor, and the service that answers questions again."""
    return RelevanceDependencies(read_article, HashingEmbedder()), open_answering(stores)


def open_answering(stores: Stores) -> AnswerService:
    """Return the service that answers the questions of threads again."""
    return QuestionRepeater(stores.questions, SystemClock())


def read_article(record: Mapping[str, Any]) -> UploadedArticle | None:
    """Read a stored product as an article; return None if it has no text, is excluded from answers, or locked."""
    document = document_from_product(record)
    if document is None or not may_read(document.access, NOBODY):
        return None
    passages = tuple(document.passage_text(passage) for passage in document.passages[:_MOST_PASSAGES])
    published_ms = _moment(document.published)
    return UploadedArticle(document.product_id, document.title, passages, document.language, published_ms)


def _moment(text: str) -> int | None:
    """Parse a day or a time to milliseconds; a day counts as its end, so no article of today is old."""
    try:
        return moment_ms(f"{text}T23:59:59" if len(text) == len("2026-03-02") else text) if text else None
    except ValueError:
        return None
