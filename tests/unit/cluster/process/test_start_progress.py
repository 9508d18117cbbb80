"""A start is waited for as long as it gets on, and its stages are reported."""

from __future__ import annotations

import os
import time

import pytest

from cluster.process.start_progress import WORKED_S, StallTimer, count_work_steps, report_changes
from tests.suites.manual_clock import ManualClock


def test_patience_is_over_when_nothing_new_is_seen_for_long() -> None:
    clock = ManualClock()
    patience = StallTimer(10.0, clock.monotonic_s)
    for second in range(100):
        clock.advance(1_000)
        assert patience.record(second)
        assert not patience.is_over
    for second in range(11):
        clock.advance(1_000)
        assert not patience.record(second % 2), "going in circles is no progress"
    assert patience.is_over


def test_work_of_a_process_counts_as_progress() -> None:
    before, until = count_work_steps(os.getpid()), time.process_time() + 1.5 * WORKED_S
    while time.process_time() < until:
        pass
    assert count_work_steps(os.getpid()) > before
    assert count_work_steps(2**22) == 0


@pytest.mark.usefixtures("allow_world")
def test_what_changes_is_reported_once() -> None:
    seen, words = [], iter(["", "one", "one", "two"])
    with report_changes(lambda: next(words), seen.append):
        until = time.monotonic() + 10
        while len(seen) < 2 and time.monotonic() < until:
            time.sleep(0.05)
    assert seen == ["one", "two"]
