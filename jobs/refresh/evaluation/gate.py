"""The gate: may this one serve instead of that one? It reads a report (`verdict`) and nothing else, so what it says
can be said again at any time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SERVING = "serving"
POPULARITY = "popularity"


@dataclass(frozen=True, slots=True)
class GateDecision:
    """What the gate says."""

    allowed: bool
    sentence: str


def check_gate(report_: Mapping[str, Any]) -> GateDecision:
    """Decide whether what was examined may serve.

    It may unless it is certainly worse than what serves: the whole interval of the paired difference lies below
    zero. Where nothing that was learned serves yet, it must not be certainly worse than popularity.
    """
    for name, against in ((SERVING, "what serves"), (POPULARITY, "plain popularity")):
        found = report_.get("beside", {}).get(name)
        if found is None:
            continue
        change = found["after"] - found["before"]
        figures = (
            f"{found['figure']} {found['after']:.4f} against {found['before']:.4f} of {against} "
            f"({change:+.4f}, 95 % interval {found['low']:+.4f} to {found['high']:+.4f}, "
            f"{found['readers']:,} readers)"
        )
        if found["high"] < 0:
            return GateDecision(False, f"certainly worse: {figures}")
        return GateDecision(
            True, ("certainly better: " if found["low"] > 0 else "not certainly worse: ") + figures
        )
    return GateDecision(True, "there is nothing to compare it with")
