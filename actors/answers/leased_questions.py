"""Claim and answer questions: new ones, and those of crashed workers.

    ask      one script writes the question with this process's lease; it is answered after the reply
    beat     every two seconds, renew the leases of questions in work
    sweep    claim unfinished questions without a lease, and end late ones

Every process that answers runs one queue. The question store holds all state: a crash loses nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

import structlog

from actors.answers.answer_pipeline import loggable_reason
from actors.answers.leased_answer import LEASE_MS, LeasedAnswer, LeaseLost
from actors.answers.render import answer_to_json
from actors.answers.text_generation import QuestionWorker
from cluster.clock import Clock
from cluster.deadline import run_within
from cluster.errors import KioskError, Unavailable
from cluster.meter import Meter
from cluster.records.question import GENERATED, Answer, Question
from cluster.store.archive.user_questions import QuestionStore, StoredQuestion

MAX_ACTIVE = 32
"Maximal number of questions in work in one process; more wait in the store."
MAX_ATTEMPTS = 3
"Maximal number of workers that crash with a question before it is given up."
RENEW_S = 2.0
SWEEP_S = 1.0

AppIds = Callable[[], Awaitable[Sequence[str]]]
OnTakenOver = Callable[[Question], Awaitable[None]]
"Called with claimed questions: the process before may have crashed before it added them to the user's history."


OnAnswered = Callable[[Question, Answer, int], None]
"Called with finished questions, and the tokens that the language model took."


class QuestionQueue:
    """The questions that one process answers."""

    def __init__(
        self,
        store: QuestionStore,
        answering: QuestionWorker,
        clock: Clock,
        meter: Meter,
        *,
        name: str,
        app_ids: AppIds,
        begun: OnTakenOver | None = None,
        answered: OnAnswered | None = None,
        open_first: bool = False,
    ) -> None:
        """`open_first`: entitled answers wait for the open ones of their questions, which so take no longer."""
        self._store = store
        self._answering = answering
        self._clock = clock
        self._meter = meter
        self._name = name
        self._app_ids = app_ids
        self._begun = begun
        self._answered = answered
        self._most = MAX_ACTIVE
        self._open_first = open_first
        self._hands: dict[str, LeasedAnswer] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._loops: list[asyncio.Task[None]] = []
        self._log = structlog.get_logger()

    async def start(self) -> None:
        """Start to renew leases and to sweep."""
        loop = asyncio.get_running_loop()
        self._loops = [
            loop.create_task(self._repeat(RENEW_S, self._renew_leases)),
            loop.create_task(self._repeat(SWEEP_S, self.sweep)),
        ]

    async def close(self) -> None:
        """Stop, and release the questions in work so that other processes continue at once."""
        # Cancelled before the leases are released, so that nobody writes under a lease that is gone.
        tasks = [*self._loops, *self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        left = [hand.release() for hand in self._hands.values()]
        self._hands.clear()
        await asyncio.gather(*left, return_exceptions=True)

    @property
    def active_count(self) -> int:
        """Return the number of questions in work in this process."""
        return len(self._hands)

    async def submit(self, question: Question, entitled: Question | None = None) -> bool:
        """Store a question and begin to answer it; return False when it existed before.

        Its entitled one is stored before it, so that polls see both or none, and begun after it.

        Errors:
            Unavailable, TooMany
        """
        entitled_record = None if entitled is None else await self._store_new(entitled)
        record = await self._store_new(question)
        for recorded in (record, entitled_record):
            if recorded is not None and recorded.attempts:
                self._begin(recorded)
        return record is not None

    async def _store_new(self, question: Question) -> StoredQuestion | None:
        """Store a question, with a lease where there is room; return None when it existed before.

        Without a lease it has no attempts yet, and whoever has room claims it.
        """
        # Without the loops nobody would renew its lease.
        has_room = len(self._hands) < self._most and bool(self._loops)
        until_ms = self._clock.now_ms() + LEASE_MS if has_room else 0
        holder = self._name if has_room else ""
        answer = Answer()
        new = await self._store.ask(
            question, answer, answer_to_json(question, answer), holder=holder, until_ms=until_ms
        )
        return StoredQuestion(question, answer, 1 if has_room else 0) if new else None

    async def refuse(self, question: Question, reason: str) -> bool:
        """Store a question of a user without permission (any more): finished, `forbidden`."""
        answer = Answer(finish_reason="forbidden", blocked_reason=reason)
        shown = answer_to_json(question, answer)
        is_new = await self._store.ask(question, answer, shown, holder="", until_ms=0)
        if is_new and self._answered is not None:
            self._answered(question, answer, 0)
        return is_new

    async def sweep(self) -> None:
        """Claim questions without a lease."""
        for app_id in await self._app_ids():
            room = self._most - len(self._hands)
            if room <= 0:
                return
            now_ms = self._clock.now_ms()
            for question_id in await self._store.list_due(app_id, now_ms=now_ms, count=room):
                if question_id in self._hands:
                    continue  # its lease expired while the store was away; the next renewal takes it back
                claimed = await self._store.claim(
                    app_id, question_id, holder=self._name, now_ms=now_ms, until_ms=now_ms + LEASE_MS
                )
                if claimed is not None:
                    self._meter.count("kiosk_answers_taken_over_total")
                    self._begin(claimed)
                    await self._notify_taken_over(claimed.question)

    async def wait_idle(self) -> None:
        while self._tasks:
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _notify_taken_over(self, question: Question) -> None:
        if self._begun is not None and question.logged and not question.metadata.get(GENERATED):
            with contextlib.suppress(KioskError):
                await self._begun(question)

    def _begin(self, recorded: StoredQuestion) -> None:
        question_id = recorded.question.question_id
        hand = LeasedAnswer(self._store, recorded, self._name, self._clock)
        self._hands[question_id] = hand
        before = self._tasks.get(recorded.question.open_question_id) if self._open_first else None
        task = asyncio.get_running_loop().create_task(self._process(hand, before))
        self._tasks[question_id] = task
        task.add_done_callback(lambda _: self._remove_task(question_id, task))

    def _remove_task(self, question_id: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(question_id) is task:
            del self._tasks[question_id]

    async def _process(self, hand: LeasedAnswer, before: asyncio.Task[None] | None) -> None:
        """Answer a question, or end it; a question that can't even be ended stays for the next sweep."""
        question_id = hand.question.question_id
        try:
            if before is not None:
                await asyncio.wait({before})
            reason = await self._answer_in_time(hand)
            if reason:
                self._log.warning("answer_failed", question_id=question_id, reason=reason)
                self._meter.count("kiosk_answers_failed_total")
                if hand.question.is_entitled:
                    await hand.discard()  # its asker then gets the answer from open articles
                else:
                    await hand.finish(finish_reason="error", sentences=(), passages=())
            if self._answered is not None and hand.answer.finished and not hand.question.is_entitled:
                self._answered(hand.question, hand.answer, hand.model_tokens)
        except LeaseLost:
            self._meter.count("kiosk_answers_lost_total")
        except Unavailable as error:
            self._log.warning("answer_left", question_id=question_id, reason=error.message)
        except asyncio.CancelledError:
            raise
        except Exception:  # noqa: BLE001  one poisonous question must not stop the others
            self._log.exception("answer_left", question_id=question_id)
        self._hands.pop(question_id, None)

    async def _answer_in_time(self, hand: LeasedAnswer) -> str:
        """Answer within the question's deadline; return the reason of a failure."""
        if hand.remaining_s <= 0:
            return "too late"
        # A question that crashes its worker would else crash one after the other for ever.
        if hand.attempts > MAX_ATTEMPTS:
            return "too many attempts"
        try:
            await run_within(self._answering.answer(hand), hand.remaining_s)
        except asyncio.TimeoutError:
            return "too late"
        except (LeaseLost, asyncio.CancelledError):
            raise
        except KioskError as error:
            return error.message or error.code
        except Exception as error:  # noqa: BLE001  told to the asker as an answer that failed
            self._log.exception("answering_failed", question_id=hand.question.question_id)
            return loggable_reason(error)
        return ""

    async def _renew_leases(self) -> None:
        # A copy: questions end while the others are renewed.
        for question_id, hand in list(self._hands.items()):
            task = self._tasks.get(question_id)
            # The lease is lost: another process answers, and what this one would write is refused.
            if task is not None and not await hand.renew() and not hand.answer.finished:
                task.cancel()
                self._hands.pop(question_id, None)

    async def _repeat(self, every_s: float, step: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(every_s)
            try:
                await step()
            except KioskError:
                continue
            except Exception:  # noqa: BLE001  the loop goes on whatever happened in one turn
                self._log.exception("answer_desk_failed")
                self._meter.count("kiosk_answer_desk_failures_total")
