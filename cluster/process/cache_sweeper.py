"""Remove this node's copies whose original is gone from the artifact store."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import structlog

from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.artifacts.storage.node_cache import SWEEP_S
from cluster.errors import HouseError


async def sweep_copies_forever(store: ArtifactStore, pause_s: float = SWEEP_S) -> None:
    """Sweep again and again until cancelled; does nothing for a store whose files are mapped in place."""
    if store.in_place:
        return
    log = structlog.get_logger()
    thread = ThreadPoolExecutor(1, thread_name_prefix="sweep-copies")  # the store may answer late
    try:
        while True:
            await asyncio.sleep(pause_s)
            try:
                removed = await asyncio.get_running_loop().run_in_executor(thread, store.sweep_copies)
            except (HouseError, OSError) as error:
                log.warning("copies_not_swept", reason=str(error))
                continue
            if removed:
                log.info("copies_swept", removed=removed)
    finally:
        thread.shutdown(wait=False, cancel_futures=True)
