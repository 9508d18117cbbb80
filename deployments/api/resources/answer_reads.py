"""Read stored answers for a user: the entitled answer of the token's user, or else the one for everybody.

The token is checked at each read. So an entitled answer closes with the token that opened it, on every replica, and
its asker gets the answer from open articles instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from cluster.records.question import entitled_answer_id, may_read_all, open_entitled
from cluster.store.archive.user_questions import QuestionStore, StoredQuestion
from deployments.api.http.article_access import tiers_from_verified_token
from deployments.edge.http.credentials import UserToken


async def read_shown(
    store: QuestionStore, app_id: str, question_ids: Sequence[str], token: UserToken | None
) -> list[bytes | None]:
    """Return the public records of answers, in order; None for unknown questions.

    Cost:
        one read of the store for each question, two with a token, all of them at once
    """
    if token is None or not token.user_id:
        if len(question_ids) == 1:
            return [await store.shown(app_id, question_ids[0])]
        return await store.shown_many(app_id, question_ids)
    entitled_ids = [entitled_answer_id(question_id, token.user_id) for question_id in question_ids]
    shown = await store.shown_many(app_id, [*question_ids, *entitled_ids])
    tiers = tiers_from_verified_token(token)
    # `shown` has the entitled answers at its end, so the two lengths differ.
    pairs = zip(shown, shown[len(question_ids) :], strict=False)
    return [
        open_shown if open_shown is None or entitled is None else open_entitled(entitled, tiers) or open_shown
        for open_shown, entitled in pairs
    ]


async def read_answer(
    store: QuestionStore, app_id: str, question_id: str, token: UserToken | None
) -> StoredQuestion | None:
    """Return a question with its answer for the token's user; None for an unknown question."""
    if token is None or not token.user_id:
        return await store.read(app_id, question_id)
    stored, entitled = await asyncio.gather(
        store.read(app_id, question_id), store.read(app_id, entitled_answer_id(question_id, token.user_id))
    )
    if (
        stored is None
        or entitled is None
        or not may_read_all(entitled.answer.access, tiers_from_verified_token(token))
    ):
        return stored
    return entitled
