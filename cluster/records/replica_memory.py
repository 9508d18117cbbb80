"""What the loaded apps of an API replica take of its memory budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ABOVE_BUDGET_MB = 256
"""MiB that Ray reserves for a full replica above its empty process and its budget. The budget bounds an estimate of the
apps' arrays; the process also has the state that a renewal loads beside the old one, and memory that the allocator
returns late. Measured: 983 to 1,093 MiB resident with 13 apps of 20,000 products and a budget of 512."""


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
