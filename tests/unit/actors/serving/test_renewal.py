"""When a replica renews the state of an app."""

from __future__ import annotations

from actors.serving.renewal import QUIET_S, RenewalSchedule, has_reached

HOUR_MS = 3_600_000


class Clock:
    """A clock that only the test moves."""

    def __init__(self) -> None:
        self.s = 1_000.0

    def monotonic_s(self) -> float:
        return self.s

    def now_ms(self) -> int:
        return HOUR_MS + int(self.s * 1000)


def test_a_state_is_renewed_when_no_change_comes_any_more() -> None:
    clock = Clock()
    schedule = RenewalSchedule(clock)
    clock.s += 100
    assert schedule.is_quiet
    schedule.record_change()
    assert not schedule.is_quiet
    clock.s += QUIET_S
    assert schedule.is_quiet
    assert not schedule.is_overdue


def test_loads_take_a_small_share_of_the_time() -> None:
    clock = Clock()
    schedule = RenewalSchedule(clock)
    schedule.record_load(took_s=8.0)
    clock.s += 200
    assert not schedule.is_quiet
    clock.s += 40
    assert schedule.is_quiet


def test_without_a_pause_in_the_writes_all_replicas_renew_in_the_same_hour() -> None:
    early, late = Clock(), Clock()
    late.s += 1_500
    schedules = [RenewalSchedule(early), RenewalSchedule(late)]
    early.s = late.s = 3_599.0
    assert [schedule.is_overdue for schedule in schedules] == [False, False]
    early.s = late.s = 3_601.0
    assert [schedule.is_overdue for schedule in schedules] == [True, True]
    schedules[0].record_load(1.0)
    early.s += 300
    assert not schedules[0].is_overdue


def test_offsets_cover_others_at_or_before_them() -> None:
    assert has_reached({"product": "10-2", "user": "5-0"}, {"product": "10-2"})
    assert not has_reached({"product": "9-9"}, {"product": "10-0"})
    assert not has_reached({}, {"product": "1-0"})
    assert has_reached({}, {"product": "0"})
