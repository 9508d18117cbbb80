"""Whether a process has the master key and the artifact store of the installation its Redis belongs to.

The first start writes a random id to Redis and to the root of the artifact store, and the fingerprint of the master
key to Redis. From then on every process compares what it has with what Redis says, and a difference ends it:

    Redis    here              verdict
    no id    any               pass: the next start writes what is missing
    id A     store with A      pass
    id A     store with B      refused: the store of another installation
    id A     store without id  refused: another folder, or one that is not mounted
    key F    key F             pass
    key F    key G or none     refused
"""

from __future__ import annotations

import asyncio
import json
import uuid

from cluster.artifacts.artifact_store import ArtifactStore
from cluster.errors import Conflict, Fault, InvalidSetting, NotFound
from cluster.store.connect import OpenStores
from cluster.store.redis.installation import RedisInstallation, StoredIdentity

IDENTITY_FILE = "installation.json"
"At the root of the artifact store."


def find_mismatch(
    recorded: StoredIdentity,
    *,
    fingerprint: str | None = None,
    artifact_id: str | None = None,
    address: str = "",
) -> str:
    """Return why a process must not work on a Redis and what to do, or an empty text.

    `fingerprint` and `artifact_id` are empty where there is no key or no id, None where a process uses none.
    `address` is that of the artifact store.
    """
    if fingerprint is not None and recorded.fingerprint not in ("", fingerprint):
        found = "is not that of" if fingerprint else "is missing, and this Redis belongs to"
        return (
            f"the master key {found} installation {recorded.installation_id}: give its key by KIOSK_MASTER_KEY or "
            "KIOSK_MASTER_KEY_FILE, or set KIOSK_REDIS_URL to another Redis"
        )
    if artifact_id is None or recorded.installation_id in ("", artifact_id):
        return ""
    found = f"belongs to installation {artifact_id}" if artifact_id else "has no installation.json"
    return (
        f"the artifact store {address} {found}, but this Redis belongs to installation {recorded.installation_id}: "
        "set KIOSK_DATA_DIR or KIOSK_ARTIFACTS_URL to its artifact store, and see that it is mounted; if it was "
        "replaced on purpose, `kiosk cluster adopt` marks it"
    )


def refuse_mismatch(
    recorded: StoredIdentity,
    *,
    fingerprint: str | None = None,
    artifact_id: str | None = None,
    address: str = "",
) -> None:
    """Refuse what `find_mismatch` finds.

    Errors:
        InvalidSetting: the key or the artifact store is not that of the installation
    """
    reason = find_mismatch(recorded, fingerprint=fingerprint, artifact_id=artifact_id, address=address)
    if reason:
        raise InvalidSetting(reason)


def read_artifact_id(artifacts: ArtifactStore) -> str:
    """Return the id at the root of an artifact store; empty without one.

    Errors:
        Fault: the file is damaged
        Unavailable: the store does not answer
    """
    try:
        return artifacts.read_parsed(IDENTITY_FILE, _parse)
    except NotFound:
        return ""


async def mark_installation(
    stores: OpenStores, artifacts: ArtifactStore, fingerprint: str, address: str
) -> StoredIdentity:
    """Write the identity where it is missing, refuse another one, and return it.

    The artifact store is written first: an interrupted call leaves no id in Redis that a store can't match.

    Errors:
        InvalidSetting: the key or the artifact store is not that of the installation
        Unavailable: Redis or the store does not answer
    """
    redis = RedisInstallation(stores.server)
    recorded = await redis.read()
    found = await asyncio.to_thread(read_artifact_id, artifacts)
    refuse_mismatch(recorded, fingerprint=fingerprint, artifact_id=found, address=address)
    if recorded.installation_id and recorded.fingerprint:
        return recorded
    if not found:
        found = await asyncio.to_thread(_create, artifacts)
    recorded = await redis.claim(StoredIdentity(found, fingerprint))
    refuse_mismatch(recorded, fingerprint=fingerprint, artifact_id=found, address=address)
    return recorded


async def adopt_installation(
    stores: OpenStores, artifacts: ArtifactStore, fingerprint: str
) -> StoredIdentity:
    """Register an artifact store and a master key as those of a Redis, replacing any earlier identity;
    return the identity.
    """
    redis = RedisInstallation(stores.server)
    found = (await redis.read()).installation_id or await asyncio.to_thread(read_artifact_id, artifacts)
    identity = StoredIdentity(found or uuid.uuid4().hex, fingerprint)
    await asyncio.to_thread(artifacts.write, IDENTITY_FILE, _dump(identity.installation_id))
    await redis.replace(identity)
    return identity


def _create(artifacts: ArtifactStore) -> str:
    new = uuid.uuid4().hex
    try:
        artifacts.write(IDENTITY_FILE, _dump(new), new=True)
    except Conflict:  # another first start was faster
        return read_artifact_id(artifacts)
    return new


def _dump(installation_id: str) -> bytes:
    return json.dumps({"installation_id": installation_id}).encode() + b"\n"


def _parse(data: bytes) -> str:
    try:
        found = json.loads(data)["installation_id"]
    except (ValueError, KeyError, TypeError):
        found = None
    if not isinstance(found, str) or not found.isalnum() or len(found) > 64:
        raise Fault(f"{IDENTITY_FILE} of the artifact store is damaged; `kiosk cluster adopt` writes it anew")
    return found
