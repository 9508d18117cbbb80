"""Question banks: a list of batches for each app, written and read whole."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import orjson
import structlog
from pydantic import ValidationError

from cluster.records.question import BankQuestion
from cluster.store import keys
from cluster.store.client.redis_client import RedisClient
from cluster.store.client.script import Script
from cluster.store.seals.seal import salt_from_key, seal, unseal


@dataclass(frozen=True, slots=True)
class QuestionBankContents:
    """All questions of an app, and their version."""

    version: int
    questions: tuple[BankQuestion, ...]


_BATCH_SIZE = 500
"Questions in a batch."
_REPLACE = Script.load("replace_bank")
_READ = Script.load("read_bank")

_log = structlog.get_logger()


class QuestionBankStore:
    """Question banks, one for each app, written and read whole."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def replace(
        self, app_id: str, questions: Sequence[BankQuestion], *, expected: int | None = None
    ) -> int:
        """Replace all questions of an app; return the new version, or 0 and write nothing if the bank has another
        version than `expected`."""
        name = keys.question_bank(app_id)
        lots = [questions[at : at + _BATCH_SIZE] for at in range(0, len(questions), _BATCH_SIZE)]
        sealed = [
            seal(orjson.dumps([question.model_dump() for question in batch]), salt_from_key(name, str(at)))
            for at, batch in enumerate(lots)
        ]
        args = ["" if expected is None else expected, *sealed]
        return int(await self._server.run(_REPLACE, [name, keys.question_bank_version(app_id)], args))

    async def version(self, app_id: str) -> int:
        """Return the counter that every replacement increments; 0 before the first."""
        return int(await self._server.execute("GET", keys.question_bank_version(app_id)) or 0)

    async def load(self, app_id: str) -> QuestionBankContents:
        """Return the bank without its damaged questions."""
        name = keys.question_bank(app_id)
        version, *lots = await self._server.run(_READ, [name, keys.question_bank_version(app_id)], [])
        # 2 microseconds a question: a large bank would hold up everything else on the event loop.
        questions = await asyncio.to_thread(_open, app_id, lots) if len(lots) > 2 else _open(app_id, lots)
        return QuestionBankContents(int(version), questions)


def _open(app_id: str, lots: Sequence[bytes]) -> tuple[BankQuestion, ...]:
    """Return the questions of sealed batches, without damaged ones."""
    name = keys.question_bank(app_id)
    questions: list[BankQuestion] = []
    for at, sealed in enumerate(lots):
        body = unseal(sealed, salt_from_key(name, str(at)))
        try:
            if body is not None:
                questions += [BankQuestion.model_validate(fields) for fields in orjson.loads(body)]
                continue
        except (ValidationError, orjson.JSONDecodeError):
            pass
        _log.error("question_bank_damaged", app=app_id, lot=at)
    return tuple(questions)
