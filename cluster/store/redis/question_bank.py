"""Question banks over Redis: a list of batches for each app, written and read whole."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import orjson
import structlog
from pydantic import ValidationError

from cluster.records.question import BankQuestion
from cluster.store import keys
from cluster.store.ports.question_bank import QuestionBankContents
from cluster.store.redis.client import RedisClient
from cluster.store.redis.script import Script
from cluster.store.redis.seal import salt_from_key, seal, unseal

_BATCH_SIZE = 500
"Questions in a batch."
_REPLACE = Script.load("replace_bank")
_READ = Script.load("read_bank")

_log = structlog.get_logger()


class RedisQuestionBank:
    """`QuestionBankStore` over Redis."""

    def __init__(self, server: RedisClient) -> None:
        self._server = server

    async def replace(self, app_id: str, questions: Sequence[BankQuestion]) -> int:
        name = keys.question_bank(app_id)
        lots = [questions[at : at + _BATCH_SIZE] for at in range(0, len(questions), _BATCH_SIZE)]
        sealed = [
            seal(orjson.dumps([one.model_dump() for one in lot]), salt_from_key(name, str(at)))
            for at, lot in enumerate(lots)
        ]
        return int(await self._server.run(_REPLACE, [name, keys.question_bank_version(app_id)], sealed))

    async def version(self, app_id: str) -> int:
        return int(await self._server.execute("GET", keys.question_bank_version(app_id)) or 0)

    async def load(self, app_id: str) -> QuestionBankContents:
        name = keys.question_bank(app_id)
        version, *lots = await self._server.run(_READ, [name, keys.question_bank_version(app_id)], [])
        # 2 microseconds a question: a large bank would hold up everything else on the event loop.
        found = await asyncio.to_thread(_open, app_id, lots) if len(lots) > 2 else _open(app_id, lots)
        return QuestionBankContents(int(version), found)


def _open(app_id: str, lots: Sequence[bytes]) -> tuple[BankQuestion, ...]:
    """Return the questions of sealed batches, without damaged ones."""
    name = keys.question_bank(app_id)
    found: list[BankQuestion] = []
    for at, sealed in enumerate(lots):
        body = unseal(sealed, salt_from_key(name, str(at)))
        try:
            if body is not None:
                found += [BankQuestion.model_validate(one) for one in orjson.loads(body)]
                continue
        except (ValidationError, orjson.JSONDecodeError):
            pass
        _log.error("question_bank_damaged", app=app_id, lot=at)
    return tuple(found)
