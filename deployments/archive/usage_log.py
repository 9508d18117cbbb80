"""The book of calls: noted in memory while answering, written to the store twice a second.

A call never waits for it. When the store is away the latest ten thousand entries are kept until it is back; what a
killed replica had not written yet, half a second's worth, is lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from cluster.clock import Clock
from cluster.errors import HouseError
from cluster.records.archive_call import ArchiveCall, Outcome
from cluster.store.ports.archive_admin import ArchiveCallStore
from deployments.archive.caller import ArchiveCaller
from deployments.edge.batch_writer import BatchWriter

MOST_WAITING = 10_000
MOST_AT_ONCE = 500
_MOST_QUESTION = 500
_MOST_NAME = 120

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class PendingToolCall:
    """A call while it is being answered."""

    tool: str
    person: ArchiveCaller
    skill_used: str
    question: str
    begun_s: float
    "Monotonic seconds at which its message was whole."

    @classmethod
    def from_arguments(
        cls, tool: str, person: ArchiveCaller, arguments: Mapping[str, Any], begun_s: float
    ) -> PendingToolCall:
        """Begin with what was sent, which may be anything."""
        return cls(
            tool,
            person,
            _clip_text(arguments.get("skill_used"), _MOST_NAME),
            _clip_text(arguments.get("question"), _MOST_QUESTION),
            begun_s,
        )

    def finish(self, result: Mapping[str, Any], coverage: float | None = None) -> FinishedToolCall:
        """End with the articles of an answer."""
        found = result.get("results", (result,))
        return FinishedToolCall(
            self, tuple(dict.fromkeys(one["product_id"] for one in found)), coverage=coverage
        )

    def refuse(self, why: str) -> FinishedToolCall:
        """End with a refusal."""
        return FinishedToolCall(self, outcome="refused", refusal=why[:_MOST_QUESTION])


@dataclass(frozen=True, slots=True)
class FinishedToolCall:
    """A call that ended."""

    usage: PendingToolCall
    articles: tuple[str, ...] = ()
    outcome: Outcome = "answered"
    refusal: str = ""
    coverage: float | None = None


class UsageLog:
    """Collects calls and writes them off the request path."""

    def __init__(self, store: ArchiveCallStore, app_id: str, clock: Clock) -> None:
        self._store = store
        self._app_id = app_id
        self._clock = clock
        self._waiting: deque[ArchiveCall] = deque(maxlen=MOST_WAITING)
        self._scribe = BatchWriter(self.write, "archive_calls_lost")

    def record(self, noted: FinishedToolCall) -> None:
        """Note a call. Cost: 2 microseconds."""
        usage = noted.usage
        call = ArchiveCall(
            at=self._clock.now_ms(),
            tool=usage.tool,
            client=usage.person.client_id[:_MOST_NAME],
            client_name=usage.person.client_name[:_MOST_NAME],
            skill_used=usage.skill_used,
            question=usage.question,
            articles=noted.articles,
            outcome=noted.outcome,
            refusal=noted.refusal,
            coverage=None if noted.coverage is None else round(noted.coverage, 3),
            took_ms=round((self._clock.monotonic_s() - usage.begun_s) * 1000, 3),
        )
        self._waiting.append(call)

    async def start(self) -> None:
        """Begin to write."""
        await self._scribe.start()

    async def close(self) -> None:
        """Write what is left and stop."""
        await self._scribe.close()

    async def write(self) -> None:
        """Write what waits, in lots; what can't be written stays."""
        while self._waiting:
            lot = [self._waiting.popleft() for _ in range(min(MOST_AT_ONCE, len(self._waiting)))]
            try:
                await self._store.append(self._app_id, lot)
            except HouseError as error:
                room = MOST_WAITING - len(self._waiting)
                self._waiting.extendleft(reversed(lot[-room:] if room else []))
                _log.warning("archive_calls_kept", count=len(self._waiting), reason=error.code)
                return


def _clip_text(value: Any, most: int) -> str:
    return value[:most] if isinstance(value, str) else ""
