"""Faults of a real Redis, a few seconds of each with its figures; the long runs are in tests/drills."""

from __future__ import annotations

import pytest

from tests.suites.damage import flip_anywhere, flip_record_bits, tear_the_tail
from tests.suites.faults import kill_and_restart, kill_workers, pause_under_load

pytestmark = pytest.mark.redis


async def test_killing_redis_loses_nothing_acknowledged_and_applies_nothing_twice() -> None:
    figures = await kill_and_restart(3)
    print(f"\nR9, R6: {figures}")
    assert figures.acknowledged > 100
    assert (figures.lost, figures.twice) == (0, 0)
    assert figures.slowest_return_s < 5


async def test_killed_workers_leave_every_batch_applied_exactly_once() -> None:
    figures = await kill_workers(400)
    print(f"\nR6: {figures}")
    assert figures.killed > 20
    assert (figures.missing, figures.twice, figures.half) == (0, 0, 0)


async def test_a_stopped_redis_costs_little_and_comes_back() -> None:
    figures = await pause_under_load(1.5)
    print(f"\nR10: {figures}")
    assert figures.refused_max_ms < 1000
    assert figures.files_more <= 2
    assert figures.memory_more_mb < 10
    assert figures.return_s < 5


async def test_a_torn_tail_leaves_a_batch_whole_or_not_at_all() -> None:
    figures = await tear_the_tail(8)
    print(f"\nR12 torn tail: {figures}")
    assert figures.half == 0
    assert figures.whole >= 1
    assert figures.none >= 1


async def test_flipped_records_are_set_aside_and_the_rest_is_served() -> None:
    figures = await flip_record_bits(20)
    print(f"\nR12 flipped records: {figures}")
    assert (figures.set_aside, figures.wrong, figures.served) == (20, 0, 180)


async def test_a_bit_flipped_anywhere_never_shows_as_something_else() -> None:
    figures = await flip_anywhere(12)
    print(f"\nR12 flipped anywhere: {figures}")
    assert (figures.wrong, figures.errors) == (0, 0)
