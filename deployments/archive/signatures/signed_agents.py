"""Which agent signed a request: verified, invalid or unverified. A signature gives no right, and takes none away.

    fields -> components -> times -> keys of the agent -> Ed25519 -> nonce

It happens after the token check, so no visitor can make the server fetch keys. A signature counts for a day after
its creation at most, with a nonce for an hour and once.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from urllib.parse import urlsplit

import structlog

from cluster.addresses.origin import is_loopback
from cluster.clock import Clock
from cluster.errors import Unavailable
from cluster.meter import Meter
from cluster.records.archive.archive_client import SignatureState
from cluster.store.administration.grants import GrantStore
from deployments.archive.admission import ArchiveCaller
from deployments.archive.signatures.key_directories import KeyDirectories, read_agent_address
from deployments.archive.signatures.message_signatures import (
    AgentSignature,
    SignedRequest,
    UnusableSignature,
    read_signature,
)

SKEW_S = 60
"Seconds by which the clock of an agent may differ."
MOST_LIFE_S = 86_400
# Shorter than `MOST_LIFE_S`, because the store remembers each nonce for that long.
MOST_NONCE_S = 3_600
LONGEST_NONCE = 256

_log = structlog.get_logger()


class SignedAgents:
    """Identifies the agents of signed requests."""

    def __init__(self, directories: KeyDirectories, grants: GrantStore, clock: Clock, meter: Meter) -> None:
        self._directories = directories
        self._grants = grants
        self._clock = clock
        self._meter = meter

    async def identify(self, person: ArchiveCaller, request: SignedRequest) -> ArchiveCaller:
        """Return a caller with what the signature of its request proves.

        Cost: half a millisecond, and a round trip for a nonce; at most five seconds for keys that are not in memory.
        """
        try:
            signature = read_signature(request)
            if signature is None:
                return person
            state, agent = await self._verify(signature, person, request)
        except UnusableSignature as error:
            _log.info("agent_signature_refused", reason=str(error))
            state = "invalid"
            agent = ""
        self._meter.count("kiosk_agent_signatures_total", state=state)
        return replace(person, signature=state, agent=agent)

    async def _verify(
        self, signature: AgentSignature, person: ArchiveCaller, request: SignedRequest
    ) -> tuple[SignatureState, str]:
        life_s = self._left_s(signature)
        address = read_agent_address(signature.agent)
        if address is None:
            return "unverified", ""
        key = await self._directories.find(
            address.directory,
            signature.key_id,
            user_id=person.user_id,
            may_be_loopback=is_loopback(urlsplit(request.origin).netloc),
        )
        if key is None:
            return "unverified", ""
        if not signature.is_signed_by(key):
            raise UnusableSignature("the key of the agent did not make the signature")
        if signature.nonce:
            # After the verification, so that a forged signature uses up no nonce. The same store keeps
            # assertions of clients, hence the prefix.
            text = f"nonce {address.directory} {signature.key_id} {signature.nonce}"
            digest = hashlib.sha256(text.encode()).hexdigest()
            try:
                is_first = await self._grants.take_assertion(digest, life_ms=life_s * 1_000)
            except Unavailable:
                # Without the store nobody can tell whether the nonce was used before.
                return "unverified", ""
            if not is_first:
                raise UnusableSignature("the nonce was used before")
        return "verified", address.name

    def _left_s(self, signature: AgentSignature) -> int:
        """Return for how many seconds a signature counts from now on.

        Errors:
            UnusableSignature: it is expired, not valid yet, or its nonce is too long
        """
        now_s = self._clock.now_ms() // 1_000
        most_s = MOST_NONCE_S if signature.nonce else MOST_LIFE_S
        ends_s = min(signature.expires, signature.created + most_s) + SKEW_S
        if signature.created > now_s + SKEW_S or now_s >= ends_s:
            raise UnusableSignature("the signature is expired, or not valid yet")
        if len(signature.nonce) > LONGEST_NONCE:
            raise UnusableSignature("the nonce is too long")
        return ends_s - now_s
