"""The keys by which a publisher signs statements about citations: Ed25519, one for each app and generation.

The private key is derived from the master key, so it is stored nowhere, and each replica has it. Public keys are stored
until the publisher removes one: statements of earlier generations, and of earlier master keys, stay verifiable.

Source: RFC 7515 (JWS), RFC 7517 (JWK), RFC 7638 (thumbprint), RFC 8037 (Ed25519)
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from cluster.clock import Clock
from cluster.crypto import Vault
from cluster.errors import NotFound
from cluster.records.archive.article_revision import PublisherKey
from cluster.store.archive.publisher_keys import PublisherKeyStore
from cluster.store.refreshing_cache import RefreshingCache

TYPE = "citations+jwt"
"Type of a statement, so that no other token of the installation passes for one."
KEEP_S = 1.0
"Seconds after which a replica signs with the key of a rotation."


@dataclass(frozen=True, slots=True)
class _KeyRing:
    keys: Mapping[str, PublisherKey]
    current: PublisherKey
    private: Ed25519PrivateKey


class CitationSigningKeys:
    """Signs statements with the newest key of an app."""

    def __init__(self, vault: Vault, store: PublisherKeyStore, clock: Clock) -> None:
        self._vault = vault
        self._store = store
        self._clock = clock
        self._cache = RefreshingCache(self._load, clock, keep_s=KEEP_S)

    async def list_keys(self, app_id: str) -> list[dict[str, str]]:
        """Return the public keys of an app as JWKs, the current one first."""
        ring = await self._cache.read(app_id)
        rest = sorted(ring.keys.values(), key=lambda key: (-key.created_at, key.key_id))
        ordered = {key.key_id: key for key in (ring.current, *rest)}
        return [_jwk(key) for key in ordered.values()]

    async def sign(self, app_id: str, claims: Mapping[str, Any]) -> str:
        """Return a statement as a compact JWS.

        Cost: 60 microseconds, and 10 for each KB
        """
        ring = await self._cache.read(app_id)
        header = {"alg": "EdDSA", "kid": ring.current.key_id, "typ": TYPE}
        signed = ".".join(_encode_urlsafe(orjson.dumps(part)) for part in (header, dict(claims)))
        return f"{signed}.{_encode_urlsafe(ring.private.sign(signed.encode()))}"

    async def rotate(self, app_id: str) -> PublisherKey:
        """Begin the next generation; statements of earlier keys stay verifiable."""
        before = await self._cache.refresh(app_id)
        key, _ = self._derive(app_id, before.current.generation + 1)
        await self._store.add(app_id, key)
        await self._cache.refresh(app_id)
        return key

    async def remove(self, app_id: str, key_id: str) -> PublisherKey:
        """Remove a public key, whose statements can't be verified any more, and return the key that signs from now on.

        If that was the removed one, a new generation begins first, because a current key would come back.

        Errors:
            NotFound: the app has no such key
        """
        ring = await self._cache.refresh(app_id)
        if key_id not in ring.keys:
            raise NotFound(f"{app_id} has no public key {key_id[:64]}")
        current = await self.rotate(app_id) if key_id == ring.current.key_id else ring.current
        await self._store.remove(app_id, key_id)
        await self._cache.refresh(app_id)
        return current

    async def _load(self, app_id: str, _last: _KeyRing | None) -> _KeyRing:
        keys = await self._store.all(app_id)
        generation = max((key.generation for key in keys.values()), default=1)
        current, private = self._derive(app_id, generation)
        if current.key_id not in keys:
            # The first use of an app's key, or of a new master key.
            await self._store.add(app_id, current)
            keys = {**keys, current.key_id: current}
        return _KeyRing(keys, current, private)

    def _derive(self, app_id: str, generation: int) -> tuple[PublisherKey, Ed25519PrivateKey]:
        seed = self._vault.derive(f"citation statements of {app_id}, generation {generation}")
        private = Ed25519PrivateKey.from_private_bytes(seed)
        public = _encode_urlsafe(private.public_key().public_bytes_raw())
        return PublisherKey(
            key_id=_thumbprint(public),
            generation=generation,
            public_key=public,
            created_at=self._clock.now_ms(),
        ), private


def _jwk(key: PublisherKey) -> dict[str, str]:
    return {
        "kty": "OKP",
        "crv": "Ed25519",
        "x": key.public_key,
        "kid": key.key_id,
        "use": "sig",
        "alg": "EdDSA",
    }


def _thumbprint(public: str) -> str:
    members = json.dumps({"crv": "Ed25519", "kty": "OKP", "x": public}, separators=(",", ":"))
    return _encode_urlsafe(hashlib.sha256(members.encode()).digest())


def _encode_urlsafe(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
