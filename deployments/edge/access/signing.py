"""Signed values that the server does not store; a value signed for one purpose is invalid for another."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Sequence
from typing import Any

from itsdangerous import BadData, URLSafeSerializer

from cluster.crypto import Vault

KINDS: dict[str, Any] = {"key_derivation": "hmac", "digest_method": hashlib.sha256}
"How keys of purposes are derived, and the digest of signatures."
LONGEST = 16_000
"Maximum characters of a signed value in a request; longer ones are refused unread."
_SIGNATURE = re.compile(r"[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]")
"32 bytes in base64url: the last character holds four bits and two zeros."


class _AsciiJson:
    """JSON that keeps bytes which are not UTF-8: they become escaped surrogates."""

    @staticmethod
    def dumps(value: Any, **_: Any) -> str:
        return json.dumps(value, separators=(",", ":"))

    @staticmethod
    def loads(text: str | bytes) -> Any:
        return json.loads(text)


class PurposeSigner:
    """Signs values of one purpose with the first of its keys, and verifies what any of them signed."""

    def __init__(self, keys: Sequence[bytes], purpose: str) -> None:
        self._serializer: URLSafeSerializer = URLSafeSerializer(
            # Reversed: the library signs with the last key of its list, and here the first is the newest.
            keys[::-1],
            salt=purpose.encode(),
            serializer=_AsciiJson(),
            signer_kwargs=KINDS,
        )

    def seal(self, value: Any) -> str:
        """Return a signed JSON value; it consists of `A-Za-z0-9-_.`."""
        return str(self._serializer.dumps(value))

    def open(self, text: str) -> Any | None:
        """Return the value that `seal` signed; None for any other text."""
        if not is_whole(text):
            return None
        try:
            return self._serializer.loads(text)
        except BadData:
            return None


class SlotHash:
    """Maps names to few slots, so that the number of counters for names stays bounded.

    All surfaces share the key, so that an attempt to sign in counts once wherever it is made.
    """

    def __init__(self, vault: Vault) -> None:
        self._key = vault.derive("oauth slot")

    def __call__(self, text: str, slots: int = 4096) -> str:
        """Return the slot of a name."""
        digest = hmac.digest(self._key, text.encode("utf-8", "surrogatepass"), "sha256")
        # Keyed, so that nobody can look for names that share a slot with a person.
        return str(int.from_bytes(digest[:4], "big") % slots)


def is_whole(text: str) -> bool:
    """Return whether a value has the only base64 spelling that `seal` writes; decoders accept others."""
    if len(text) > LONGEST or not text.isascii():
        return False
    return _SIGNATURE.fullmatch(text.rpartition(".")[2]) is not None


def sha256(text: str) -> str:
    """Return the SHA-256 of a random value, used as a look-up key."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
