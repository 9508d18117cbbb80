"""The question bank: replaced by its owner, completed while readers type.

Source: reference 8.10, endpoints 49 and 50
"""

from __future__ import annotations

from collections.abc import Callable

from pydantic import ValidationError

from actors.search.client import QuestionBankClient
from cluster.ids import ServiceId
from cluster.store.ports.question_bank import QuestionBankStore
from deployments.api.wire.faults import unprocessable_from
from deployments.api.wire.qa import MOST_COMPLETIONS, QuestionAutocomplete, QuestionBank
from deployments.edge.envelope import Reply, dumps, result, success
from deployments.edge.request import ApiRequest


class QuestionBankResource:
    """Endpoints 49 and 50."""

    def __init__(
        self, store: QuestionBankStore, banks: QuestionBankClient, new_service_id: Callable[[], ServiceId]
    ) -> None:
        self._store = store
        self._banks = banks
        self._new_service_id = new_service_id

    def read_bank(self, request: ApiRequest) -> QuestionBank:
        """Read the body of an upload."""
        try:
            return QuestionBank.model_validate(request.payload)
        except ValidationError as error:
            raise unprocessable_from(error) from error

    async def replace(self, request: ApiRequest) -> Reply:
        """Replace the bank."""
        bank: QuestionBank = request.parsed
        await self._store.replace(request.app_id, [entry.record() for entry in bank.data])
        return success({"took": request.took_ms(), "service_id": self._new_service_id()})

    def read_typed(self, request: ApiRequest) -> QuestionAutocomplete:
        """Read the body of a completion."""
        try:
            return QuestionAutocomplete.model_validate(request.payload)
        except ValidationError as error:
            raise unprocessable_from(error) from error

    async def complete(self, request: ApiRequest) -> Reply:
        """Complete a question."""
        asked: QuestionAutocomplete = request.parsed
        found = await self._banks.complete(request.app_id, asked.q[:MOST_COMPLETIONS], asked.rows)
        return result(
            "completions",
            dumps([{"question": one.question, "weight": one.weight} for one in found]),
            took_ms=request.took_ms(),
            service_id=self._new_service_id(),
            alias=request.credential.app.settings.service_id_response_alias,
        )
