"""The log of the calls of archive tools, for the usage report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster.clock import Clock
from cluster.records.archive_client import ArchiveCall, Outcome
from cluster.store.archive.archive_calls import ArchiveCallStore
from deployments.archive.admission import ArchiveCaller
from deployments.edge.batch_writer import BatchWriter

MOST_AT_ONCE = 500
_MOST_QUESTION = 500
_MOST_NAME = 120


@dataclass(frozen=True, slots=True)
class PendingToolCall:
    """A call in progress."""

    tool: str
    person: ArchiveCaller
    skill_used: str
    question: str
    begun_s: float
    "Monotonic seconds at which its message was complete."

    @classmethod
    def from_arguments(
        cls, tool: str, person: ArchiveCaller, arguments: Mapping[str, Any], begun_s: float
    ) -> PendingToolCall:
        """Return a pending call with its arguments, which may be invalid."""
        return cls(
            tool,
            person,
            _clip_text(arguments.get("skill_used"), _MOST_NAME),
            _clip_text(arguments.get("question", arguments.get("query")), _MOST_QUESTION),
            begun_s,
        )

    def finish(self, articles: Iterable[str], coverage: float | None = None) -> FinishedToolCall:
        """Return the finished call with the product ids of an answer."""
        return FinishedToolCall(self, tuple(dict.fromkeys(articles)), coverage=coverage)

    def refuse(self, why: str) -> FinishedToolCall:
        """Return the finished call with a refusal."""
        return FinishedToolCall(self, outcome="refused", refusal=why[:_MOST_QUESTION])


@dataclass(frozen=True, slots=True)
class FinishedToolCall:
    """A finished call."""

    usage: PendingToolCall
    articles: tuple[str, ...] = ()
    outcome: Outcome = "answered"
    refusal: str = ""
    coverage: float | None = None


class UsageLog(BatchWriter[ArchiveCall]):
    """Collects calls and writes them off the request path."""

    def __init__(
        self,
        store: ArchiveCallStore,
        find_app: Callable[[], str],
        clock: Clock,
        on_call: Callable[[str, ArchiveCall], None] = lambda app_id, call: None,
    ) -> None:
        """`on_call` gets each call with its app: the log of answers."""
        super().__init__("archive_calls")
        self._on_call = on_call
        self._store = store
        self._find_app = find_app
        self._clock = clock

    def record(self, call: FinishedToolCall) -> None:
        """Record a call. Cost: 2 microseconds."""
        usage = call.usage
        row = ArchiveCall(
            at=self._clock.now_ms(),
            tool=usage.tool,
            client=usage.person.client_id[:_MOST_NAME],
            client_name=usage.person.client_name[:_MOST_NAME],
            skill_used=usage.skill_used,
            question=usage.question,
            articles=call.articles,
            outcome=call.outcome,
            refusal=call.refusal,
            coverage=None if call.coverage is None else round(call.coverage, 3),
            took_ms=round((self._clock.monotonic_s() - usage.begun_s) * 1000, 3),
            signature=usage.person.signature,
            agent=usage.person.agent[:_MOST_NAME],
        )
        self.put(row)
        self._on_call(self._find_app(), row)

    def split(self, entries: Sequence[ArchiveCall]) -> Iterable[Sequence[ArchiveCall]]:
        return (entries[start : start + MOST_AT_ONCE] for start in range(0, len(entries), MOST_AT_ONCE))

    async def write_batch(self, batch: Sequence[ArchiveCall]) -> None:
        await self._store.append(self._find_app(), list(batch))


def _clip_text(value: Any, most: int) -> str:
    return value[:most] if isinstance(value, str) else ""
