"""Sign the unsigned manifests of an earlier release once, at the first start of this release.

Earlier releases wrote manifests without MACs and key records with unauthenticated labels. The first start signs
them and marks the data directory; from then on nothing unsigned is accepted. After a downgrade, an administrator
signs again by `kiosk artifacts sign`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import structlog

from cluster.admin.master_keys import open_vault
from cluster.artifacts.signing import SigningResult, sign_manifests
from cluster.crypto import Vault
from cluster.errors import Fault
from cluster.paths import InstallationPaths, write_private
from cluster.process.artifact_access import open_artifact_store
from cluster.process.store_connections import ADMIN_S, connect
from cluster.records.api_keys import is_signed, reveal_key, sign_key
from cluster.settings import Settings
from cluster.store.administration.apps_and_keys import AppAndKeyStore

_MARKER_TEXT = "Everything that stood here unsigned was signed; what is unsigned now is not believed.\n"


@dataclass(frozen=True, slots=True)
class KeySigningResult:
    """Counts of the key records."""

    signed: tuple[str, ...]
    "Keys whose records were signed, or with `dry_run` would be: id, kind and app."
    valid: int
    refused: tuple[str, ...]
    "Keys that this master key does not decrypt, or whose labels were changed."


async def sign_unsigned(settings: Settings) -> bool:
    """Sign the unsigned files and keys of an earlier release; return False when that was done before."""
    paths = InstallationPaths.from_data_dir(settings.data_dir)
    # Once only: what appears unsigned later may be forged, and must not be signed.
    if paths.signing_marker.exists():
        return False
    async with connect(settings, slow_s=ADMIN_S) as stores:
        keys = await sign_keys(stores.access, open_vault(settings))
    manifests = await asyncio.to_thread(sign_manifests, open_artifact_store(settings), foreign=False)
    # last: an interrupted start repeats it
    write_private(paths.signing_marker, _MARKER_TEXT)
    _log_result(manifests, keys)
    return True


async def sign_keys(access: AppAndKeyStore, vault: Vault, *, dry_run: bool = False) -> KeySigningResult:
    """Sign the labels of key records without a proof; an invalid proof is never replaced."""
    done = []
    valid = 0
    refused = []
    for key in (await access.read_all()).keys.values():
        name = f"{key.key_id} ({key.kind} key of {key.app_id})"
        try:
            if is_signed(key):
                reveal_key(vault, key)
                valid += 1
                continue
            after = sign_key(vault, key)
        except Fault:
            refused.append(name)
            continue
        if not dry_run:
            await access.put_key(after)
        done.append(name)
    return KeySigningResult(tuple(done), valid, tuple(refused))


def _log_result(manifests: SigningResult, keys: KeySigningResult) -> None:
    log = structlog.get_logger()
    if manifests.signed or keys.signed:
        log.info("unsigned_adopted", manifests=len(manifests.signed), keys=len(keys.signed))
    if manifests.damaged or keys.refused:
        log.error("not_adopted", manifests=list(manifests.damaged), keys=list(keys.refused))
