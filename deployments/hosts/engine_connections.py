"""How doors reach engines with a place of their own: the handle of the deployment, and lines to replicas near by."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from actors.serving.client import RemoteRecommenderClient
from cluster.records.engine import application_name
from cluster.store.ports.engines import EngineWatch
from deployments.hosts.local_channel import LocalChannelPool


class EngineConnections:
    """Finds deployments by the names of their engines; `find_handle` asks Serve, `lost` says that a replica died."""

    def __init__(
        self,
        run_dir: Path,
        watch: EngineWatch,
        find_handle: Callable[[str], Awaitable[Any]],
        lost: tuple[type[Exception], ...],
    ) -> None:
        self._run_dir = run_dir
        self._watch = watch
        self._find_handle = find_handle
        self._lost = lost
        self._pools: dict[str, LocalChannelPool] = {}

    async def connect(self, app_id: str, engine_id: str) -> RemoteRecommenderClient:
        """Make a client of an engine's own deployment.

        Errors:
            what Serve raises where there is none
        """
        name = application_name(app_id, engine_id)
        handle = await self._find_handle(name)
        # both ends know the messages: nothing needs to be carried that only cloudpickle can
        plain = handle.options(request_serialization="pickle", response_serialization="pickle")
        pools = self._pools.get(name)
        if pools is None:
            pools = self._pools[name] = LocalChannelPool(self._run_dir, name)
        return RemoteRecommenderClient(plain, lost=self._lost, find_line=pools.select)

    async def count_replicas(self, app_id: str, engine_ids: Sequence[str]) -> None:
        """Let lines know how many replicas there are besides those they reach.

        Errors:
            Unavailable: the store is away
        """
        pools = {name: self._pools.get(application_name(app_id, name)) for name in engine_ids}
        if not any(pools.values()):
            return
        statuses = await self._watch.list_statuses(app_id)
        for name, one in pools.items():
            if one is not None and name in statuses:
                one.replicas = statuses[name].replicas

    async def close(self) -> None:
        """Hang up."""
        for pools in self._pools.values():
            await pools.close()
