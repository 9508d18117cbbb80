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
from cluster.records.thread import ReaderThreads, Thread

MOST_THREADS = 1_000
"A reader's oldest threads beyond so many are forgotten, those with a subscription last."
MOST_QUESTIONS = 1_000
"Questions kept of one thread; the root stays, the oldest others go."
LONGEST_TITLE = 500


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
        title = " ".join(text.split())[:LONGEST_TITLE]
        thread = Thread(thread_id=question_id, title=title, time_ms=now_ms, question_ids=(question_id,))
    else:
        thread = _with_question(thread, question_id, now_ms)
    return _bounded(_with(known, thread))


def updated(
    known: ReaderThreads, thread_id: str, question_id: str, offset: str, now_ms: int
) -> ReaderThreads:
    """Append a significant update and raise the indicators; only for a thread that is still subscribed.

    Appending it again changes nothing, so an update that was retried is there once.
    """
    thread = known.threads.get(thread_id)
    if thread is None or not thread.subscribed or question_id in thread.question_ids:
        return known
    thread = _with_question(thread, question_id, now_ms)
    # strictly newer than a dismissal of the same millisecond, which may have been answered before this update
    raised_ms = max(now_ms, known.dismissed_at_ms + 1)
    return _with(known, thread.model_copy(update={"has_new": True, "new_at_ms": raised_ms, "judged": offset}))


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
    return _with(known, thread.model_copy(update={"subscribed": on, "judged": seen}))


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
