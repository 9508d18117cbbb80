"""The stores of search in dictionaries."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Sequence

from cluster.clock import Clock
from cluster.records.logged_query import LoggedQuery
from cluster.records.question import BankQuestion
from cluster.store.archive.query_log import MOST_BATCHES, QueryBatch, QueryStore
from cluster.store.archive.question_bank import QuestionBankContents, QuestionBankStore
from cluster.store.data.salts import SALT_BYTES


class MemoryQueries(QueryStore):
    """`QueryStore` in dictionaries."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lots: dict[str, deque[tuple[tuple[int, int], QueryBatch]]] = {}
        self._last = (0, 0)
        self._salts: dict[str, bytes] = {}

    async def append(self, app_id: str, queries: Sequence[LoggedQuery]) -> None:
        if not queries:
            return
        self._last = max((max(self._clock.now_ms(), 0), 0), (self._last[0], self._last[1] + 1))
        batch = QueryBatch(f"{self._last[0]}-{self._last[1]}", tuple(queries))
        self._lots.setdefault(app_id, deque(maxlen=MOST_BATCHES)).append((self._last, batch))

    async def read(self, app_id: str, after: str, *, count: int) -> list[QueryBatch]:
        first = _place(after)
        return [batch for at, batch in self._lots.get(app_id, ()) if at > first][:count]

    async def trim(self, app_id: str, upto: str) -> None:
        lots, last = self._lots.get(app_id, deque()), _place(upto)
        while lots and lots[0][0] <= last:
            lots.popleft()

    async def salt(self, app_id: str) -> bytes:
        return self._salts.setdefault(app_id, secrets.token_bytes(SALT_BYTES))


class MemoryQuestionBank(QuestionBankStore):
    """`QuestionBankStore` in dictionaries."""

    def __init__(self) -> None:
        self._banks: dict[str, QuestionBankContents] = {}

    async def replace(self, app_id: str, questions: Sequence[BankQuestion]) -> int:
        version = await self.version(app_id) + 1
        self._banks[app_id] = QuestionBankContents(version, tuple(questions))
        return version

    async def version(self, app_id: str) -> int:
        return self._banks[app_id].version if app_id in self._banks else 0

    async def load(self, app_id: str) -> QuestionBankContents:
        return self._banks.get(app_id, QuestionBankContents(0, ()))


def _place(offset: str) -> tuple[int, int]:
    ms, _, n = offset.partition("-")
    return int(ms), int(n or 0)
