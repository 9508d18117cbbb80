from __future__ import annotations

import os

import pytest

from cluster.runtime.priority import VARIABLE, restore_priority


def test_a_process_takes_back_what_it_was_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "10")
    said: list[tuple[int, int, int]] = []
    assert restore_priority(lambda *words: said.append(words))
    now = os.getpriority(os.PRIO_PROCESS, 0)
    assert {(which, niceness) for which, _, niceness in said} == {(os.PRIO_PROCESS, now - 10)}
    assert os.getpid() in {thread for _, thread, _ in said}
    said.clear()
    assert restore_priority(lambda *words: said.append(words))
    assert said == []


def test_where_it_is_not_allowed_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "10")

    def refuse(*_: int) -> None:
        raise PermissionError(13, "not allowed")

    assert not restore_priority(refuse)
    assert os.environ[VARIABLE] == "10"


def test_without_a_word_nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert restore_priority(lambda *_: pytest.fail("there is nothing to take back"))
