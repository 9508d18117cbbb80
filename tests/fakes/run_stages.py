"""The stages of a run, executed in the calling thread instead of a worker's."""

from __future__ import annotations

from typing import Any

from jobs.refresh.runs.measurements.measurement import open_stages
from jobs.refresh.runs.run_attempt import RunAttempt


def run_stages(attempt: RunAttempt, last: str = "") -> dict[str, Any]:
    """Execute the stages, up to the last one if it is named; return the fields of the run record."""
    stages = open_stages(attempt)
    result: Any = None
    while True:
        try:
            stage = stages.send(result)
        except StopIteration as end:
            return dict(end.value)
        result = stage.act()
        facts = stage.describe(result)
        if stage.name == last:
            return facts
