"""Runs of trainings (`docs/decisions/0012-run-records-of-trainings.md`), and schedules that start them.

    queued -> running -> finished | failed | cancelled
       ^         |
       +- lapse -+     the worker's lease ran out: the next claim is another attempt

A run is a value. The functions below return the next value, or None if the transition is not possible. The
store replaces a value only if no other writer replaced it meanwhile (`RunStore.compare_and_set`). So if two workers
claim one run, at most one can write, and a worker with an expired lease can't write any more.

Schedules: engines that are trained again by themselves. A slot is a moment at which one is due.

- `every 6h`: 21,600,000 ms apart, counted from 1970
- `daily 03:30`: once a day at this time, UTC
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from cluster.clock import iso_ms
from cluster.errors import Invalid

RunKind = Literal["training", "evaluation", "sweep"]
"Evaluations and sweeps publish nothing."
RunStatus = Literal["queued", "running", "finished", "failed", "cancelled"]

STAGES = ("dataset", "plan", "evaluate", "train", "publish")
"The stages of a training, in order."

FACT_LABELS = {"readers": "users", "most_events_of_a_reader": "most events of a user"}
"Key of a stage's facts -> the words that people see."

LEASE_MS = 15_000
"A worker that does not renew its lease for this long counts as dead."

ENDED: frozenset[RunStatus] = frozenset({"finished", "failed", "cancelled"})

MOST_LOG_LINES = 100
"Lines that a run keeps; the oldest ones go."
_LONGEST_LINE = 300
_ABSURD_LEASES = 4


class StageResult(BaseModel):
    """A stage that is behind."""

    model_config = ConfigDict(frozen=True)

    name: str
    seconds: float = 0.0
    facts: dict[str, Any] = Field(default_factory=dict)
    "Counts and names for people; must stay small."


class Run(BaseModel):
    """One training, evaluation or sweep of one engine."""

    model_config = ConfigDict(frozen=True)

    app_id: str
    run_id: str
    engine_id: str
    recipe: dict[str, Any] = Field(default_factory=dict)
    "The ordered recipe, with all its open choices."
    kind: RunKind = "training"
    options: dict[str, Any] = Field(default_factory=dict)
    """Of an evaluation `protocols`, `readers` and `compare` (with what serves); of a sweep `sweep`, its FIELD=A,B,C
    texts."""
    promote: bool = False
    "Promote the result if the gate allows."
    code: str = ""
    "Digest of the code that was shipped with the order; empty: the installation provides the learners."
    by: str = ""
    "Who ordered the run: a person, `schedule nightly`, a program."
    traceparent: str = ""
    "Parent of the trace of the training; empty if the order is not traced."
    status: RunStatus = "queued"
    attempt: int = 0
    most_attempts: int = 5
    owner: str = ""
    "Id of the worker."
    until_ms: int = 0
    "When the owner's lease ends unless it is renewed."
    stage: str = ""
    message: str = ""
    "The current activity."
    fraction: float = 0.0
    "How much of the stage is done, about."
    stages: tuple[StageResult, ...] = ()
    version: str = ""
    "The snapshot that was published."
    promoted: bool = False
    figures: dict[str, float] = Field(default_factory=dict)
    verdict: str = ""
    "The gate's decision, in a sentence."
    chosen: str = ""
    "Which parts of the recipe got weight and which did not, in a sentence."
    split: dict[str, Any] = Field(default_factory=dict)
    "Of the evaluation: protocol and its reason, dates of the test, what counts as relevant, and all as `sentence`."
    parts: tuple[dict[str, Any], ...] = ()
    "Outcome of each part: part, learner, outcome, weight, weight_new, weight_unseen, alone, gain, reason."
    error: str = ""
    log: tuple[str, ...] = ()
    "The newest things that workers did, a time and a sentence each, oldest first."
    created_at: int = 0
    started_at: int | None = None
    finished_at: int | None = None
    revision: int = 0
    "Grows with every write; the store sets it."

    @property
    def has_ended(self) -> bool:
        return self.status in ENDED


def is_free(run: Run, now_ms: int) -> bool:
    """Return whether a worker may claim the run: it waits, or its lease expired.

    A lease that ends absurdly late comes from a clock that was set back since; such a lease does not count.
    """
    if run.status == "queued":
        return True
    lapsed = run.until_ms <= now_ms or run.until_ms > now_ms + _ABSURD_LEASES * LEASE_MS
    return run.status == "running" and lapsed


def claim_run(run: Run, owner: str, now_ms: int, lease_ms: int = LEASE_MS) -> Run | None:
    """Return the run as claimed by a worker; None when it is not free."""
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
    """Return a run as failed if too many of its workers died; None for others."""
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
    log = _append_log(run, now_ms, changes)
    return run.model_copy(update={**changes, "log": log, "until_ms": now_ms + lease_ms})


def _append_log(run: Run, now_ms: int, changes: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the log of a run with a line for a new stage or activity."""
    stage = str(changes.get("stage", run.stage))
    message = str(changes.get("message", run.message))
    if (stage, message) == (run.stage, run.message) or not (stage if stage != run.stage else message):
        return run.log
    return _with_line(run, now_ms, f"{stage}{': ' if stage and message else ''}{message}")


def _with_line(run: Run, now_ms: int, text: str) -> tuple[str, ...]:
    line = f"{iso_ms(now_ms)[:19]}  {text}"
    # Bounded in both directions: the record is written whole with each progress.
    return (*run.log, line[:_LONGEST_LINE])[-MOST_LOG_LINES:]


def add_log_line(run: Run, now_ms: int, text: str) -> Run:
    """Return the run, which may have ended, with one more line in its log."""
    return run.model_copy(update={"log": _with_line(run, now_ms, text)})


def end_run(
    run: Run, owner: str, attempt: int, now_ms: int, status: RunStatus, changes: Mapping[str, Any]
) -> Run | None:
    """Return the run ended by its owner."""
    if not is_owner(run, owner, attempt) or status not in ENDED:
        return None
    over = {"status": status, "finished_at": now_ms, "owner": "", "until_ms": 0}
    return run.model_copy(update={"message": "", **changes, **over})


def cancel_run(run: Run, now_ms: int) -> Run | None:
    """Return the run as cancelled; its worker notices at its next renewal and writes nothing more."""
    if run.has_ended:
        return None
    over = {"status": "cancelled", "finished_at": now_ms, "owner": "", "until_ms": 0, "message": ""}
    return run.model_copy(update=over)


def release_run(run: Run, owner: str) -> Run | None:
    """Return the run as free for the next worker at once, because this owner is dead."""
    if run.status != "running" or run.owner != owner:
        return None
    return run.model_copy(update={"owner": "", "until_ms": 0})


DAY_MS = 86_400_000
SHORTEST_MS = 60_000
_UNITS = {"m": 60_000, "h": 3_600_000, "d": DAY_MS}
_EVERY = re.compile(r"every ([0-9]{1,4}) ?([mhd])")
_DAILY = re.compile(r"daily(?: at)? ([0-9]{1,2}):([0-9]{2})")


class Schedule(BaseModel):
    """When an engine is trained, and how."""

    model_config = ConfigDict(frozen=True)

    app_id: str
    name: str
    engine_id: str
    when: str
    recipe: dict[str, Any] = Field(default_factory=dict)
    promote: bool = True
    "Promote the result if the gate allows."
    created_at: int = 0
    last_slot: int = 0
    "The newest slot that was fired."


def period_of(when: str) -> tuple[int, int]:
    """Return the distance of slots and the first one after 1970, in milliseconds.

    Errors:
        Invalid: of no known form; the message lists the forms
    """
    text = when.strip().lower()
    if text == "nightly":
        text = "daily 03:00"
    every = _EVERY.fullmatch(text)
    daily = _DAILY.fullmatch(text)
    if every and (period := int(every[1]) * _UNITS[every[2]]) >= SHORTEST_MS:
        return period, 0
    if daily and int(daily[1]) < 24 and int(daily[2]) < 60:
        return DAY_MS, int(daily[1]) * 3_600_000 + int(daily[2]) * 60_000
    raise Invalid(f"{when!r} is no schedule; say for example `every 6h`, `daily 03:30` (UTC) or `nightly`")


def due_slot(schedule: Schedule, now_ms: int) -> int | None:
    """Return the due slot; of several missed slots, return only the newest."""
    slot = newest_slot(schedule.when, now_ms)
    # Slots before its creation are not made up for.
    return slot if slot > max(schedule.last_slot, schedule.created_at) else None


def newest_slot(when: str, now_ms: int) -> int:
    """Return the newest slot at a time."""
    period, first = period_of(when)
    # The newest multiple of the period, counted from `first` after midnight of 1970-01-01 UTC.
    return (now_ms - first) // period * period + first


def next_slot(schedule: Schedule, now_ms: int) -> int:
    """Return the next slot after a time."""
    return newest_slot(schedule.when, now_ms) + period_of(schedule.when)[0]


def run_id_of(schedule: Schedule, slot: int) -> str:
    """Return the run id of a slot, so that a slot has one run even if it fires repeatedly."""
    return f"{schedule.name}-{slot // 1000}"
