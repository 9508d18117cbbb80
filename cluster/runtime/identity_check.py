"""The identity check of every kind of process, called where it opens its key or its artifact store.

process                                     what is checked       by
start: `kiosk up`, `cluster up | attach`    both, and written     `identity_start.mark_identity`
API replica                                 both                  `check_master_key`, `open_artifact_store`
command                                     key; the store if used  `prepare_master_key`, `open_artifact_store`
engine, actor, job, training                the store             `open_artifact_store`
"""

from __future__ import annotations

import asyncio

import structlog

from cluster.admin.vault import ensure_master_key, master_key_fingerprint
from cluster.artifacts.artifact_store import ArtifactStore
from cluster.errors import InvalidSetting, Unavailable
from cluster.runtime.connecting import connect, run_blocking
from cluster.runtime.identity import read_artifact_id, refuse_mismatch
from cluster.settings import Settings
from cluster.store.connect import OpenStores
from cluster.store.redis.installation import RedisInstallation

_log = structlog.get_logger()


async def check_master_key(stores: OpenStores, settings: Settings) -> None:
    """Refuse another master key than that of the installation; while Redis is away, it is not known.

    Errors:
        InvalidSetting: the key is not that of the installation
    """
    try:
        recorded = await RedisInstallation(stores.server).read()
    except Unavailable as error:
        _log.warning("master_key_not_checked", reason=error.message)
        return
    try:
        refuse_mismatch(recorded, fingerprint=master_key_fingerprint(settings))
    except InvalidSetting as error:
        _log.error("identity_refused", reason=error.message)
        raise


async def prepare_master_key(stores: OpenStores, settings: Settings) -> None:
    """Create the master key of a new installation, and none where Redis belongs to one that has a key.

    Errors:
        InvalidSetting: the key is missing, or not that of the installation
        Fault: the existing key is damaged
        Unavailable: Redis does not answer
    """
    recorded = await RedisInstallation(stores.server).read()
    refuse_mismatch(recorded, fingerprint=master_key_fingerprint(settings))
    ensure_master_key(settings)


def prepare_external_key(settings: Settings) -> None:
    """Do the same as `prepare_master_key`, with a separate connection if Redis is external.

    Errors:
        InvalidSetting: the key is missing, or not that of the installation
        Fault: the existing key is damaged
        Unavailable: Redis does not answer
    """
    if not settings.redis_is_external:
        ensure_master_key(settings)
        return

    async def prepare() -> None:
        async with connect(settings) as stores:
            await prepare_master_key(stores, settings)

    run_blocking(prepare())


def check_artifact_store(artifacts: ArtifactStore, settings: Settings) -> None:
    """Refuse an artifact store that is not the installation's; while it or Redis is away, it is not known.

    Errors:
        InvalidSetting: it has another id, or none
    """
    if settings.redis_address is None:
        return

    try:
        run_blocking(_check_artifact_store(artifacts, settings))
    except Unavailable as error:
        _log.warning("artifact_store_not_checked", reason=error.message)
    except InvalidSetting as error:
        _log.error("identity_refused", reason=error.message)
        raise


async def _check_artifact_store(artifacts: ArtifactStore, settings: Settings) -> None:
    async with connect(settings) as stores:
        recorded = await RedisInstallation(stores.server).read()
    if recorded.installation_id:
        found = await asyncio.to_thread(read_artifact_id, artifacts)
        refuse_mismatch(recorded, artifact_id=found, address=str(settings.artifacts_address))
