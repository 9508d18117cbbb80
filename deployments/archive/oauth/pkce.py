"""Proof key for code exchange, with the method S256 only.

Source: RFC 7636, sections 4.1, 4.2, 4.6.
"""

from __future__ import annotations

import hmac
import re

from authlib.oauth2.rfc7636 import create_s256_code_challenge

# 32 bytes of SHA-256 in base64url without padding (RFC 7636, 4.2).
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
# 43 characters are the 32 random bytes that RFC 7636, 4.1 recommends.
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")


def is_challenge(text: str) -> bool:
    """Return whether the text has the form of an S256 challenge: 43 characters of base64url."""
    return _CHALLENGE.fullmatch(text) is not None


def is_verifier_of(verifier: str, challenge: str) -> bool:
    """Return whether the verifier belongs to the challenge; takes constant time."""
    if not _VERIFIER.fullmatch(verifier):
        return False
    return hmac.compare_digest(str(create_s256_code_challenge(verifier)).encode(), challenge.encode())
