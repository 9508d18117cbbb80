"""Connections from an API replica to dedicated engines: the Serve handle, and local channels on the same machine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from actors.serving.client import RemoteRecommenderClient
from cluster.records.engine import application_name
from cluster.store.engines.engine_activity import EngineActivityStore
from deployments.hosts.local_channel import LocalChannelPool


class EngineConnections:
    """Makes clients of dedicated engines.

    `find_handle` returns the Serve handle of an application. `lost` are the errors raised when a replica died.
    """

    def __init__(
        self,
        run_dir: Path,
        watch: EngineActivityStore,
        find_handle: Callable[[str], Awaitable[Any]],
        lost: tuple[type[Exception], ...],
    ) -> None:
        self._run_dir = run_dir
        self._watch = watch
        self._find_handle = find_handle
        self._lost = lost
        self._pools: dict[str, LocalChannelPool] = {}

    async def connect(self, app_id: str, engine_id: str) -> RemoteRecommenderClient:
        """Return a client of a dedicated engine.

        Errors:
            the errors of Serve if the application does not exist
        """
        name = application_name(app_id, engine_id)
        handle = await self._find_handle(name)
        # Messages are bytes, so plain pickle is enough; cloudpickle would be slower.
        plain = handle.options(request_serialization="pickle", response_serialization="pickle")
        pools = self._pools.get(name)
        if pools is None:
            pools = self._pools[name] = LocalChannelPool(self._run_dir, name)
        return RemoteRecommenderClient(plain, lost=self._lost, find_line=pools.select, find_spare=pools.spare)

    async def count_replicas(self, app_id: str, engine_ids: Sequence[str]) -> None:
        """Update how many replicas each engine has on all machines."""
        pools = {name: self._pools.get(application_name(app_id, name)) for name in engine_ids}
        if not any(pools.values()):
            return
        statuses = await self._watch.list_statuses(app_id)
        for name, pool in pools.items():
            if pool is not None and name in statuses:
                pool.replicas = statuses[name].replicas

    async def close(self) -> None:
        for pools in self._pools.values():
            await pools.close()
