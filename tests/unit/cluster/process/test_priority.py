from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from cluster.process.priority import VARIABLE, can_raise_priority, restore_priority


def test_a_process_takes_back_what_it_was_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "10")
    calls: list[tuple[int, int, int]] = []
    assert restore_priority(lambda *words: calls.append(words))
    now = os.getpriority(os.PRIO_PROCESS, 0)
    assert {(which, niceness) for which, _, niceness in calls} == {(os.PRIO_PROCESS, now - 10)}
    assert os.getpid() in {thread for _, thread, _ in calls}
    calls.clear()
    assert restore_priority(lambda *words: calls.append(words))
    assert calls == []


def test_a_thread_that_ends_meanwhile_leaves_no_other_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "10")
    monkeypatch.setattr(os, "listdir", lambda _: ["1", "2", "3"])
    calls: list[int] = []

    def set_priority(which: int, thread: int, niceness: int) -> None:
        calls.append(thread)
        if thread < 3:
            raise ProcessLookupError(3, "no such process")

    assert restore_priority(set_priority)
    assert (calls, os.environ[VARIABLE]) == ([1, 2, 3], "0")


def test_where_it_is_not_allowed_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "10")

    def refuse(*_: int) -> None:
        raise PermissionError(13, "not allowed")

    assert not restore_priority(refuse)
    assert os.environ[VARIABLE] == "10"


def test_without_a_word_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert restore_priority(lambda *_: pytest.fail("there is nothing to take back"))


def test_a_worker_of_a_ray_that_nobody_configured_takes_back_what_ray_gives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("RAY_RAYLET_PID", "1")
    monkeypatch.setattr(os, "getpriority", lambda *_: 15)
    calls: list[int] = []
    assert restore_priority(lambda which, thread, niceness: calls.append(niceness))
    assert set(calls) == {0}


def test_whether_niceness_may_be_taken_back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (0, 0))
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nCapEff:\t0000000000000000\n")
    assert not can_raise_priority(status)
    status.write_text("Name:\tpython\nCapEff:\t0000000000800000\n")
    assert can_raise_priority(status)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (20, 20))
    assert can_raise_priority(tmp_path / "none")
