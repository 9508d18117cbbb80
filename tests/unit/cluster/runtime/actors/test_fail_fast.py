"""An actor whose loop hangs ends its process; one whose loop goes on is left alone."""

from __future__ import annotations

import threading

import pytest

from cluster.runtime.actors import fail_fast


def test_the_process_ends_once_its_loop_has_no_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fail_fast, "POLL_S", 0.0)
    idle = iter([0.0, fail_fast.STANDSTILL_S, fail_fast.STANDSTILL_S + 1, fail_fast.STANDSTILL_S + 1])
    stopping = threading.Event()
    codes: list[int] = []

    def end_process(code: int) -> None:
        codes.append(code)
        stopping.set()

    fail_fast.exit_when_stuck("intake", lambda: next(idle), stopping, end_process)
    assert (codes, list(idle)) == ([1], [])
