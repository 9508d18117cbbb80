"""Writing the identity of an installation at its first start, and by order of an operator."""

from __future__ import annotations

from cluster.admin.master_keys import master_key_fingerprints, open_vault
from cluster.errors import InvalidSetting
from cluster.process.artifact_access import open_artifact_store_at
from cluster.process.installation_identity import adopt_installation, mark_installation
from cluster.process.signing_upgrade import sign_keys
from cluster.process.store_connections import ADMIN_S, connect
from cluster.settings import Settings
from cluster.store.connect import OpenStores
from cluster.store.installation.identity import IdentityStore, StoredIdentity


async def mark_identity(settings: Settings) -> StoredIdentity:
    """Write the identity where it is missing, refuse another one, and return it.

    An installation of an earlier release has none; its first start must read at least one API key.

    Errors:
        InvalidSetting: the key or the artifact store is not that of the installation
    """
    address = settings.artifacts_address
    async with connect(settings, slow_s=ADMIN_S) as stores:
        if not (await IdentityStore(stores.server).read()).fingerprint:
            await _refuse_foreign_keys(stores, settings)
        artifacts = open_artifact_store_at(address, settings)
        return await mark_installation(stores, artifacts, master_key_fingerprints(settings), str(address))


async def adopt_identity(stores: OpenStores, settings: Settings) -> StoredIdentity:
    """Make the artifact store and the master key of this machine those of the installation in Redis."""
    open_vault(settings)
    artifacts = open_artifact_store_at(settings.artifacts_address, settings)
    return await adopt_installation(stores, artifacts, master_key_fingerprints(settings))


async def _refuse_foreign_keys(stores: OpenStores, settings: Settings) -> None:
    result = await sign_keys(stores.access, open_vault(settings), dry_run=True)
    if result.refused and not result.signed and not result.valid:
        raise InvalidSetting(
            f"none of {len(result.refused)} API keys in Redis opens under this master key: give the key of their "
            "installation by KIOSK_MASTER_KEY or KIOSK_MASTER_KEY_FILE, or `kiosk cluster adopt` this one"
        )
