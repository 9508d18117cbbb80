"""What every call does to a reader's threads."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from actors.history import threads as rules
from cluster.errors import NotFound
from cluster.records.thread import UserThreads

EMPTY = UserThreads()


def one_thread(*, subscribed: bool = True) -> UserThreads:
    user_threads = rules.add_question(EMPTY, "q1", "How deep do I plant  tulips?", None, 1_000)
    user_threads = rules.add_question(user_threads, "q2", "And in pots?", "q1", 2_000)
    return rules.set_subscription(user_threads, "q1", on=True, offset="5-0") if subscribed else user_threads


def test_a_question_begins_a_thread_and_a_follow_up_joins_it() -> None:
    user_threads = one_thread(subscribed=False)
    (thread,) = rules.list_threads(user_threads, rows=10, start=0).threads
    assert (thread.thread_id, thread.title, thread.question_ids) == (
        "q1",
        "How deep do I plant tulips?",
        ("q1", "q2"),
    )
    assert (thread.time_ms, thread.subscribed, thread.has_new) == (2_000, False, False)


def test_asking_twice_is_asking_once() -> None:
    user_threads = one_thread()
    assert rules.add_question(user_threads, "q2", "And in pots?", "q1", 9_000) is user_threads


def test_a_follow_up_of_an_unknown_parent_begins_a_thread() -> None:
    assert set(rules.add_question(EMPTY, "q9", "?", "foreign", 1).threads) == {"q9"}


def test_threads_are_listed_by_activity_in_pages() -> None:
    user_threads = EMPTY
    for at in range(5):
        user_threads = rules.add_question(user_threads, f"q{at}", f"{at}", None, at)
    user_threads = rules.add_question(user_threads, "late", "", "q0", 10)
    page = rules.list_threads(user_threads, rows=2, start=1)
    assert [thread.thread_id for thread in page.threads] == ["q4", "q3"]
    assert page.has_more
    assert [
        thread.thread_id for thread in rules.list_threads(user_threads, rows=9, start=0, before_ms=3).threads
    ] == [
        "q2",
        "q1",
    ]


def test_any_question_id_names_its_thread() -> None:
    user_threads = rules.add_question(one_thread(), "q3", "", "q2", 3)
    assert rules.list_questions(user_threads, "q3", rows=2).question_ids == ("q1", "q2")
    assert rules.list_questions(user_threads, "q2", rows=2, descending=True, after="q3").question_ids == (
        "q2",
        "q1",
    )
    assert rules.list_questions(user_threads, "q2", rows=2, after="unknown").has_more


@pytest.mark.parametrize(
    "call",
    [
        rules.dismiss_thread,
        lambda user_threads, at: rules.rename_thread(user_threads, at, "x"),
        rules.get_thread,
    ],
)
def test_a_foreign_thread_raises(call: object) -> None:
    with pytest.raises(NotFound):
        call(one_thread(), "foreign")  # type: ignore[operator]


def test_an_update_raises_both_indicators_and_each_is_dismissed_alone() -> None:
    user_threads = rules.append_update(one_thread(), "q1", "u1", "6-0", 5_000)
    assert rules.has_new(user_threads)
    assert user_threads.threads["q1"].question_ids[-1] == "u1"
    overall = rules.dismiss_overall(user_threads, 6_000)
    assert not rules.has_new(overall)
    assert overall.threads["q1"].has_new
    again = rules.append_update(overall, "q1", "u2", "7-0", 6_000)
    assert rules.has_new(again)
    single = rules.dismiss_thread(user_threads, "q1")
    assert not rules.has_new(single)


def test_an_update_that_was_retried_is_there_once() -> None:
    user_threads = rules.append_update(one_thread(), "q1", "u1", "6-0", 5_000)
    dismissed = rules.dismiss_thread(user_threads, "q1")
    assert rules.append_update(dismissed, "q1", "u1", "6-0", 5_500) is dismissed


def test_unsubscribed_users_get_nothing_and_new_stays_new() -> None:
    user_threads = one_thread(subscribed=False)
    assert rules.append_update(user_threads, "q1", "u1", "6-0", 5_000) is user_threads
    user_threads = rules.append_update(one_thread(), "q1", "u1", "6-0", 5_000)
    assert rules.has_new(rules.set_subscription(user_threads, "q1", on=False))


def test_deleting_a_thread_removes_its_indicators_and_skips_what_is_foreign() -> None:
    user_threads = rules.append_update(one_thread(), "q1", "u1", "6-0", 5_000)
    left, count = rules.delete_threads(user_threads, ["q1", "foreign", "q2"])
    assert count == 1
    assert not rules.has_new(left)
    assert rules.delete_threads(left, ["q1"]) == (left, 0)


def test_the_oldest_threads_beyond_the_bound_are_forgotten_subscribed_ones_last() -> None:
    user_threads = one_thread()
    for at in range(rules.MAX_THREADS):
        user_threads = rules.add_question(user_threads, f"n{at}", "", None, 10_000 + at)
    assert len(user_threads.threads) == rules.MAX_THREADS
    assert "q1" in user_threads.threads
    assert "n0" not in user_threads.threads


class Threads(RuleBasedStateMachine):
    """Beside a model that keeps only sets: what is unread, and what was unread when all was dismissed."""

    def __init__(self) -> None:
        super().__init__()
        self.user_threads = EMPTY
        self.unread: set[str] = set()
        self.counted: set[str] = set()
        self.now = 0
        self.count = 0

    @rule()
    def ask(self) -> None:
        self.count += 1
        self.user_threads = rules.add_question(self.user_threads, f"q{self.count}", "?", None, self.now)

    @rule(passed=st.integers(0, 3))
    def wait(self, passed: int) -> None:
        self.now += passed

    @precondition(lambda self: self.user_threads.threads)
    @rule(data=st.data(), on=st.booleans())
    def subscribe(self, data: st.DataObject, on: bool) -> None:
        self.user_threads = rules.set_subscription(
            self.user_threads, data.draw(st.sampled_from(sorted(self.user_threads.threads))), on=on
        )

    @precondition(lambda self: self.user_threads.threads)
    @rule(data=st.data())
    def update(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.user_threads.threads)))
        self.count += 1
        if self.user_threads.threads[name].subscribed:
            self.unread.add(name)
            self.counted.add(name)
        self.user_threads = rules.append_update(self.user_threads, name, f"u{self.count}", "1-0", self.now)

    @precondition(lambda self: self.user_threads.threads)
    @rule(data=st.data())
    def dismiss(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.user_threads.threads)))
        self.user_threads = rules.dismiss_thread(self.user_threads, name)
        self.unread.discard(name)
        self.counted.discard(name)

    @rule()
    def dismiss_overall(self) -> None:
        self.user_threads = rules.dismiss_overall(self.user_threads, self.now)
        self.counted.clear()

    @precondition(lambda self: self.user_threads.threads)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.user_threads.threads)))
        self.user_threads, count = rules.delete_threads(self.user_threads, [name])
        assert count == 1
        self.unread.discard(name)
        self.counted.discard(name)

    @invariant()
    def indicators_are_right(self) -> None:
        assert {name for name, thread in self.user_threads.threads.items() if thread.has_new} == self.unread
        assert rules.has_new(self.user_threads) == bool(self.counted)


TestThreads = Threads.TestCase
TestThreads.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
