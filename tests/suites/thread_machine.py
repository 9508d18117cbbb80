"""Threads as a state machine: any order of questions, updates, dismissals, deletions and erasures by two clients must
leave every reader with what a model of plain sets says.

The model knows neither times nor revisions: which threads there are and what they hold, which are watched, which are
unread, and which of those were unread when all was last dismissed.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from actors.history import threads as rules
from actors.history.messages import ThreadChange, ThreadVerb
from actors.history.tracker import ThreadTracker
from cluster.errors import NotFound
from tests.suites.doing import APP
from tests.suites.machines import StoreMachine

USERS = st.sampled_from(["ada", "bob"])
ANY = st.integers(0, 5)


@dataclass
class Expected:
    """What the model knows of one reader."""

    threads: dict[str, list[str]] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    watched: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)
    counted: set[str] = field(default_factory=set)
    "Unread, and not dismissed with all others since."

    def forget(self, thread_id: str) -> None:
        """Take one out."""
        self.threads.pop(thread_id, None)
        for kept in (self.watched, self.unread, self.counted):
            kept.discard(thread_id)


class ThreadMachine(StoreMachine):
    """Drives two clients over one store, and the model beside them."""

    def __init__(self) -> None:
        super().__init__()
        self._clients = [ThreadTracker(self._stores, self._clock) for _ in range(2)]
        self._tracker = ThreadTracker(self._stores, self._clock)
        self._expected = {"ada": Expected(), "bob": Expected()}
        self._count = 0

    @rule(user=USERS, at=st.integers(0, 1), times=st.integers(1, 3), parent=ANY)
    def ask(self, user: str, at: int, times: int, parent: int) -> None:
        """A reader asks, perhaps following up, perhaps with an answer that was lost and a retry."""
        question, expected = self._new(), self._expected[user]
        root = self._some(expected, parent) if parent else ""
        over = expected.threads[root][-1] if root else None
        work = [
            self._clients[(at + n) % 2].add_question(APP, user, question, f"{question}?", over)
            for n in range(times)
        ]
        self._do(_together(work))
        if root:
            expected.threads[root].append(question)
        else:
            expected.threads[question] = [question]
            expected.titles[question] = f"{question}?"

    @rule(user=USERS, at=st.integers(0, 1), which=ANY, verb=st.sampled_from(["subscribe", "unsubscribe"]))
    def watch(self, user: str, at: int, which: int, verb: ThreadVerb) -> None:
        """A reader wants to be told of news, or no more."""
        expected, thread_id = self._expected[user], self._some(self._expected[user], which)
        self._changed(at, user, verb, thread_id)
        if thread_id:
            (expected.watched.add if verb == "subscribe" else expected.watched.discard)(thread_id)

    @rule(user=USERS, which=ANY, times=st.integers(1, 2))
    def update(self, user: str, which: int, times: int) -> None:
        """The monitor appends an update, perhaps twice because it was killed."""
        expected, question = self._expected[user], self._new()
        thread_id = self._some(expected, which)
        now_ms = self._clock.now_ms()
        for _ in range(times):
            self._do(
                self._tracker.apply(
                    APP,
                    user,
                    lambda threads: rules.append_update(threads, thread_id, question, "1-0", now_ms),
                )
            )
        if thread_id in expected.watched:
            expected.threads[thread_id].append(question)
            expected.unread.add(thread_id)
            expected.counted.add(thread_id)

    @rule(user=USERS, at=st.integers(0, 1), which=ANY)
    def touch(self, user: str, at: int, which: int) -> None:
        """Somebody raises an indicator by hand."""
        expected, thread_id = self._expected[user], self._some(self._expected[user], which)
        self._changed(at, user, "touch", thread_id)
        if thread_id in expected.watched:
            expected.unread.add(thread_id)
            expected.counted.add(thread_id)

    @rule(user=USERS, at=st.integers(0, 1), which=ANY)
    def dismiss(self, user: str, at: int, which: int) -> None:
        """A reader has seen a thread."""
        expected, thread_id = self._expected[user], self._some(self._expected[user], which)
        self._changed(at, user, "dismiss_thread", thread_id)
        expected.unread.discard(thread_id)
        expected.counted.discard(thread_id)

    @rule(user=USERS, at=st.integers(0, 1))
    def dismiss_overall(self, user: str, at: int) -> None:
        """A reader has seen that there is something."""
        self._do(self._clients[at].change(ThreadChange(APP, user, "dismiss_overall")))
        self._expected[user].counted.clear()

    @rule(user=USERS, at=st.integers(0, 1), which=ANY)
    def rename(self, user: str, at: int, which: int) -> None:
        """A reader gives a thread another title."""
        thread_id, title = self._some(self._expected[user], which), self._new()
        self._changed(at, user, "rename", thread_id, text=title)
        if thread_id:
            self._expected[user].titles[thread_id] = title

    @rule(user=USERS, at=st.integers(0, 1), which=ANY, other=ANY)
    def delete(self, user: str, at: int, which: int, other: int) -> None:
        """A reader deletes threads, unknown and foreign ones among them."""
        expected = self._expected[user]
        named = {
            self._some(expected, which),
            self._some(expected, other),
            self._new(),
            *self._expected["bob"].threads,
        }
        gone = named & set(expected.threads)
        changed = self._do(self._clients[at].change(ThreadChange(APP, user, "delete", tuple(sorted(named)))))
        assert changed.count == len(gone)
        for thread_id in gone:
            expected.forget(thread_id)

    @rule(user=USERS, at=st.integers(0, 1))
    def delete_all(self, user: str, at: int) -> None:
        """A reader deletes everything."""
        self._do(self._clients[at].change(ThreadChange(APP, user, "delete_all")))
        self._expected[user] = Expected()

    @rule(user=USERS)
    def erase(self, user: str) -> None:
        """A person wants to be forgotten."""
        self._do(self._stores.interactions.erase(APP, [user]))
        self._expected[user] = Expected()

    @rule(ms=st.sampled_from([1, 1_000]), back=st.booleans())
    def wait(self, ms: int, back: bool) -> None:
        """Time passes, or the clock is set back."""
        self._clock.pass_ms(-ms if back else ms)

    @invariant()
    def every_user_agrees_with_the_model(self) -> None:
        """Threads, titles, questions, subscriptions and both indicators."""
        for user, expected in self._expected.items():
            page = self._do(self._clients[0].list_threads(APP, user, rows=1_000, start=0))
            thread_questions = {thread.thread_id: list(thread.question_ids) for thread in page.threads}
            assert thread_questions == expected.threads
            assert {t.thread_id: t.title for t in page.threads} == {
                name: expected.titles[name] for name in expected.threads
            }
            assert {t.thread_id for t in page.threads if t.subscribed} == expected.watched
            assert {t.thread_id for t in page.threads if t.has_new} == expected.unread
            assert self._do(self._clients[1].has_new(APP, user)) is bool(expected.counted)

    @invariant()
    def the_watchers_agree_with_the_model(self) -> None:
        """The monitor finds exactly the readers with a watched thread."""
        watchers = self._do(self._stores.threads.watchers(APP, 0, 10))
        assert {watcher.user_id for watcher in watchers} == {
            user for user, expected in self._expected.items() if expected.watched
        }

    def _changed(self, at: int, user: str, verb: ThreadVerb, thread_id: str, text: str = "") -> None:
        named = thread_id or self._new()
        try:
            self._do(self._clients[at].change(ThreadChange(APP, user, verb, (named,), text=text)))
        except NotFound:
            assert not thread_id
        else:
            assert thread_id

    def _some(self, expected: Expected, which: int) -> str:
        names = list(expected.threads)
        return names[which] if which < len(names) else ""

    def _new(self) -> str:
        self._count += 1
        return str(uuid.UUID(int=self._count))


async def _together(work: list[Awaitable[Any]]) -> list[Any]:
    return list(await asyncio.gather(*work))
