"""Runs under any sequence of orders, claims, signs of life, deaths, cancellations and ends, beside a small model.

What must hold: a run has at most one owner who can write, it ends once, and what a dead owner says counts for nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import Bundle, initialize, invariant, rule

from cluster.records.run import (
    LEASE_MS,
    Run,
    cancel_run,
    claim_run,
    end_run,
    fail_exhausted_run,
    release_run,
    update_leased_run,
)
from jobs.refresh.runs.run_commands import update_run
from tests.suites.doing import APP, NOW, require
from tests.suites.machines import StoreMachine

WORKERS = ("one", "two", "three")


@dataclass
class Expected:
    """What the model believes of a run."""

    status: str = "queued"
    owner: str = ""
    attempt: int = 0
    until_ms: int = 0
    version: str = ""

    def is_free(self, now_ms: int) -> bool:
        """May somebody begin?"""
        return self.status == "queued" or (self.status == "running" and self.until_ms <= now_ms)


class RunMachine(StoreMachine):
    """Workers, orders and deaths over one store, and the model beside them."""

    runs = Bundle("runs")

    def __init__(self) -> None:
        super().__init__()
        self.model: dict[str, Expected] = {}
        self.stale: dict[str, Run] = {}
        "An old reading of every run, as a zombie holds it."
        self.now_ms = NOW

    def take(self, run_id: str, change: Callable[[Run], Run | None]) -> Run | None:
        """Take a step as the product does."""
        run = require(self._do(self._stores.runs.get(APP, run_id)))
        return self._do(update_run(self._stores, run, change))

    # --- what happens -----------------------------------------------------------------------------------------

    @initialize()
    def begin(self) -> None:
        """Nothing is there yet."""
        assert self._do(self._stores.runs.newest(APP)) == []

    @rule(target=runs, number=st.integers(0, 3))
    def order(self, number: int) -> str:
        """Order a run, perhaps one that is there."""
        run_id = f"r{number}"
        run = Run(app_id=APP, run_id=run_id, engine_id="default", created_at=NOW + number)
        written = self._do(self._stores.runs.compare_and_set(run))
        assert (written is None) is (run_id in self.model)
        if written is not None:
            self.model[run_id] = Expected()
            self.stale[run_id] = written
        return run_id

    @rule(run_id=runs, worker=st.sampled_from(WORKERS))
    def claim(self, run_id: str, worker: str) -> None:
        """A worker tries to take it."""
        now = self.model[run_id]
        possible = now.is_free(self.now_ms) and now.attempt < 5
        after = self.take(run_id, lambda run: claim_run(run, worker, self.now_ms))
        assert (after is not None) is possible
        if possible:
            now.status, now.owner, now.attempt = "running", worker, now.attempt + 1
            now.until_ms = self.now_ms + LEASE_MS

    @rule(run_id=runs, worker=st.sampled_from(WORKERS), attempt=st.integers(1, 5))
    def note(self, run_id: str, worker: str, attempt: int) -> None:
        """A worker gives a sign of life, rightly or not."""
        now = self.model[run_id]
        rightly = (now.status, now.owner, now.attempt) == ("running", worker, attempt)
        after = self.take(
            run_id, lambda run: update_leased_run(run, worker, attempt, self.now_ms, {"stage": "plan"})
        )
        assert (after is not None) is rightly
        if rightly:
            now.until_ms = self.now_ms + LEASE_MS

    @rule(run_id=runs, worker=st.sampled_from(WORKERS), attempt=st.integers(1, 5))
    def finish(self, run_id: str, worker: str, attempt: int) -> None:
        """A worker says it is done, rightly or not."""
        now = self.model[run_id]
        rightly = (now.status, now.owner, now.attempt) == ("running", worker, attempt)
        version = f"{worker}-{attempt}"
        after = self.take(
            run_id, lambda run: end_run(run, worker, attempt, self.now_ms, "finished", {"version": version})
        )
        assert (after is not None) is rightly
        if rightly:
            now.status, now.owner, now.version = "finished", "", version

    @rule(run_id=runs, worker=st.sampled_from(WORKERS))
    def free(self, run_id: str, worker: str) -> None:
        """Somebody is known to be dead, rightly or not."""
        now = self.model[run_id]
        rightly = now.status == "running" and now.owner == worker
        assert (self.take(run_id, lambda run: release_run(run, worker)) is not None) is rightly
        if rightly:
            now.owner, now.until_ms = "", 0

    @rule(run_id=runs)
    def cancel(self, run_id: str) -> None:
        """Somebody cancels."""
        now = self.model[run_id]
        possible = now.status in ("queued", "running")
        assert (self.take(run_id, lambda run: cancel_run(run, self.now_ms)) is not None) is possible
        if possible:
            now.status, now.owner = "cancelled", ""

    @rule(run_id=runs)
    def give_up(self, run_id: str) -> None:
        """The scheduler looks for runs whose workers die every time."""
        now = self.model[run_id]
        possible = now.is_free(self.now_ms) and now.attempt >= 5
        assert (self.take(run_id, lambda run: fail_exhausted_run(run, self.now_ms)) is not None) is possible
        if possible:
            now.status, now.owner = "failed", ""

    @rule(run_id=runs)
    def write_what_was_read_long_ago(self, run_id: str) -> None:
        """Somebody writes on the base of an old reading."""
        stale: Any = self.stale[run_id]
        current = require(self._do(self._stores.runs.get(APP, run_id)))
        written = self._do(self._stores.runs.compare_and_set(stale.model_copy(update={"version": "stale"})))
        assert (written is None) is (stale.revision != current.revision)
        if written is not None:
            self.model[run_id].version = "stale"
        self.stale[run_id] = written or current

    @rule(ms=st.integers(1, LEASE_MS + 1))
    def wait(self, ms: int) -> None:
        """Time passes."""
        self.now_ms += ms

    # --- what holds -------------------------------------------------------------------------------------------

    @invariant()
    def records_agree_with_the_model(self) -> None:
        """Every run, and the lists of runs."""
        for run_id, expected in self.model.items():
            run = require(self._do(self._stores.runs.get(APP, run_id)))
            state = (run.status, run.owner, run.attempt, run.version)
            assert state == (expected.status, expected.owner, expected.attempt, expected.version)
        going = {run_id for run_id, run in self.model.items() if run.status in ("queued", "running")}
        assert {run.run_id for run in self._do(self._stores.runs.list_open(APP))} == going
        assert len(self._do(self._stores.runs.newest(APP))) == len(self.model)
