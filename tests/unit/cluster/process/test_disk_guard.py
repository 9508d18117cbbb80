"""Writes stop before the disk is full and go on by themselves."""

from __future__ import annotations

from pathlib import Path

from cluster.process.disk_guard import DiskGuard, used_share
from tests.suites.manual_clock import ManualClock


class _Disk:
    def __init__(self, share: float) -> None:
        self.share = share
        self.looks = 0

    def __call__(self, path: Path) -> float:
        self.looks += 1
        return self.share


def test_writes_are_welcome_below_the_limit_and_refused_from_it_on() -> None:
    clock, disk = ManualClock(), _Disk(0.9399)
    guard = DiskGuard(Path("/"), 0.94, clock, disk)
    assert guard.refusal_reason() == ""
    disk.share = 0.94
    clock.advance(1_000)
    assert guard.refusal_reason().startswith("The disk of the service is 94% full")


def test_writing_goes_on_a_second_after_space_came_back() -> None:
    clock, disk = ManualClock(), _Disk(0.97)
    guard = DiskGuard(Path("/"), 0.94, clock, disk)
    assert guard.refusal_reason()
    disk.share = 0.5
    clock.advance(900)
    assert guard.refusal_reason()
    clock.advance(200)
    assert guard.refusal_reason() == ""


def test_the_disk_is_looked_at_once_a_second() -> None:
    clock, disk = ManualClock(), _Disk(0.1)
    guard = DiskGuard(Path("/"), 0.94, clock, disk)
    for _ in range(100):
        guard.refusal_reason()
        clock.advance(100)
    assert disk.looks <= 11


def test_a_directory_that_is_not_on_this_machine_needs_no_guard(tmp_path: Path) -> None:
    assert DiskGuard(tmp_path / "absent", 0.01, ManualClock()).refusal_reason() == ""


def test_a_real_disk_is_somewhere_between_empty_and_full(tmp_path: Path) -> None:
    assert 0.0 < used_share(tmp_path) < 1.0
    assert DiskGuard(tmp_path, 1e-9, ManualClock()).refusal_reason()
