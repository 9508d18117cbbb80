"""When the breaker opens and closes."""

from __future__ import annotations

import pytest

from cluster.errors import Unavailable
from cluster.meter import SilentMeter
from cluster.store.client.breaker import SILENCE_TO_OPEN_S, TIMEOUTS_TO_OPEN, Breaker
from tests.suites.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def opened() -> list[str]:
    """Grows with each opening."""
    return []


@pytest.fixture
def breaker(clock: ManualClock, opened: list[str]) -> Breaker:
    return Breaker(clock, SilentMeter(), lambda: opened.append("opened"))


def test_a_fresh_breaker_lets_everybody_through(breaker: Breaker) -> None:
    breaker.check()


def test_timeouts_in_a_row_open_it_once(breaker: Breaker, clock: ManualClock, opened: list[str]) -> None:
    for _ in range(TIMEOUTS_TO_OPEN - 1):
        breaker.timed_out(1)
        clock.advance(round(1000 * SILENCE_TO_OPEN_S))
    breaker.check()
    for _ in range(5):
        breaker.timed_out(1)
    assert opened == ["opened"]
    with pytest.raises(Unavailable) as refused:
        breaker.check()
    assert refused.value.facts["retry_after_s"] == 1


def test_many_timeouts_of_one_moment_do_not_open_it_until_the_silence_lasts(
    breaker: Breaker, clock: ManualClock, opened: list[str]
) -> None:
    breaker.timed_out(50)
    clock.advance(round(1000 * SILENCE_TO_OPEN_S) - 10)
    breaker.timed_out(50)
    assert opened == []
    clock.advance(20)
    breaker.timed_out(1)
    assert opened == ["opened"]


def test_one_slow_script_does_not_open_it_for_everybody(
    breaker: Breaker, clock: ManualClock, opened: list[str]
) -> None:
    # scripts of 400 ms: the commands behind each pass their 150 ms, then all are answered
    for _ in range(100):
        breaker.timed_out(5)
        clock.advance(250)
        breaker.timed_out(5)
        breaker.answered()
    assert opened == []


def test_timeouts_of_large_reads_never_open_it(
    breaker: Breaker, clock: ManualClock, opened: list[str]
) -> None:
    for _ in range(100):
        breaker.bulk_timed_out(1)
        clock.advance(2_000)
    breaker.check()
    assert opened == []


def test_a_reply_between_timeouts_keeps_it_closed(breaker: Breaker, opened: list[str]) -> None:
    for _ in range(10):
        breaker.timed_out(1)
        breaker.answered()
    breaker.check()
    assert opened == []


def test_nobody_listening_opens_it_at_once_with_the_reason(breaker: Breaker, opened: list[str]) -> None:
    breaker.unreachable("the store can't be reached")
    assert opened == ["opened"]
    with pytest.raises(Unavailable, match="can't be reached"):
        breaker.check()


def test_it_tells_the_latest_reason(breaker: Breaker) -> None:
    breaker.unreachable("the store can't be reached")
    breaker.unreachable("the store is not ready (loading)")
    with pytest.raises(Unavailable, match="loading"):
        breaker.check()


def test_a_reply_closes_it_and_the_next_outage_opens_it_again(breaker: Breaker, opened: list[str]) -> None:
    breaker.unreachable("gone")
    breaker.answered()
    breaker.check()
    breaker.unreachable("gone")
    assert opened == ["opened", "opened"]
    assert breaker.is_open
