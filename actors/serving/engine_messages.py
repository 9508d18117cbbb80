"""The messages between API replicas and dedicated engines, on the Serve handle and on local channels.

The names are a format: a class may be renamed, its name on the wire may not. The default of a new field must
give a message of an older release its original meaning.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from actors.recommender.messages import (
    Boost,
    Circle,
    DiversityRule,
    Interleaving,
    Placements,
    RecommendationResult,
    RecommendedGroup,
    UserQuery,
)
from actors.retrieval.messages import (
    Anchoring,
    AnswerQuery,
    AnswerResult,
    Facet,
    FacetFilter,
    OrderKey,
    SearchQuery,
    SearchResult,
    SpellingResult,
)
from cluster.errors import NewerRelease, Refusal
from cluster.message_codec import MessageCodec
from cluster.query.language import tree
from cluster.records.interaction import RecentEvent

ENGINE_MESSAGES: Final = MessageCodec({
    "UserQuery": UserQuery, "Boost": Boost, "Circle": Circle, "DiversityRule": DiversityRule,
    "RecentEvent": RecentEvent, "SearchQuery": SearchQuery, "OrderKey": OrderKey, "Facet": Facet,
    "FacetFilter": FacetFilter, "Anchoring": Anchoring, "AnswerQuery": AnswerQuery,
    "Term": tree.Term, "Phrase": tree.Phrase, "Wildcard": tree.Wildcard, "Regex": tree.Regex,
    "Exists": tree.Exists, "Range": tree.Range, "All": tree.All, "Any": tree.Any, "Not": tree.Not,
    "Everything": tree.Everything,
    "RecommendationResult": RecommendationResult, "RecommendedGroup": RecommendedGroup,
    "Placements": Placements, "Interleaving": Interleaving,
    "SearchResult": SearchResult, "SpellingResult": SpellingResult, "AnswerResult": AnswerResult,
    "Refusal": Refusal,
})  # fmt: skip

AnswerEngineQuery = Callable[[UserQuery], Awaitable[RecommendationResult | Refusal]]


async def answer_message(answer: AnswerEngineQuery, payload: bytes) -> bytes:
    """Return the encoded result of an encoded query; one that this release can't read is refused."""
    try:
        query = ENGINE_MESSAGES.decode(payload)
    except NewerRelease as error:
        return ENGINE_MESSAGES.encode(Refusal.of(error))
    if not isinstance(query, UserQuery):
        return ENGINE_MESSAGES.encode(Refusal(NewerRelease.code, "a message to an engine is no query"))
    return ENGINE_MESSAGES.encode(await answer(query))


def open_reply(payload: bytes) -> RecommendationResult:
    """Return the result in a reply of an engine.

    Errors:
        NewerRelease: the engine can't read the query, or this process the reply; another replica may
        KioskError: as the engine refused it
    """
    reply = ENGINE_MESSAGES.decode(payload)
    if isinstance(reply, Refusal):
        raise reply.error()
    if not isinstance(reply, RecommendationResult):
        raise NewerRelease("a reply of an engine is no result", retry_after_s=1)
    return reply
