"""The identity check of every kind of process, called where it opens its key or its artifact store.

process                                     what is checked       by
start: `kiosk up`, `cluster up | attach`    both, and written     `identity_registration.mark_identity`
API replica                                 both                  `IdentityWatch`, `open_artifact_store`
command                                     key; the store if used  `prepare_master_key`, `open_artifact_store`
dedicated engine                            the store             `IdentityWatch`, `open_artifact_store`
actor, job, training                        the store             `open_artifact_store`

Long-lived processes may start while Redis is away; an `IdentityWatch` checks them when it first answers.
"""

from __future__ import annotations

import asyncio

import structlog

from cluster.admin.master_keys import ensure_master_key, master_key_fingerprints
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import InvalidSetting, KioskError, Unavailable
from cluster.process.installation_identity import read_artifact_id, refuse_mismatch
from cluster.process.store_connections import connect, run_blocking
from cluster.settings import Settings
from cluster.store.connect import OpenStores
from cluster.store.installation.identity import IdentityStore, StoredIdentity

_log = structlog.get_logger()


class IdentityWatch:
    """Checks the identity of one process; while Redis or the artifact store is away, once a second until both answer.

    `has_key` means that the process uses the master key; `artifacts` is None until it opens the artifact store.
    """

    def __init__(self, stores: OpenStores, settings: Settings, *, has_key: bool) -> None:
        self._stores = stores
        self._settings = settings
        self._has_key = has_key
        self._artifacts: ArtifactStore | None = None
        self._task: asyncio.Task[None] | None = None
        self._refused: InvalidSetting | None = None

    @classmethod
    async def open(cls, stores: OpenStores, settings: Settings, *, has_key: bool) -> IdentityWatch:
        """Return a watch that has checked once.

        Errors:
            InvalidSetting: the key is not that of the installation
        """
        watch = cls(stores, settings, has_key=has_key)
        await watch.check()
        return watch

    @property
    def is_foreign_store(self) -> bool:
        """Return whether this process belongs to another installation."""
        return self._refused is not None

    async def check(self) -> bool:
        """Return whether the identity is known and right; False while it can't be read.

        Errors:
            InvalidSetting: the key or the artifact store is not that of the installation
        """
        try:
            recorded = await IdentityStore(self._stores.server).read()
            artifact_id = await self._read_artifact_id(recorded)
        except Unavailable as error:
            _log.warning("identity_not_checked", reason=error.message)
            return False
        # The difference is final: unlike an outage, it is not tried again but kept for the health check.
        try:
            refuse_mismatch(
                recorded,
                fingerprints=master_key_fingerprints(self._settings) if self._has_key else None,
                artifact_id=artifact_id,
                address=str(self._settings.artifacts_address),
            )
        except InvalidSetting as error:
            _log.error("identity_refused", reason=error.message)
            self._refused = error
            raise
        return True

    def follow(self, artifacts: ArtifactStore, every_s: float = 1.0) -> None:
        """Check in the background until the identity is known."""
        self._artifacts = artifacts
        self._task = asyncio.get_running_loop().create_task(self._repeat(every_s))

    def refuse(self) -> None:
        """Refuse to go on if the identity turned out to be wrong.

        Errors:
            InvalidSetting: the key or the artifact store is not that of the installation
        """
        if self._refused is not None:
            raise self._refused

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _read_artifact_id(self, recorded: StoredIdentity) -> str | None:
        # Reading the store costs a request to it, which may be remote, so
        # it is left out where nothing is compared.
        if self._artifacts is None or not recorded.installation_id:
            return None
        return await asyncio.to_thread(read_artifact_id, self._artifacts)

    async def _repeat(self, every_s: float) -> None:
        while True:
            try:
                if await self.check():
                    return
            except InvalidSetting:
                return  # the next health check ends the process
            except KioskError as error:
                _log.error("identity_not_checked", reason=error.message)
            await asyncio.sleep(every_s)


async def prepare_master_key(stores: OpenStores, settings: Settings) -> None:
    """Create the master key of a new installation, and none where Redis belongs to one that has a key.

    Errors:
        InvalidSetting: the key is missing, or not that of the installation
        Fault: the existing key is damaged
        Unavailable: Redis does not answer
    """
    # Compared first: a new key beside existing sealed data would read none of it.
    recorded = await IdentityStore(stores.server).read()
    refuse_mismatch(recorded, fingerprints=master_key_fingerprints(settings))
    ensure_master_key(settings)


def prepare_external_key(settings: Settings) -> None:
    """Do the same as `prepare_master_key`, with a separate connection if Redis is external.

    Errors:
        InvalidSetting: the key is missing, or not that of the installation
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
    # No Redis is known here, so there is nothing to compare with.
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
        recorded = await IdentityStore(stores.server).read()
    if recorded.installation_id:
        artifact_id = await asyncio.to_thread(read_artifact_id, artifacts)
        refuse_mismatch(recorded, artifact_id=artifact_id, address=str(settings.artifacts_address))
