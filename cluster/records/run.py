"""Runs: the truth about a training (`docs/decisions/0012-a-training-is-its-record.md`).

    queued -> running -> finished | failed | cancelled
       ^         |
       +- lapse -+     the worker's lease ran out: the next claim is another attempt

A run is a value; its steps below are plain functions that give the next value, or None where the step is not
possible. The store replaces a value only if nobody else did meanwhile (`RunStore.swap`), so of two workers who
both believe to own a run at most one can write, and a worker who was taken for dead can't write any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

RunStatus = Literal["queued", "running", "finished", "failed", "cancelled"]

STAGES = ("dataset", "plan", "evaluate", "train", "publish")
"What a training does, in this order."

LEASE_MS = 15_000
"So long a worker may be silent before it counts as dead."

ENDED: frozenset[RunStatus] = frozenset({"finished", "failed", "cancelled"})

_ABSURD_LEASES = 4


class StageResult(BaseModel):
    """A stage that is behind."""

    model_config = ConfigDict(frozen=True)

    name: str
    seconds: float = 0.0
    facts: dict[str, Any] = Field(default_factory=dict)
    "Small: counts and names, for people."


class Run(BaseModel):
    """One training of one engine."""

    model_config = ConfigDict(frozen=True)

    app_id: str
    run_id: str
    engine_id: str
    recipe: dict[str, Any] = Field(default_factory=dict)
    "As it was asked for, with everything open that is open."
    promote: bool = False
    "Let it serve afterwards, if the gate allows."
    code: str = ""
    "Digest of the code that was shipped with the order; empty: learners come from the installation."
    by: str = ""
    "Who asked: a person, `schedule nightly`, a program."
    traceparent: str = ""
    "Parent of the trace of the training; empty if whoever asked is not traced."
    status: RunStatus = "queued"
    attempt: int = 0
    most_attempts: int = 5
    owner: str = ""
    "Who works on it."
    until_ms: int = 0
    "When the owner's lease ends unless it is renewed."
    stage: str = ""
    message: str = ""
    "What is being done right now."
    fraction: float = 0.0
    "How much of the stage is done, about."
    stages: tuple[StageResult, ...] = ()
    version: str = ""
    "The snapshot that was published."
    promoted: bool = False
    figures: dict[str, float] = Field(default_factory=dict)
    verdict: str = ""
    "What the gate says of it, in a sentence."
    chosen: str = ""
    "Which parts of the recipe got weight and which did not, in a sentence."
    parts: tuple[dict[str, Any], ...] = ()
    "What came of each part: part, learner, outcome, weight, weight_new, alone, gain, reason."
    error: str = ""
    created_at: int = 0
    started_at: int | None = None
    finished_at: int | None = None
    revision: int = 0
    "Grows with every write; the store's own."

    @property
    def has_ended(self) -> bool:
        """Return whether the run has ended."""
        return self.status in ENDED

    def has_finished_stage(self, stage: str) -> bool:
        """Return whether a stage is finished."""
        return any(done.name == stage for done in self.stages)


def is_free(run: Run, now_ms: int) -> bool:
    """May somebody begin with it: is it waiting, or its worker silent for too long?

    A lease that ends absurdly late was written by a clock that has been set back since; nobody waits for it.
    """
    if run.status == "queued":
        return True
    lapsed = run.until_ms <= now_ms or run.until_ms > now_ms + _ABSURD_LEASES * LEASE_MS
    return run.status == "running" and lapsed


def claim_run(run: Run, owner: str, now_ms: int, lease_ms: int = LEASE_MS) -> Run | None:
    """Return the run claimed by a worker; None when it is not free."""
    if not is_free(run, now_ms) or run.attempt >= run.most_attempts:
        return None
    return run.model_copy(
        update={
            "status": "running",
            "attempt": run.attempt + 1,
            "owner": owner,
            "until_ms": now_ms + lease_ms,
            "started_at": now_ms if run.started_at is None else run.started_at,
            "message": "",
            "fraction": 0.0,
        }
    )


def fail_exhausted_run(run: Run, now_ms: int) -> Run | None:
    """Return a run whose workers died too often as failed; None for others."""
    if not is_free(run, now_ms) or run.attempt < run.most_attempts:
        return None
    died = f"its worker died {run.attempt} times, the last time in stage {run.stage or STAGES[0]}"
    return run.model_copy(
        update={"status": "failed", "error": died, "finished_at": now_ms, "owner": "", "until_ms": 0}
    )


def is_owner(run: Run, owner: str, attempt: int) -> bool:
    """Return whether the run still belongs to this attempt of this worker."""
    return run.status == "running" and run.owner == owner and run.attempt == attempt


def update_leased_run(
    run: Run, owner: str, attempt: int, now_ms: int, changes: Mapping[str, Any], lease_ms: int = LEASE_MS
) -> Run | None:
    """Return the run with a renewed lease and its progress."""
    if not is_owner(run, owner, attempt):
        return None
    return run.model_copy(update={**changes, "until_ms": now_ms + lease_ms})


def end_run(
    run: Run, owner: str, attempt: int, now_ms: int, status: RunStatus, changes: Mapping[str, Any]
) -> Run | None:
    """Return the run ended by its owner."""
    if not is_owner(run, owner, attempt) or status not in ENDED:
        return None
    over = {"status": status, "finished_at": now_ms, "owner": "", "until_ms": 0, "message": ""}
    return run.model_copy(update={**changes, **over})


def cancel_run(run: Run, now_ms: int) -> Run | None:
    """Return the run cancelled; its worker notices at its next renewal and writes nothing more."""
    if run.has_ended:
        return None
    over = {"status": "cancelled", "finished_at": now_ms, "owner": "", "until_ms": 0, "message": ""}
    return run.model_copy(update=over)


def release_run(run: Run, owner: str) -> Run | None:
    """Return the run released for the next worker at once, because this owner is dead."""
    if run.status != "running" or run.owner != owner:
        return None
    return run.model_copy(update={"owner": "", "until_ms": 0})
