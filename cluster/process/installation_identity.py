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

A process may have several master keys, the current one first. The first start whose current key is another one than
Redis says changes that: from then on a process needs the new key and those before it, until
`kiosk master-key reseal` found nothing that is sealed with those.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Sequence
from dataclasses import replace

from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.errors import Conflict, Fault, InvalidSetting, NotFound
from cluster.store.connect import OpenStores
from cluster.store.installation.identity import IdentityStore, StoredIdentity

IDENTITY_FILE = "installation.json"
"At the root of the artifact store."


def find_mismatch(
    recorded: StoredIdentity,
    *,
    fingerprints: Sequence[str] | None = None,
    artifact_id: str | None = None,
    address: str = "",
) -> str:
    """Return why a process must not work on a Redis and what to do, or an empty text.

    `fingerprints` and `artifact_id` are empty where there is no key or no id, None where a process uses none.
    `address` is that of the artifact store.
    """
    if fingerprints is not None and recorded.fingerprint not in ("", *fingerprints):
        difference = "is not that of" if fingerprints else "is missing, and this Redis belongs to"
        return (
            f"the master key {difference} installation {recorded.installation_id}: give its key by KIOSK_MASTER_KEY or "
            "KIOSK_MASTER_KEY_FILE, or set KIOSK_REDIS_URL to another Redis"
        )
    lacking = (
        []
        if fingerprints is None
        else [previous for previous in recorded.previous if previous not in fingerprints]
    )
    if lacking:
        return (
            f"the previous master key {lacking[0]} of installation {recorded.installation_id} is missing, and "
            "something may still be sealed with it: give it after the current one, run `kiosk master-key reseal`, "
            "then remove it"
        )
    # A Redis without an id is of a first start or an older release; the next start writes it.
    if artifact_id is None or recorded.installation_id in ("", artifact_id):
        return ""
    difference = f"belongs to installation {artifact_id}" if artifact_id else "has no installation.json"
    return (
        f"the artifact store {address} {difference}, but this Redis belongs to installation "
        f"{recorded.installation_id}: set KIOSK_DATA_DIR or KIOSK_ARTIFACTS_URL to its artifact store, and see that "
        "it is mounted; if it was replaced on purpose, `kiosk cluster adopt` marks it"
    )


def refuse_mismatch(
    recorded: StoredIdentity,
    *,
    fingerprints: Sequence[str] | None = None,
    artifact_id: str | None = None,
    address: str = "",
) -> None:
    """Refuse what `find_mismatch` finds.

    Errors:
        InvalidSetting: the key or the artifact store is not that of the installation
    """
    reason = find_mismatch(recorded, fingerprints=fingerprints, artifact_id=artifact_id, address=address)
    if reason:
        raise InvalidSetting(reason)


def read_artifact_id(artifacts: ArtifactStore) -> str:
    """Return the id at the root of an artifact store; empty without one.

    Errors:
        Fault: the file is damaged
    """
    try:
        return artifacts.read_parsed(IDENTITY_FILE, _parse)
    except NotFound:
        return ""


async def mark_installation(
    stores: OpenStores, artifacts: ArtifactStore, fingerprints: Sequence[str], address: str
) -> StoredIdentity:
    """Write the identity where it is missing, refuse another one, and return it with the current master key.

    The artifact store is written first: an interrupted call leaves no id in Redis that a store can't match.

    Errors:
        InvalidSetting: the key or the artifact store is not that of the installation
        Unavailable: Redis or the store does not answer
    """
    redis = IdentityStore(stores.server)
    recorded = await redis.read()
    artifact_id = await asyncio.to_thread(read_artifact_id, artifacts)
    refuse_mismatch(recorded, fingerprints=fingerprints, artifact_id=artifact_id, address=address)
    # A start without a master key has left the fingerprint empty.
    if not recorded.installation_id or not recorded.fingerprint:
        if not artifact_id:
            artifact_id = await asyncio.to_thread(_create, artifacts)
        # Of two first starts, one claims Redis; the other gets what that
        # one wrote and is compared with it below.
        recorded = await redis.claim(StoredIdentity(artifact_id, fingerprints[0] if fingerprints else ""))
        if fingerprints[1:] and not recorded.previous:
            recorded = replace(recorded, previous=tuple(fingerprints[1:]))
            await redis.replace(recorded)
        refuse_mismatch(recorded, fingerprints=fingerprints, artifact_id=artifact_id, address=address)
    return await switch_master_key(stores, recorded, fingerprints)


async def switch_master_key(
    stores: OpenStores, recorded: StoredIdentity, fingerprints: Sequence[str]
) -> StoredIdentity:
    """Make the first of this process's master keys the current one of the installation; return the identity.

    The key before it becomes a previous one, which every process needs until a reseal has ended.
    """
    if not fingerprints or recorded.fingerprint == fingerprints[0]:
        return recorded
    older = (
        previous
        for previous in (recorded.fingerprint, *recorded.previous)
        if previous not in ("", fingerprints[0])
    )
    identity = replace(recorded, fingerprint=fingerprints[0], previous=tuple(dict.fromkeys(older)))
    await IdentityStore(stores.server).replace(identity)
    return identity


async def forget_previous_keys(stores: OpenStores) -> StoredIdentity:
    """Record that nothing is sealed with previous master keys any more; return the identity."""
    redis = IdentityStore(stores.server)
    identity = replace(await redis.read(), previous=())
    await redis.replace(identity)
    return identity


async def adopt_installation(
    stores: OpenStores, artifacts: ArtifactStore, fingerprints: Sequence[str]
) -> StoredIdentity:
    """Register an artifact store and the master keys as those of a Redis, replacing any earlier identity;
    return the identity.
    """
    redis = IdentityStore(stores.server)
    installation_id = (await redis.read()).installation_id or await asyncio.to_thread(
        read_artifact_id, artifacts
    )
    identity = StoredIdentity(installation_id or uuid.uuid4().hex, fingerprints[0], tuple(fingerprints[1:]))
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
        installation_id = json.loads(data)["installation_id"]
    except (ValueError, KeyError, TypeError):
        installation_id = None
    if not isinstance(installation_id, str) or not installation_id.isalnum() or len(installation_id) > 64:
        raise Fault(f"{IDENTITY_FILE} of the artifact store is damaged; `kiosk cluster adopt` writes it anew")
    return installation_id
