from __future__ import annotations

import pytest

from cluster.errors import Invalid
from cluster.records.run import (
    DAY_MS,
    LEASE_MS,
    Run,
    Schedule,
    cancel_run,
    claim_run,
    due_slot,
    end_run,
    fail_exhausted_run,
    is_free,
    next_slot,
    period_of,
    release_run,
    run_id_of,
    update_leased_run,
)

NOW = 1_700_000_000_000
RUN = Run(app_id="shop", run_id="r", engine_id="default", created_at=NOW)


def working(owner: str = "one") -> Run:
    run = claim_run(RUN, owner, NOW)
    assert run is not None
    return run


def test_a_claimed_run_is_taken_until_its_lease_ends() -> None:
    run = working()
    assert (run.status, run.attempt, run.owner) == ("running", 1, "one")
    assert claim_run(run, "two", NOW + LEASE_MS - 1) is None
    again = claim_run(run, "two", NOW + LEASE_MS)
    assert again is not None
    assert (again.attempt, again.owner, again.started_at) == (2, "two", NOW)


def test_a_sign_of_life_renews_the_lease() -> None:
    run = update_leased_run(working(), "one", 1, NOW + 10_000, {"stage": "plan"})
    assert run is not None
    assert run.stage == "plan"
    assert not is_free(run, NOW + LEASE_MS)
    assert is_free(run, NOW + 10_000 + LEASE_MS)


def test_who_was_taken_for_dead_writes_nothing_more() -> None:
    again = claim_run(working(), "one", NOW + LEASE_MS)
    assert again is not None
    assert update_leased_run(again, "one", 1, NOW, {}) is None
    assert end_run(again, "one", 1, NOW, "finished", {"version": "v"}) is None
    assert end_run(again, "one", 2, NOW, "finished", {"version": "v"}) is not None


def test_a_run_that_ended_stays_as_it_is() -> None:
    run = end_run(working(), "one", 1, NOW, "finished", {"version": "v"})
    assert run is not None
    assert run.has_ended
    assert (run.version, run.owner, run.finished_at) == ("v", "", NOW)
    assert claim_run(run, "two", NOW + DAY_MS) is None
    assert cancel_run(run, NOW) is None
    assert release_run(run, "one") is None


def test_a_cancelled_run_is_nobodys() -> None:
    run = cancel_run(working(), NOW)
    assert run is not None
    assert update_leased_run(run, "one", 1, NOW, {}) is None
    assert end_run(run, "one", 1, NOW, "finished", {}) is None


def test_a_dead_owners_run_is_free_at_once_and_anothers_is_not() -> None:
    run = release_run(working(), "one")
    assert run is not None
    assert is_free(run, NOW)
    assert release_run(working(), "two") is None


def test_a_run_whose_workers_keep_dying_is_given_up() -> None:
    run = RUN
    for attempt in range(1, RUN.most_attempts + 1):
        taken = claim_run(run, "one", NOW + attempt * LEASE_MS)
        assert taken is not None
        assert fail_exhausted_run(taken, NOW + attempt * LEASE_MS) is None
        run = taken
    late = NOW + 100 * LEASE_MS
    assert claim_run(run, "one", late) is None
    failed = fail_exhausted_run(run, late)
    assert failed is not None
    assert failed.status == "failed"
    assert "5 times" in failed.error


def test_a_clock_that_was_set_back_holds_a_run_not_for_ever() -> None:
    run = working()
    assert not is_free(run, NOW - LEASE_MS)
    assert is_free(run, NOW - 3_600_000)


@pytest.mark.parametrize(
    ("when", "period"),
    [("every 6h", 6 * 3_600_000), ("every 90 m", 90 * 60_000), ("daily 03:30", DAY_MS), ("nightly", DAY_MS)],
)
def test_slots_are_a_period_apart(when: str, period: int) -> None:
    schedule = Schedule(app_id="shop", name="s", engine_id="default", when=when, created_at=NOW)
    first = next_slot(schedule, NOW)
    assert NOW < first <= NOW + period
    assert due_slot(schedule, first - 1) is None
    assert due_slot(schedule, first) == first
    fired = schedule.model_copy(update={"last_slot": first})
    assert due_slot(fired, first + period - 1) is None
    assert due_slot(fired, first + period) == first + period


def test_of_missed_slots_only_the_newest_is_due() -> None:
    schedule = Schedule(app_id="shop", name="s", engine_id="default", when="daily 04:15", created_at=NOW)
    slot = due_slot(schedule, NOW + 10 * DAY_MS)
    assert slot is not None
    assert slot > NOW + 9 * DAY_MS
    assert slot % DAY_MS == (4 * 60 + 15) * 60_000
    assert run_id_of(schedule, slot) != run_id_of(schedule, slot + DAY_MS)


@pytest.mark.parametrize(
    "when", ["", "often", "every 0h", "every 6", "daily 24:00", "daily 3:7", "0 3 * * *"]
)
def test_an_invalid_schedule_names_the_valid_form(when: str) -> None:
    with pytest.raises(Invalid, match="every 6h"):
        period_of(when)
