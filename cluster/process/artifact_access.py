"""Open the artifact store of this installation in any process, and sweep the copies that a node has of its files."""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import structlog

from cluster.admin.master_keys import manifest_signer
from cluster.artifacts.storage.artifact_store import PATIENT, ArtifactStore, RetryPolicy
from cluster.artifacts.storage.file_system_kind import is_network_folder
from cluster.artifacts.storage.node_cache import SWEEP_S, NodeCache
from cluster.errors import KioskError
from cluster.process.installation_identity_check import check_artifact_store
from cluster.settings import Settings
from cluster.store.writer_lock import lock_writer


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
            except (KioskError, OSError) as error:
                log.warning("copies_not_swept", reason=str(error))
                continue
            if removed:
                log.info("copies_swept", removed=removed)
    finally:
        thread.shutdown(wait=False, cancel_futures=True)


def open_artifact_store(
    settings: Settings | None = None, *, patience: RetryPolicy | None = None, verified: bool = True
) -> ArtifactStore:
    """Open the artifact store; manifests and results read from it must be signed by this installation.

    Without `verified` it needs no key, and the caller may look at formats only. A store that is not the one of the
    installation in Redis is refused.

    Actors receive this function itself, without arguments: no key travels through Ray.

    Errors:
        Invalid: the address of the store is not supported
        InvalidSetting: it is the store of another installation, or of none
    """
    settings = Settings() if settings is None else settings
    store = open_artifact_store_at(settings.artifacts_address, settings, patience=patience, verified=verified)
    check_artifact_store(store, settings)
    return store


def open_patient_artifact_store() -> ArtifactStore:
    """Open the artifact store for trainings and other jobs, which wait out an outage of about three minutes."""
    return open_artifact_store(patience=PATIENT)


def open_artifact_store_at(
    address: str, settings: Settings, *, patience: RetryPolicy | None = None, verified: bool = True
) -> ArtifactStore:
    """Open a store at any address with the signer, the cache folder and the writers' lock of this installation.

    Errors:
        Invalid: the address is not supported
    """
    url = settings.redis_address
    return ArtifactStore.open(
        address,
        copy=settings.artifacts_copy,
        signer=manifest_signer(settings) if verified else None,
        # In MiB in the setting, in bytes here.
        cache=NodeCache(cache_folder(settings), settings.cache_mb << 20),
        writer_lock=None if url is None else partial(lock_writer, url),
        patience=patience,
    )


def open_scratch_artifact_store(folder: Path) -> ArtifactStore:
    """Open an artifact store that only this process uses; its manifests are not signed."""
    return ArtifactStore.open(folder)


def artifact_store_opener(settings: Settings) -> Callable[[], ArtifactStore]:
    """Return a function that opens the same store for a job on any node; it carries addresses and no key."""
    return partial(_open_of, str(settings.data_dir), settings.artifacts_url)


def cache_folder(settings: Settings) -> Path:
    """Return the folder of this node's copies."""
    if settings.cache_dir is not None:
        return settings.cache_dir.expanduser().absolute()
    # Copies on a network folder would save no read over the network.
    if not is_network_folder(settings.data_dir):
        return settings.data_dir / "cache"
    mark = hashlib.sha256(str(settings.data_dir).encode()).hexdigest()[:8]
    return Path(tempfile.gettempdir()) / f"kiosk-cache-{os.getuid()}-{mark}"


def _open_of(data_dir: str, artifacts_url: str) -> ArtifactStore:
    settings = Settings(data_dir=Path(data_dir), artifacts_url=artifacts_url)
    return open_artifact_store(settings, patience=PATIENT)
