"""From something significant to a reader who was told: ask, wait for the answer, append it or drop it.

    waiting -> asked -> told      the answer cites what is new and says something the one before did not
                     -> dropped   it does not, or never came; the reason is kept

Every step is written before the next is taken and can be taken again, so being killed anywhere means going on from
where it stood: no news is lost, and no update is appended twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import structlog

from actors.history import threads as rules
from actors.history.answer_service import Answering, NewAnswer
from actors.history.tracker import Tracker
from actors.history.watchlist import Name, Watchlist
from cluster.clock import Clock
from cluster.errors import TooMany
from cluster.meter import Meter
from cluster.records.thread import News, ReaderThreads, Thread

MOST_ASKED = 4
"Questions of one app that are asked again at once: readers who wait for answers come first."
PATIENCE_MS = 120_000
"How long an answer may take."
SAME = 0.9
"Share of a new answer's words that stood in the one before: from here on it says nothing new."

_MARK = re.compile(r"\[\d{1,4}\](?:\([^()<\[]{0,200}\))?|<[^<>]{1,80}>")
_log = structlog.get_logger()


class Telling:
    """Brings what was found for the threads of one app to its end."""

    def __init__(
        self,
        app_id: str,
        tracker: Tracker,
        answering: Answering,
        watchlist: Watchlist,
        clock: Clock,
        meter: Meter,
    ) -> None:
        self._app_id = app_id
        self._tracker = tracker
        self._answering = answering
        self._watchlist = watchlist
        self._clock = clock
        self._meter = meter
        self._asked: dict[str, int] = {}
        "Question -> when this process asked it."

    async def round(self) -> int:
        """Take one step with everything that waits; return how many wait still.

        Errors:
            Unavailable: the store is away
        """
        waiting = self._watchlist.waiting()
        going = [entry for entry in waiting if entry[1].news is not None and entry[1].news.state == "asked"]
        now_ms = self._clock.now_ms()
        due = [
            (name, thread)
            for name, thread in waiting
            if thread.news is not None and thread.news.state == "waiting" and thread.news.due_ms <= now_ms
        ]
        for name, thread in going:
            await self._look(name, thread)
        for name, thread in due[: max(0, MOST_ASKED - len(going))]:
            await self._begin(name, thread)
        return len(waiting)

    async def _begin(self, name: Name, thread: Thread) -> None:
        news = thread.news
        assert news is not None
        await self._apply(name, lambda known: rules.being_asked(known, name[1], news.question_id))
        await self._ask(name, thread, news)

    async def _ask(self, name: Name, thread: Thread, news: News) -> None:
        try:
            await self._answering.ask(
                self._app_id, name[0], thread.subject, thread.question_ids[-1], news.question_id
            )
        except TooMany:
            return
        self._asked[news.question_id] = self._clock.now_ms()
        self._meter.count("kiosk_thread_questions_total")

    async def _look(self, name: Name, thread: Thread) -> None:
        news = thread.news
        assert news is not None
        answer = await self._answering.answer(self._app_id, news.question_id)
        asked_ms = self._asked.setdefault(news.question_id, self._clock.now_ms())
        if answer is None or not answer.finished:
            if self._clock.now_ms() - asked_ms > PATIENCE_MS:
                await self._drop(name, news, "no answer came in time")
            elif answer is None:
                await self._ask(name, thread, news)
            return
        before = await self._answering.answer(self._app_id, thread.question_ids[-1])
        why_not = nothing_new(news, answer, before)
        if why_not:
            await self._drop(name, news, why_not)
            return
        self._asked.pop(news.question_id, None)
        now_ms = self._clock.now_ms()
        await self._apply(
            name, lambda known: rules.updated(known, name[1], news.question_id, news.offset, now_ms)
        )
        self._meter.count("kiosk_thread_updates_total")
        _log.info(
            "thread_updated", app=self._app_id, thread=name[1], question=news.question_id,
            score=round(news.score, 3), reason=news.reason, took_ms=now_ms - news.found_ms,
        )  # fmt: skip

    async def _drop(self, name: Name, news: News, reason: str) -> None:
        self._asked.pop(news.question_id, None)
        await self._apply(name, lambda known: rules.dropped(known, name[1], news.question_id, reason))
        self._meter.count("kiosk_thread_drops_total")
        _log.info("news_dropped", app=self._app_id, thread=name[1], score=round(news.score, 3), reason=reason)

    async def _apply(self, name: Name, rule: Callable[[ReaderThreads], ReaderThreads]) -> None:
        self._watchlist.put(name[0], await self._tracker.apply(self._app_id, name[0], rule))


def nothing_new(news: News, answer: NewAnswer, before: NewAnswer | None) -> str:
    """Say why an answer is no update; empty when it is one."""
    if not answer.good:
        return "the archive still does not answer the question"
    cited = set(answer.sources)
    fresh = cited - set(before.sources if before is not None else ())
    if not cited & set(news.product_ids) and not (fresh and len(news.product_ids) >= rules.MOST_NAMED):
        return "the new answer does not rest on what is new"
    if before is not None and before.text:
        said, known = _words(answer.text), _words(before.text)
        if said and len(said & known) / len(said) >= SAME:
            return "the new answer says what the one before said"
    return ""


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", _MARK.sub(" ", text).lower()))
