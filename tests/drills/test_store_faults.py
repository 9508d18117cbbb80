"""Long runs of the store's faults. `pytest -m drill -s tests/drills/test_store_faults.py`"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suites.busy_machine import busy_disk
from tests.suites.damage import flip_anywhere, flip_record_bits, tear_the_tail
from tests.suites.faults import kill_and_restart, kill_workers, pause_under_load

pytestmark = [pytest.mark.redis, pytest.mark.drill, pytest.mark.timeout(900)]


async def test_killing_redis_a_hundred_times_loses_nothing_acknowledged() -> None:
    figures = await kill_and_restart(100, down_s=0.05)
    print(f"\nR9, R6: {figures}")
    assert (figures.lost, figures.twice) == (0, 0)
    assert figures.slowest_return_s < 5


async def test_killing_redis_on_a_busy_disk_loses_nothing_acknowledged(tmp_path: Path) -> None:
    with busy_disk(tmp_path):
        figures = await kill_and_restart(100, down_s=0.05)
    print(f"\nR9 on a busy disk: {figures}")
    assert (figures.lost, figures.twice) == (0, 0)


async def test_redis_gone_for_five_seconds_is_back_within_five() -> None:
    figures = await kill_and_restart(3, down_s=5)
    print(f"\nR9: {figures}")
    assert (figures.lost, figures.twice) == (0, 0)
    assert figures.slowest_return_s < 5
    assert figures.slowest_refusal_s < 1


async def test_workers_killed_thousands_of_times() -> None:
    figures = await kill_workers(3000)
    print(f"\nR6: {figures}")
    assert (figures.missing, figures.twice, figures.half) == (0, 0, 0)


async def test_redis_stopped_for_a_minute() -> None:
    figures = await pause_under_load(60)
    print(f"\nR10: {figures}")
    assert figures.refused_p99_ms <= 2 * max(figures.answered_before_p99_ms, 1)
    assert figures.files_more <= 2
    assert figures.memory_more_mb < 20
    assert figures.return_s < 5


async def test_the_tail_torn_at_two_hundred_places() -> None:
    figures = await tear_the_tail(200)
    print(f"\nR12 torn tail: {figures}")
    assert figures.half == 0


async def test_a_thousand_flipped_records() -> None:
    figures = await flip_record_bits(1000)
    print(f"\nR12 flipped records: {figures}")
    assert (figures.set_aside, figures.wrong, figures.served) == (1000, 0, 9000)


async def test_bits_flipped_anywhere() -> None:
    figures = await flip_anywhere(600)
    print(f"\nR12 flipped anywhere: {figures}")
    assert (figures.wrong, figures.errors) == (0, 0)
