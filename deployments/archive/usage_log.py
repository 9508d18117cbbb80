"""The log of archive calls: calls of tools, questions of `/v1/ask`, and visits of the articles that they linked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cluster import ids
from cluster.clock import Clock
from cluster.meter import Meter, SilentMeter
from cluster.records.apps import AppSettings
from cluster.records.archive.archive_client import API_CLIENT, ASK_QUESTION, ArchiveCall, Outcome
from cluster.records.question import Answer, Question
from cluster.store.archive.log_stream import LogStream
from deployments.archive.admission import ArchiveCaller
from deployments.archive.call_context import PLAIN, CallContext
from deployments.edge.batch_writer import BatchWriter, split_by_app

MOST_AT_ONCE = 40
"A batch of 40 calls is about 30 KB."
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
    call_id: str

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
            ids.new_request_id(),
        )

    def finish(
        self,
        articles: Iterable[str],
        coverage: float | None = None,
        reply_bytes: int = 0,
        context: CallContext = PLAIN,
    ) -> FinishedToolCall:
        """Return the finished call with the product ids of an answer."""
        return FinishedToolCall(
            self,
            # Several passages of one article count once, at the place of the first.
            tuple(dict.fromkeys(articles)),
            coverage=coverage,
            reply_bytes=reply_bytes,
            context=context,
        )

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
    reply_bytes: int = 0
    context: CallContext = PLAIN


@dataclass(frozen=True, slots=True)
class _PendingRow:
    app_id: str
    call: ArchiveCall


class UsageLog(BatchWriter[_PendingRow]):
    """Collects calls and writes them off the request path."""

    def __init__(
        self,
        store: LogStream[ArchiveCall],
        find_app: Callable[[], str],
        clock: Clock,
        on_call: Callable[[str, ArchiveCall], None] = lambda app_id, call: None,
        find_settings: Callable[[str], AppSettings] = lambda app_id: AppSettings(),
        meter: Meter | None = None,
    ) -> None:
        """`on_call` gets each call of a tool with its app: the log of answers."""
        super().__init__("archive_calls")
        self._on_call = on_call
        self._store = store
        self._find_app = find_app
        self._find_settings = find_settings
        self._clock = clock
        self._meter = meter or SilentMeter()

    def record(self, call: FinishedToolCall) -> None:
        """Record a call. Cost: 3 microseconds."""
        usage = call.usage
        app_id = self._find_app()
        context = call.context
        row = ArchiveCall(
            at=self._clock.now_ms(),
            tool=usage.tool,
            client=usage.person.client_id[:_MOST_NAME],
            client_name=usage.person.client_name[:_MOST_NAME],
            skill_used=usage.skill_used,
            question=usage.question if self._keeps_questions(app_id) else "",
            articles=call.articles,
            outcome=call.outcome,
            refusal=call.refusal,
            coverage=None if call.coverage is None else round(call.coverage, 3),
            took_ms=round((self._clock.monotonic_s() - usage.begun_s) * 1000, 3),
            signature=usage.person.signature,
            agent=usage.person.agent[:_MOST_NAME],
            call_id=usage.call_id,
            question_id=context.question_id,
            host=usage.person.client_host[:_MOST_NAME],
            reply_bytes=call.reply_bytes,
            marked=context.links is not None,
            experiments=context.experiments,
        )
        self.put(_PendingRow(app_id, row))
        self._on_call(app_id, row)

    def record_question(self, question: Question, answer: Answer, model_tokens: int = 0) -> None:
        """Record a question of `/v1/ask` and its answer."""
        if question.generation is not None or question.is_automated:
            return
        is_answered = answer.finish_reason == "success"
        # A row names nobody, so an erasure would not reach the words of a person.
        is_kept = not (question.user_id or question.anonymous_id) and self._keeps_questions(question.app_id)
        now_ms = self._clock.now_ms()
        row = ArchiveCall(
            at=now_ms,
            tool=ASK_QUESTION,
            client="",
            client_name=API_CLIENT,
            question=question.text[:_MOST_QUESTION] if is_kept else "",
            articles=tuple(dict.fromkeys(passage.product_id for passage in answer.passages)),
            outcome="answered" if is_answered else "refused",
            refusal="" if is_answered else (answer.blocked_reason or answer.finish_reason)[:_MOST_QUESTION],
            took_ms=float(now_ms - question.asked_at),
            call_id=question.question_id,
            question_id=question.question_id,
            reply_bytes=sum(len(sentence.text.encode()) for sentence in answer.sentences),
            model_tokens=model_tokens,
        )
        self.put(_PendingRow(question.app_id, row))

    def record_visit(self, app_id: str, call_id: str, product_id: str) -> None:
        """Record that a user followed the link of a call to an article."""
        row = ArchiveCall(
            self._clock.now_ms(), "", "", "", articles=(product_id,), event="visit", call_id=call_id
        )
        self.put(_PendingRow(app_id, row))

    def split(self, entries: Sequence[_PendingRow]) -> Iterable[Sequence[_PendingRow]]:
        return split_by_app(entries, MOST_AT_ONCE)

    async def write_batch(self, batch: Sequence[_PendingRow]) -> None:
        if not await self._store.append(batch[0].app_id, [pending.call for pending in batch]):
            # The intake does not compact those of this app now; other apps do not wait for it.
            self._put_back(batch)

    def count_dropped(self, count: int) -> None:
        self._meter.count("kiosk_archive_calls_lost", count)

    def _keeps_questions(self, app_id: str) -> bool:
        return self._find_settings(app_id).query_log != "off"


def _clip_text(value: Any, most: int) -> str:
    return value[:most] if isinstance(value, str) else ""
