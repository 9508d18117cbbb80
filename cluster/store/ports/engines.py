"""The protocols of the store of engines and of the traffic and status of engines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from cluster.records.engine import Engine, EngineStatus, Placement


@dataclass(frozen=True, slots=True)
class EngineTraffic:
    """The requests to an engine in one of its placements."""

    per_s: float
    "Over the last minute."
    last_ms: int


class EngineStore(Protocol):
    """The engines of an app: few, small, read when an engine is opened."""

    async def get(self, app_id: str, engine_id: str) -> Engine | None: ...

    async def put(self, engine: Engine) -> None: ...

    async def add(self, engine: Engine) -> bool:
        """Add an engine; return False when the name is taken."""
        ...

    async def change(self, app_id: str, engine_id: str, change: Callable[[Engine], Engine]) -> Engine | None:
        """Change an engine atomically and return it; None when it is absent.

        `change` may be called more than once.
        """
        ...

    async def remove(self, app_id: str, engine_id: str) -> bool:
        """Remove an engine; return False when it was absent."""
        ...

    async def all(self, app_id: str) -> list[Engine]: ...


class EngineWatch(Protocol):
    """Traffic and status of engines while they serve; may be lost at any time."""

    async def add_requests(
        self, app_id: str, asked: Mapping[tuple[Placement, str], int], now_ms: int
    ) -> None:
        """Add requests by placement and engine id."""
        ...

    async def read_traffic(self, app_id: str, now_ms: int) -> dict[tuple[Placement, str], EngineTraffic]:
        """Return the recent traffic of each engine in each of its placements."""
        ...

    async def record(self, status: EngineStatus) -> None: ...

    async def list_statuses(self, app_id: str) -> dict[str, EngineStatus]: ...

    async def delete(self, app_id: str, engine_id: str) -> None:
        """Delete the status of an engine without a deployment."""
        ...
