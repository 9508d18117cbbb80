"""What every call does to a reader's threads: values in, values out.

Two indicators: a thread's own (`has_new`), and the account's, which is on while a thread has an unread update newer
than the last `dismiss_overall`. Nothing here is remembered between calls; the store swaps a reader's value only if
nobody else changed it meanwhile, so calls of one reader have an order and a dismissal that was answered stays.

Source: reference section 8.9
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from cluster.errors import NotFound, messages
from cluster.records.thread import News, ReaderThreads, Thread

MOST_THREADS = 1_000
"A reader's oldest threads beyond so many are forgotten, those with a subscription last."
MOST_QUESTIONS = 1_000
"Questions kept of one thread; the root stays, the oldest others go."
LONGEST_TITLE = 500
LONGEST_QUESTION = 2_000
MOST_SKETCHES = 8
"Of what a reader was told of; the newest."
GAP_MS = 20_000
"Between two updates of a thread: what comes meanwhile is told at once."
MOST_NAMED = 8
"Products one piece of news names; the best of them."


@dataclass(frozen=True, slots=True)
class Page:
    """Some threads of a list."""

    threads: tuple[Thread, ...]
    has_more: bool


@dataclass(frozen=True, slots=True)
class QuestionPage:
    """Some questions of a thread."""

    question_ids: tuple[str, ...]
    has_more: bool


def asked(
    known: ReaderThreads, question_id: str, text: str, parent_id: str | None, now_ms: int
) -> ReaderThreads:
    """Add a question: it joins the thread of its parent, or begins one. Adding it again changes nothing."""
    if thread_of(known, question_id) is not None:
        return known
    thread = thread_of(known, parent_id) if parent_id else None
    if thread is None:
        words = " ".join(text.split())
        thread = Thread(
            thread_id=question_id,
            title=words[:LONGEST_TITLE],
            question=words[:LONGEST_QUESTION],
            time_ms=now_ms,
            question_ids=(question_id,),
        )
    else:
        thread = _with_question(thread, question_id, now_ms)
    return _bounded(_with(known, thread))


def noted(known: ReaderThreads, thread_id: str, news: News) -> ReaderThreads:
    """Remember that something significant was found, before anything is asked about it.

    It joins what waits already, and keeps apart from the last update. What the thread was judged against
    before changes nothing, so noting again is safe.
    """
    thread = known.threads.get(thread_id)
    if thread is None or not thread.subscribed or not is_after(news.offset, standing(thread)):
        return known
    if thread.new_at_ms:
        news = news.model_copy(update={"due_ms": max(news.due_ms, thread.new_at_ms + GAP_MS)})
    if thread.news is None or not thread.waits:
        return _with(known, thread.model_copy(update={"news": news}))
    if thread.news.state == "waiting":
        return _with(known, thread.model_copy(update={"news": _joined(thread.news, news)}))
    later = news if thread.later is None else _joined(thread.later, news)
    return _with(known, thread.model_copy(update={"later": later}))


def being_asked(known: ReaderThreads, thread_id: str, question_id: str) -> ReaderThreads:
    """Close what waits: it is asked about now, and what comes from here on is later news."""
    thread = known.threads.get(thread_id)
    if thread is None or thread.news is None or thread.news.question_id != question_id:
        return known
    if thread.news.state != "waiting":
        return known
    return _with(known, thread.model_copy(update={"news": thread.news.model_copy(update={"state": "asked"})}))


def updated(
    known: ReaderThreads, thread_id: str, question_id: str, offset: str, now_ms: int
) -> ReaderThreads:
    """Append a significant update and raise the indicators; only for a thread that is still subscribed.

    Appending it again changes nothing, so an update that was retried is there once.
    """
    thread = known.threads.get(thread_id)
    if thread is None or not thread.subscribed or question_id in thread.question_ids:
        return known
    thread = _settled(
        _with_question(thread, question_id, now_ms), question_id, offset, due_ms=now_ms + GAP_MS
    )
    return _raised(known, thread, now_ms)


def touched(known: ReaderThreads, thread_id: str, now_ms: int) -> ReaderThreads:
    """Raise the indicators as an update would, without one; nothing happens to a thread that is not subscribed.

    Errors:
        NotFound: no thread of this reader holds it
    """
    thread = owned(known, thread_id)
    if not thread.subscribed:
        return known
    return _raised(known, thread.model_copy(update={"time_ms": max(now_ms, thread.time_ms + 1)}), now_ms)


def dropped(known: ReaderThreads, thread_id: str, question_id: str, reason: str) -> ReaderThreads:
    """Remember that what was found came to nothing, and why; nobody is told."""
    thread = known.threads.get(thread_id)
    if thread is None or thread.news is None or thread.news.question_id != question_id or not thread.waits:
        return known
    return _with(known, _settled(thread, question_id, thread.news.offset, dropped=reason))


def judged(known: ReaderThreads, thread_id: str, offset: str) -> ReaderThreads:
    """Remember that a thread was judged against content up to an offset and nothing was significant."""
    thread = known.threads.get(thread_id)
    return known if thread is None else _with(known, thread.model_copy(update={"judged": offset}))


def listed(known: ReaderThreads, *, rows: int, start: int, before_ms: int | None = None) -> Page:
    """List threads, latest activity first."""
    ordered = sorted(known.threads.values(), key=lambda thread: (-thread.time_ms, thread.thread_id))
    if before_ms is not None:
        ordered = [thread for thread in ordered if thread.time_ms < before_ms]
    return Page(tuple(ordered[start : start + rows]), len(ordered) > start + rows)


def questions(
    known: ReaderThreads, question_id: str, *, rows: int, descending: bool = False, after: str = ""
) -> QuestionPage:
    """List the questions of the thread that holds a question; `after` skips up to a question of it.

    Errors:
        NotFound: no thread of this reader holds it
    """
    ids = owned(known, question_id).question_ids
    ids = ids[::-1] if descending else ids
    if after in ids:
        ids = ids[ids.index(after) + 1 :]
    return QuestionPage(ids[:rows], len(ids) > rows)


def renamed(known: ReaderThreads, question_id: str, title: str) -> ReaderThreads:
    """Give a thread another title.

    Errors:
        NotFound: no thread of this reader holds the question
    """
    thread = owned(known, question_id)
    return _with(known, thread.model_copy(update={"title": title[:LONGEST_TITLE]}))


def deleted(known: ReaderThreads, thread_ids: Iterable[str]) -> tuple[ReaderThreads, int]:
    """Delete threads by their root questions; what is not there is skipped. Their indicators go with them."""
    gone = {thread_id for thread_id in thread_ids if thread_id in known.threads}
    if not gone:
        return known, 0
    left = {thread_id: thread for thread_id, thread in known.threads.items() if thread_id not in gone}
    return _changed(known, threads=left), len(gone)


def emptied(known: ReaderThreads) -> ReaderThreads:
    """Delete all threads."""
    return _changed(known, threads={}) if known.threads else known


def subscribed(known: ReaderThreads, thread_id: str, *, on: bool, offset: str = "") -> ReaderThreads:
    """Begin or end watching a thread; what is already new stays new.

    `offset` is where the content stands now: only what comes after it can be news.

    Errors:
        NotFound: no thread of this reader holds it
    """
    thread = owned(known, thread_id)
    if thread.subscribed == on:
        return known
    seen = offset if on else thread.judged
    # nobody wants to hear any more of what was on its way
    after = thread.model_copy(update={"subscribed": on, "judged": seen, "news": None, "later": None})
    return _with(known, after)


def dismissed(known: ReaderThreads, thread_id: str) -> ReaderThreads:
    """Clear one thread's indicator.

    Errors:
        NotFound: no thread of this reader holds it
    """
    thread = owned(known, thread_id)
    return _with(known, thread.model_copy(update={"has_new": False})) if thread.has_new else known


def dismissed_overall(known: ReaderThreads, now_ms: int) -> ReaderThreads:
    """Clear the account's indicator; threads keep theirs. A later update raises it again."""
    newest = max((thread.new_at_ms for thread in known.threads.values() if thread.has_new), default=0)
    # no clock may leave an update unread that was there when this was asked
    at_ms = max(now_ms, newest, known.dismissed_at_ms)
    return known if at_ms == known.dismissed_at_ms else _changed(known, dismissed_at_ms=at_ms)


def has_new(known: ReaderThreads) -> bool:
    """Is the account's indicator on?"""
    return known.has_new


def watched(known: ReaderThreads) -> tuple[Thread, ...]:
    """List the threads that want to be told of news."""
    return known.watched


def standing(thread: Thread) -> str:
    """Say up to which content a thread was judged."""
    news = [one.offset for one in (thread.news, thread.later) if one is not None]
    return max([thread.judged, *news], key=place)


def is_after(offset: str, other: str) -> bool:
    """Does a change come after another one?"""
    return place(offset) > place(other)


def thread_of(known: ReaderThreads, question_id: str | None) -> Thread | None:
    """Find the thread that holds a question."""
    if not question_id:
        return None
    if question_id in known.threads:
        return known.threads[question_id]
    return next((thread for thread in known.threads.values() if question_id in thread.question_ids), None)


def owned(known: ReaderThreads, question_id: str) -> Thread:
    """Find the thread that holds a question.

    Errors:
        NotFound: no thread of this reader does
    """
    thread = thread_of(known, question_id)
    if thread is None:
        raise NotFound(messages.NOT_FOUND)
    return thread


def place(offset: str) -> tuple[int, int]:
    """Read an offset of the change log so that it compares."""
    at_ms, _, number = offset.partition("-")
    return int(at_ms or 0), int(number or 0)


def _joined(news: News, more: News) -> News:
    best = more if more.score > news.score else news
    named = dict.fromkeys((*best.product_ids, *news.product_ids, *more.product_ids))
    return news.model_copy(
        update={
            "offset": more.offset, "product_ids": tuple(named)[:MOST_NAMED], "score": best.score,
            "reason": best.reason, "sketch": best.sketch,
        }
    )  # fmt: skip


def _settled(thread: Thread, question_id: str, offset: str, *, dropped: str = "", due_ms: int = 0) -> Thread:
    """Bring the news a question was asked about to its end, and begin with what came meanwhile."""
    judged = max(thread.judged, offset, key=place)
    news, later, sketches = thread.news, thread.later, thread.sketches
    if news is not None and news.question_id == question_id and thread.waits:
        sketches = (*sketches, news.sketch)[-MOST_SKETCHES:] if news.sketch else sketches
        end = {"state": "dropped", "reason": dropped} if dropped else {"state": "told"}
        if later is None:
            news = news.model_copy(update=end)
        else:
            news = later.model_copy(update={"due_ms": max(later.due_ms, due_ms)})
        later = None
    return thread.model_copy(update={"judged": judged, "news": news, "later": later, "sketches": sketches})


def _raised(known: ReaderThreads, thread: Thread, now_ms: int) -> ReaderThreads:
    # strictly newer than a dismissal of the same millisecond, which may have been answered before this update
    raised_ms = max(now_ms, known.dismissed_at_ms + 1)
    return _with(known, thread.model_copy(update={"has_new": True, "new_at_ms": raised_ms}))


def _with_question(thread: Thread, question_id: str, now_ms: int) -> Thread:
    ids: Collection[str] = (*thread.question_ids, question_id)
    if len(ids) > MOST_QUESTIONS:
        ids = (thread.question_ids[0], *tuple(ids)[2:])
    return thread.model_copy(update={"question_ids": tuple(ids), "time_ms": max(now_ms, thread.time_ms)})


def _with(known: ReaderThreads, thread: Thread) -> ReaderThreads:
    if known.threads.get(thread.thread_id) == thread:
        return known
    return _changed(known, threads={**known.threads, thread.thread_id: thread})


def _bounded(known: ReaderThreads) -> ReaderThreads:
    spare = len(known.threads) - MOST_THREADS
    if spare <= 0:
        return known
    order = sorted(known.threads.values(), key=lambda thread: (thread.subscribed, thread.time_ms))
    gone = {thread.thread_id for thread in order[:spare]}
    return known.model_copy(
        update={"threads": {key: thread for key, thread in known.threads.items() if key not in gone}}
    )


def _changed(known: ReaderThreads, **change: object) -> ReaderThreads:
    return known.model_copy(update={**change, "revision": known.revision + 1})
