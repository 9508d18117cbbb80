"""Signed values of the console: sessions, known devices, proofs of forms and notices."""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Callable

from cluster.secrecy import Vault
from deployments.edge.signing import PurposeSigner, SlotHash


class ConsoleSigner:
    """All signatures of the console; each purpose has a key of its own."""

    def __init__(self, vault: Vault, randomness: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self._randomness = randomness
        root = vault.derive("console")
        self.sessions = PurposeSigner(root, "session")
        self.devices = PurposeSigner(root, "device")
        self.notices = PurposeSigner(root, "notice")
        self.steps = PurposeSigner(root, "step")
        "Values between two steps of a sign-in: the second factor, and the provider of identities."
        self._forms = vault.derive("console form")
        self.hash_slot = SlotHash(vault)

    def random(self, size: int = 32) -> str:
        """Return an unguessable random text in base64url."""
        return base64.urlsafe_b64encode(self._randomness(size)).rstrip(b"=").decode()

    def form_proof(self, bound_to: str) -> str:
        """Return the proof that a form comes from a page of this session or browser."""
        digest = hmac.digest(self._forms, bound_to.encode("utf-8", "surrogatepass"), "sha256")
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
