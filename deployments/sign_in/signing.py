"""Signed values of the sign-in and of the console: sessions, known devices, proofs of forms and notices."""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Callable

from cluster.crypto import Vault
from deployments.edge.access.signing import PurposeSigner, SlotHash


class SignInSigner:
    """Signatures of sessions and of the console's forms; each purpose has a key of its own."""

    def __init__(self, vault: Vault, randomness: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self._randomness = randomness
        roots = vault.derive_all("console")
        self.sessions = PurposeSigner(roots, "session")
        self.devices = PurposeSigner(roots, "device")
        self.notices = PurposeSigner(roots, "notice")
        self.steps = PurposeSigner(roots, "step")
        "Values between two steps of a sign-in: the second factor, and the provider of identities."
        self._forms = vault.derive_all("console form")
        self.hash_slot = SlotHash(vault)

    def random(self, size: int = 32) -> str:
        """Return an unguessable random text in base64url."""
        return base64.urlsafe_b64encode(self._randomness(size)).rstrip(b"=").decode()

    def form_proof(self, bound_to: str) -> str:
        """Return the proof that a form comes from a page of this session or browser."""
        return _prove(self._forms[0], bound_to)

    def is_form_proof(self, bound_to: str, proof: str) -> bool:
        """Return whether any of the keys gives this proof."""
        given = proof.encode("utf-8", "surrogatepass")
        # All keys are compared, without an early end: the time must not disclose which one matched.
        matches = [hmac.compare_digest(_prove(key, bound_to).encode(), given) for key in self._forms]
        return any(matches)


def _prove(key: bytes, bound_to: str) -> str:
    digest = hmac.digest(key, bound_to.encode("utf-8", "surrogatepass"), "sha256")
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
