"""Rules for changes of a user's threads: pure functions.

Two indicators: a thread's (`has_new`), and the account's, which is on while a thread has an unread update newer than
the last `dismiss_overall`. The functions keep no state between calls. The store replaces a user's value only if no
other process changed it meanwhile. So calls of one user have an order, and an acknowledged dismissal stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from cluster.errors import NotFound, messages
from cluster.ids import position_from_offset
from cluster.records.thread import News, Thread, UserThreads

MAX_THREADS = 1_000
"Maximal number of threads of a user; beyond it the oldest are deleted, those with a subscription last."
MAX_QUESTIONS = 1_000
"Maximal number of questions of a thread; the root stays, the oldest others are deleted."
MAX_TITLE_CHARS = 500
MAX_QUESTION_CHARS = 2_000
MAX_SKETCHES = 8
"Maximal number of sketches of past news; the newest stay."
GAP_MS = 20_000
"Minimal time between two updates of a thread; news in between forms one update."
MAX_PRODUCTS = 8
"Maximal number of products of one piece of news; the best ones."


@dataclass(frozen=True, slots=True)
class ThreadPage:
    """One page of threads."""

    threads: tuple[Thread, ...]
    has_more: bool


@dataclass(frozen=True, slots=True)
class QuestionPage:
    """One page of a thread's questions."""

    question_ids: tuple[str, ...]
    has_more: bool


def add_question(
    user_threads: UserThreads, question_id: str, text: str, parent_id: str | None, now_ms: int
) -> UserThreads:
    """Add a question to the thread of its parent, or to a new thread; adding it again changes nothing."""
    if find_thread(user_threads, question_id) is not None:
        return user_threads
    thread = find_thread(user_threads, parent_id) if parent_id else None
    if thread is None:
        words = " ".join(text.split())
        thread = Thread(
            thread_id=question_id,
            title=words[:MAX_TITLE_CHARS],
            question=words[:MAX_QUESTION_CHARS],
            time_ms=now_ms,
            question_ids=(question_id,),
        )
    else:
        thread = _append_question(thread, question_id, now_ms)
    return _trim_threads(_replace_thread(user_threads, thread))


def add_news(user_threads: UserThreads, thread_id: str, news: News) -> UserThreads:
    """Record significant content before the question about it is submitted.

    The content joins other waiting news and keeps the minimal time after the last update. Content before the thread's
    judged offset changes nothing, so recording it again is safe.
    """
    thread = user_threads.threads.get(thread_id)
    if thread is None or not thread.subscribed or not is_after(news.offset, judged_offset(thread)):
        return user_threads
    if thread.new_at_ms:
        news = news.model_copy(update={"due_ms": max(news.due_ms, thread.new_at_ms + GAP_MS)})
    if thread.news is None or not thread.waits:
        return _replace_thread(user_threads, thread.model_copy(update={"news": news}))
    if thread.news.state == "waiting":
        return _replace_thread(
            user_threads, thread.model_copy(update={"news": _merge_news(thread.news, news)})
        )
    later = news if thread.later is None else _merge_news(thread.later, news)
    return _replace_thread(user_threads, thread.model_copy(update={"later": later}))


def start_question(user_threads: UserThreads, thread_id: str, question_id: str) -> UserThreads:
    """Close the waiting news when its question is submitted; later content forms the next news."""
    thread = user_threads.threads.get(thread_id)
    if thread is None or thread.news is None or thread.news.question_id != question_id:
        return user_threads
    if thread.news.state != "waiting":
        return user_threads
    return _replace_thread(
        user_threads, thread.model_copy(update={"news": thread.news.model_copy(update={"state": "asked"})})
    )


def append_update(
    user_threads: UserThreads, thread_id: str, question_id: str, offset: str, now_ms: int
) -> UserThreads:
    """Append a significant update to a subscribed thread and raise the indicators.

    Appending it again changes nothing, so a retried update appears once.
    """
    thread = user_threads.threads.get(thread_id)
    if thread is None or not thread.subscribed or question_id in thread.question_ids:
        return user_threads
    thread = _close_news(
        _append_question(thread, question_id, now_ms), question_id, offset, due_ms=now_ms + GAP_MS
    )
    return _raise_indicator(user_threads, thread, now_ms)


def touch_thread(user_threads: UserThreads, thread_id: str, now_ms: int) -> UserThreads:
    """Raise the indicators without an update; a thread without a subscription stays unchanged.

    Errors:
        NotFound: no thread of this user contains the question
    """
    thread = get_thread(user_threads, thread_id)
    if not thread.subscribed:
        return user_threads
    return _raise_indicator(
        user_threads, thread.model_copy(update={"time_ms": max(now_ms, thread.time_ms + 1)}), now_ms
    )


def drop_news(user_threads: UserThreads, thread_id: str, question_id: str, reason: str) -> UserThreads:
    """Drop news that led to no update and store the reason; the user gets no notification."""
    thread = user_threads.threads.get(thread_id)
    if thread is None or thread.news is None or thread.news.question_id != question_id or not thread.waits:
        return user_threads
    return _replace_thread(user_threads, _close_news(thread, question_id, thread.news.offset, dropped=reason))


def list_threads(
    user_threads: UserThreads, *, rows: int, start: int, before_ms: int | None = None
) -> ThreadPage:
    """List threads, latest activity first."""
    ordered = sorted(user_threads.threads.values(), key=lambda thread: (-thread.time_ms, thread.thread_id))
    if before_ms is not None:
        ordered = [thread for thread in ordered if thread.time_ms < before_ms]
    return ThreadPage(tuple(ordered[start : start + rows]), len(ordered) > start + rows)


def list_questions(
    user_threads: UserThreads, question_id: str, *, rows: int, descending: bool = False, after: str = ""
) -> QuestionPage:
    """List the questions of the thread that contains a question; `after` skips up to a question of it.

    Errors:
        NotFound: no thread of this user contains the question
    """
    ids = get_thread(user_threads, question_id).question_ids
    ids = ids[::-1] if descending else ids
    if after in ids:
        ids = ids[ids.index(after) + 1 :]
    return QuestionPage(ids[:rows], len(ids) > rows)


def rename_thread(user_threads: UserThreads, question_id: str, title: str) -> UserThreads:
    """Change the title of a thread.

    Errors:
        NotFound: no thread of this user contains the question
    """
    thread = get_thread(user_threads, question_id)
    return _replace_thread(user_threads, thread.model_copy(update={"title": title[:MAX_TITLE_CHARS]}))


def delete_threads(user_threads: UserThreads, thread_ids: Iterable[str]) -> tuple[UserThreads, int]:
    """Delete threads and their indicators by their root questions; unknown ones are skipped."""
    gone = {thread_id for thread_id in thread_ids if thread_id in user_threads.threads}
    if not gone:
        return user_threads, 0
    left = {thread_id: thread for thread_id, thread in user_threads.threads.items() if thread_id not in gone}
    return _next_revision(user_threads, threads=left), len(gone)


def delete_all_threads(user_threads: UserThreads) -> UserThreads:
    """Delete all threads."""
    return _next_revision(user_threads, threads={}) if user_threads.threads else user_threads


def set_subscription(user_threads: UserThreads, thread_id: str, *, on: bool, offset: str = "") -> UserThreads:
    """Start or end the subscription of a thread; existing news stays.

    `offset` is the end of the current content: only later content can be news.

    Errors:
        NotFound: no thread of this user contains the question
    """
    thread = get_thread(user_threads, thread_id)
    if thread.subscribed == on:
        return user_threads
    seen = offset if on else thread.judged
    # without a subscription the user gets no more notifications
    after = thread.model_copy(update={"subscribed": on, "judged": seen, "news": None, "later": None})
    return _replace_thread(user_threads, after)


def dismiss_thread(user_threads: UserThreads, thread_id: str) -> UserThreads:
    """Clear one thread's indicator.

    Errors:
        NotFound: no thread of this user contains the question
    """
    thread = get_thread(user_threads, thread_id)
    return (
        _replace_thread(user_threads, thread.model_copy(update={"has_new": False}))
        if thread.has_new
        else user_threads
    )


def dismiss_overall(user_threads: UserThreads, now_ms: int) -> UserThreads:
    """Clear the account's indicator; threads keep theirs. A later update raises it again."""
    newest = max((thread.new_at_ms for thread in user_threads.threads.values() if thread.has_new), default=0)
    # clock skew must not leave an update unread that existed at the time of the dismissal
    at_ms = max(now_ms, newest, user_threads.dismissed_at_ms)
    return (
        user_threads
        if at_ms == user_threads.dismissed_at_ms
        else _next_revision(user_threads, dismissed_at_ms=at_ms)
    )


def has_new(user_threads: UserThreads) -> bool:
    """Return whether the account's indicator is on."""
    return user_threads.has_new


def judged_offset(thread: Thread) -> str:
    """Return the offset up to which content was scored for a thread."""
    news = [piece.offset for piece in (thread.news, thread.later) if piece is not None]
    return max([thread.judged, *news], key=position_from_offset)


def is_after(offset: str, other: str) -> bool:
    """Return whether a change comes after another one."""
    return position_from_offset(offset) > position_from_offset(other)


def find_thread(user_threads: UserThreads, question_id: str | None) -> Thread | None:
    """Return the thread that contains a question, or None."""
    if not question_id:
        return None
    if question_id in user_threads.threads:
        return user_threads.threads[question_id]
    return next(
        (thread for thread in user_threads.threads.values() if question_id in thread.question_ids), None
    )


def get_thread(user_threads: UserThreads, question_id: str) -> Thread:
    """Return the thread that contains a question.

    Errors:
        NotFound: no thread of this user contains the question
    """
    thread = find_thread(user_threads, question_id)
    if thread is None:
        raise NotFound(messages.NOT_FOUND)
    return thread


def _merge_news(news: News, more: News) -> News:
    best = more if more.score > news.score else news
    named = dict.fromkeys((*best.product_ids, *news.product_ids, *more.product_ids))
    return news.model_copy(
        update={
            "offset": more.offset,
            "product_ids": tuple(named)[:MAX_PRODUCTS],
            "score": best.score,
            "reason": best.reason,
            "sketch": best.sketch,
        }
    )


def _close_news(
    thread: Thread, question_id: str, offset: str, *, dropped: str = "", due_ms: int = 0
) -> Thread:
    """Remove the news whose question was submitted, and continue with later news."""
    judged = max(thread.judged, offset, key=position_from_offset)
    news = thread.news
    later = thread.later
    sketches = thread.sketches
    if news is not None and news.question_id == question_id and thread.waits:
        sketches = (*sketches, news.sketch)[-MAX_SKETCHES:] if news.sketch else sketches
        end = {"state": "dropped", "reason": dropped} if dropped else {"state": "told"}
        if later is None:
            news = news.model_copy(update=end)
        else:
            news = later.model_copy(update={"due_ms": max(later.due_ms, due_ms)})
        later = None
    return thread.model_copy(update={"judged": judged, "news": news, "later": later, "sketches": sketches})


def _raise_indicator(user_threads: UserThreads, thread: Thread, now_ms: int) -> UserThreads:
    # strictly newer than a dismissal of the same millisecond, which may have been answered before this update
    raised_ms = max(now_ms, user_threads.dismissed_at_ms + 1)
    return _replace_thread(user_threads, thread.model_copy(update={"has_new": True, "new_at_ms": raised_ms}))


def _append_question(thread: Thread, question_id: str, now_ms: int) -> Thread:
    ids: Collection[str] = (*thread.question_ids, question_id)
    if len(ids) > MAX_QUESTIONS:
        ids = (thread.question_ids[0], *tuple(ids)[2:])
    return thread.model_copy(update={"question_ids": tuple(ids), "time_ms": max(now_ms, thread.time_ms)})


def _replace_thread(user_threads: UserThreads, thread: Thread) -> UserThreads:
    if user_threads.threads.get(thread.thread_id) == thread:
        return user_threads
    return _next_revision(user_threads, threads={**user_threads.threads, thread.thread_id: thread})


def _trim_threads(user_threads: UserThreads) -> UserThreads:
    spare = len(user_threads.threads) - MAX_THREADS
    if spare <= 0:
        return user_threads
    order = sorted(user_threads.threads.values(), key=lambda thread: (thread.subscribed, thread.time_ms))
    gone = {thread.thread_id for thread in order[:spare]}
    # Without another revision: the caller's change has counted already.
    return user_threads.model_copy(
        update={"threads": {key: thread for key, thread in user_threads.threads.items() if key not in gone}}
    )


def _next_revision(user_threads: UserThreads, **change: object) -> UserThreads:
    return user_threads.model_copy(update={**change, "revision": user_threads.revision + 1})
