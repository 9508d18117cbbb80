"""Turn news of a thread into a notification: ask the question again, wait for the answer, append or drop it.

    waiting -> asked -> told       the answer cites the new content and differs from the answer before
                     -> dropped    it does not, or there was no answer; the thread stores the reason

Every step is written before the next, and can be repeated. After a crash, the notifier resumes at the stored step: no
news is lost, and no update is appended twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import structlog

from actors.history import threads as rules
from actors.history.messages import AnswerService
from actors.history.tracker import ThreadTracker
from actors.history.watched_thread_index import ThreadKey, WatchedThreadIndex
from cluster.clock import Clock
from cluster.errors import TooMany
from cluster.meter import Meter
from cluster.records.thread import News, Thread, ThreadAnswer, UserThreads

MAX_OPEN_QUESTIONS = 4
"Repeated questions of one app that are in work at the same time; users who wait for answers have priority."
ANSWER_TIMEOUT_MS = 120_000
"Time limit of an answer."
MAX_REPEATED_SHARE = 0.9
"Share of a new answer's words that the old answer contains; from this share on it is not new."

_MARK = re.compile(r"\[\d{1,4}\](?:\([^()<\[]{0,200}\))?|<[^<>]{1,80}>")
_log = structlog.get_logger()


class UpdateNotifier:
    """Repeats the questions of threads with news and appends the answers."""

    def __init__(
        self,
        app_id: str,
        tracker: ThreadTracker,
        answering: AnswerService,
        watched_threads: WatchedThreadIndex,
        clock: Clock,
        meter: Meter,
    ) -> None:
        self._app_id = app_id
        self._tracker = tracker
        self._answering = answering
        self._watched_threads = watched_threads
        self._clock = clock
        self._meter = meter
        self._submitted_at: dict[str, int] = {}
        "Question -> time at which this process submitted it."

    async def run_once(self) -> int:
        """Advance all news by one step; return how many threads still wait."""
        waiting = self._watched_threads.list_waiting()
        going = [entry for entry in waiting if entry[1].news is not None and entry[1].news.state == "asked"]
        now_ms = self._clock.now_ms()
        due = [
            (name, thread)
            for name, thread in waiting
            if thread.news is not None and thread.news.state == "waiting" and thread.news.due_ms <= now_ms
        ]
        for name, thread in going:
            await self._check_answer(name, thread)
        for name, thread in due[: max(0, MAX_OPEN_QUESTIONS - len(going))]:
            await self._begin(name, thread)
        open_ids = {thread.news.question_id for _, thread in waiting if thread.news is not None}
        # A question ends with its answer, or with its thread or subscription.
        self._submitted_at = {
            question_id: at_ms for question_id, at_ms in self._submitted_at.items() if question_id in open_ids
        }
        return len(waiting)

    async def _begin(self, name: ThreadKey, thread: Thread) -> None:
        news = thread.news
        assert news is not None
        # Stored before the question is asked: after a crash it is asked again under the same id.
        await self._apply(
            name, lambda user_threads: rules.start_question(user_threads, name[1], news.question_id)
        )
        await self._ask(name, thread, news)

    async def _ask(self, name: ThreadKey, thread: Thread, news: News) -> None:
        # Read again: the monitor learns only at its next full reload that a user left, or was erased.
        user_threads = await self._apply(name, lambda user_threads: user_threads)
        current = user_threads.threads.get(name[1])
        if current is None or current.news is None or current.news.question_id != news.question_id:
            return
        try:
            await self._answering.ask(
                self._app_id, name[0], thread.subject, thread.question_ids[-1], news.question_id
            )
        except TooMany:
            # The news stays as it is, and a later round asks again.
            return
        self._submitted_at[news.question_id] = self._clock.now_ms()
        self._meter.count("kiosk_thread_questions_total")

    async def _check_answer(self, name: ThreadKey, thread: Thread) -> None:
        news = thread.news
        assert news is not None
        answer = await self._answering.get_progress(self._app_id, news.question_id)
        # After a restart the time of the submission is unknown, so the limit begins anew.
        submitted_ms = self._submitted_at.setdefault(news.question_id, self._clock.now_ms())
        if answer is None or not answer.finished:
            if self._clock.now_ms() - submitted_ms > ANSWER_TIMEOUT_MS:
                await self._drop(name, news, "no answer came in time")
            elif answer is None:
                await self._ask(name, thread, news)
            return
        before = await self._answering.get_progress(self._app_id, thread.question_ids[-1])
        why_not = reason_not_new(news, answer, before)
        if why_not:
            await self._drop(name, news, why_not)
            return
        now_ms = self._clock.now_ms()
        await self._apply(
            name,
            lambda user_threads: rules.append_update(
                user_threads, name[1], news.question_id, news.offset, now_ms
            ),
        )
        self._meter.count("kiosk_thread_updates_total")
        _log.info(
            "thread_updated",
            app=self._app_id,
            thread=name[1],
            question=news.question_id,
            score=round(news.score, 3),
            reason=news.reason,
            took_ms=now_ms - news.found_ms,
        )

    async def _drop(self, name: ThreadKey, news: News, reason: str) -> None:
        await self._apply(
            name, lambda user_threads: rules.drop_news(user_threads, name[1], news.question_id, reason)
        )
        self._meter.count("kiosk_thread_drops_total")
        _log.info("news_dropped", app=self._app_id, thread=name[1], score=round(news.score, 3), reason=reason)

    async def _apply(self, name: ThreadKey, rule: Callable[[UserThreads], UserThreads]) -> UserThreads:
        user_threads = await self._tracker.apply(self._app_id, name[0], rule)
        self._watched_threads.put(name[0], user_threads)
        return user_threads


def reason_not_new(news: News, answer: ThreadAnswer, before: ThreadAnswer | None) -> str:
    """Return why an answer is no update; empty when it is one."""
    if not answer.has_answer:
        return "the archive still does not answer the question"
    cited = set(answer.sources)
    fresh = cited - set(before.sources if before is not None else ())
    # Only some of many new products are listed, so another new source counts as one of them then.
    if not cited & set(news.product_ids) and not (fresh and len(news.product_ids) >= rules.MAX_PRODUCTS):
        return "the new answer does not rest on what is new"
    if before is not None and before.text:
        new_words = _words(answer.text)
        old_words = _words(before.text)
        if new_words and len(new_words & old_words) / len(new_words) >= MAX_REPEATED_SHARE:
            return "the new answer says what the one before said"
    return ""


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", _MARK.sub(" ", text).lower()))
