"""The stores of search in dictionaries."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cluster.clock import Clock
from cluster.records.question import BankQuestion
from cluster.store.archive.log_stream import MOST_BATCHES, LogBatch, LogStream, Row, RowType
from cluster.store.archive.question_bank import QuestionBankContents, QuestionBankStore
from cluster.store.data.salts import SALT_BYTES


class MemoryLogStream(LogStream[Row]):
    """`LogStream` in dictionaries."""

    def __init__(self, clock: Clock, row_type: RowType[Row] | None = None) -> None:
        """`row_type` reads rows that are appended as fields."""
        self._clock = clock
        self._fields_type = row_type
        self._lots: dict[str, list[tuple[tuple[int, int], LogBatch[Row]]]] = {}
        self._last = (0, 0)
        self._app_salts: dict[str, bytes] = {}

    async def append(self, app_id: str, rows: Sequence[Row | Mapping[str, Any]]) -> bool:
        if not rows:
            return True
        if len(self._lots.get(app_id, ())) >= MOST_BATCHES:
            return False
        self._last = max((max(self._clock.now_ms(), 0), 0), (self._last[0], self._last[1] + 1))
        batch = LogBatch(f"{self._last[0]}-{self._last[1]}", tuple(map(self._read_row, rows)))
        self._lots.setdefault(app_id, []).append((self._last, batch))
        return True

    def _read_row(self, given: Row | Mapping[str, Any]) -> Row:
        if not isinstance(given, Mapping):
            return given
        assert self._fields_type is not None
        row = self._fields_type.from_dict(given)
        assert row is not None
        return row

    async def newest_offset(self, app_id: str) -> str:
        lots = self._lots.get(app_id)
        return lots[-1][1].offset if lots else "0-0"

    async def read(self, app_id: str, after: str, *, count: int) -> list[LogBatch[Row]]:
        first = _place(after)
        return [batch for at, batch in self._lots.get(app_id, ()) if at > first][:count]

    async def read_all(
        self, app_id: str, after: str, is_selected: Callable[[Row], bool] = lambda row: True
    ) -> list[Row]:
        batches = await self.read(app_id, after, count=MOST_BATCHES)
        return [row for batch in batches for row in batch.rows if is_selected(row)]

    async def trim(self, app_id: str, upto: str) -> None:
        last = _place(upto)
        self._lots[app_id] = [(at, batch) for at, batch in self._lots.get(app_id, ()) if at > last]

    def set_salt(self, app_id: str, salt: bytes) -> None:
        """Set the salt of an app, so that runs of a test have the same pseudonyms."""
        self._app_salts[app_id] = salt

    async def salt(self, app_id: str) -> bytes:
        return self._app_salts.setdefault(app_id, secrets.token_bytes(SALT_BYTES))


class MemoryQuestionBank(QuestionBankStore):
    """`QuestionBankStore` in dictionaries."""

    def __init__(self) -> None:
        self._banks: dict[str, QuestionBankContents] = {}

    async def replace(
        self, app_id: str, questions: Sequence[BankQuestion], *, expected: int | None = None
    ) -> int:
        before = await self.version(app_id)
        if expected not in (None, before):
            return 0
        version = before + 1
        self._banks[app_id] = QuestionBankContents(version, tuple(questions))
        return version

    async def version(self, app_id: str) -> int:
        return self._banks[app_id].version if app_id in self._banks else 0

    async def load(self, app_id: str) -> QuestionBankContents:
        return self._banks.get(app_id, QuestionBankContents(0, ()))


def _place(offset: str) -> tuple[int, int]:
    ms, _, n = offset.partition("-")
    return int(ms), int(n or 0)
