"""Fill `suggested_queries` up with questions of the bank, behind what readers searched for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from actors.recommender.messages import UserQuery
from actors.search.client import QuestionBankClient
from actors.serving.client import RecommenderClient
from cluster.errors import Unavailable

FIELD = "suggested_queries"
MOST_ASKED = 500
"Characters of what was typed that a bank is asked for."

Completions = Mapping[str, list[dict[str, Any]]]


class QuestionBankSuggestions:
    """Questions of the bank as completions."""

    def __init__(self, banks: QuestionBankClient, recommender: RecommenderClient) -> None:
        self._banks = banks
        self._recommender = recommender

    async def fill(self, query: UserQuery, completions: Completions) -> Completions:
        """Add questions to the page of a query when popular queries do not fill it.

        Cost:
            one read of a counter, only for this field and a page that is not full
        """
        found = completions.get(FIELD)
        if found is None or len(found) >= query.rows:
            return completions
        if query.start:
            # what stands on earlier pages is not repeated
            whole = replace(query, completion_fields=(FIELD,), start=0, rows=query.start + query.rows)
            found = list((await self._recommender.answer(whole)).completions.get(FIELD, ()))
        try:
            listed = await self._add_questions(query, found)
        except Unavailable:
            return completions
        return {**completions, FIELD: listed[query.start : query.start + query.rows]}

    async def _add_questions(self, query: UserQuery, found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        beside = [one["text"] for one in found]
        wanted = query.start + query.rows
        questions = await self._banks.suggest(query.app_id, query.typed[:MOST_ASKED], wanted, beside)
        return [*found, *questions]
