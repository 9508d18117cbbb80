"""What the loaded apps of an API replica take of its memory budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ReplicaMemory:
    """The memory of one API replica."""

    replica: str
    at_ms: int
    budget_bytes: int
    counted_bytes: int
    "Estimate for all loaded engines and archives."
    apps: int
    large_apps: Mapping[str, int] = field(default_factory=dict)
    "App -> bytes, of apps that alone take more than the budget."
    reloads: Mapping[str, int] = field(default_factory=dict)
    "App -> loads in the last ten minutes that followed an unloading within ten minutes."
