"""Schedules: engines that are trained again by themselves. A slot is a moment at which one is due.

- `every 6h`: 21,600,000 ms apart, counted from 1970
- `daily 03:30`: once a day at this time, UTC
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from cluster.errors import Invalid

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
    "Let the result serve, if the gate allows."
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
    every, daily = _EVERY.fullmatch(text), _DAILY.fullmatch(text)
    if every and (period := int(every[1]) * _UNITS[every[2]]) >= SHORTEST_MS:
        return period, 0
    if daily and int(daily[1]) < 24 and int(daily[2]) < 60:
        return DAY_MS, int(daily[1]) * 3_600_000 + int(daily[2]) * 60_000
    raise Invalid(f"{when!r} is no schedule; say for example `every 6h`, `daily 03:30` (UTC) or `nightly`")


def due_slot(schedule: Schedule, now_ms: int) -> int | None:
    """Return the due slot; of several missed ones only the newest."""
    slot = newest_slot(schedule.when, now_ms)
    return slot if slot > max(schedule.last_slot, schedule.created_at) else None


def newest_slot(when: str, now_ms: int) -> int:
    """Return the newest slot at a time."""
    period, first = period_of(when)
    return (now_ms - first) // period * period + first


def next_slot(schedule: Schedule, now_ms: int) -> int:
    """Return the next slot after a time."""
    return newest_slot(schedule.when, now_ms) + period_of(schedule.when)[0]


def run_id_of(schedule: Schedule, slot: int) -> str:
    """Return the run id of a slot, so that a slot has one run even if it fires repeatedly."""
    return f"{schedule.name}-{slot // 1000}"
