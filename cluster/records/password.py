"""Passwords as slow hashes: scrypt with its parameters written in front, so that they can grow.

    scrypt$15$8$3$<salt, base64>$<digest, base64>

Cost: 0.2 to 0.3 s and 32 MiB on purpose; never on an event loop.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Callable

from cluster.errors import Invalid

SHORTEST = 10
LONGEST = 256
"Characters."

_LOG2_N, _R, _P = 15, 8, 3
_MOST_MEMORY = 80 << 20
_NOBODY = "scrypt$15$8$3$AAAAAAAAAAAAAAAAAAAAAA==$" + "A" * 43 + "="
"Checked where there is no account, so that the time taken says nothing."


def new_password(randomness: Callable[[int], str] = secrets.token_urlsafe) -> str:
    """Return a new password of 96 bits."""
    return randomness(12)


def hash_password(password: str, salt: bytes | None = None) -> str:
    """Return the hash of a password for storage.

    Errors:
        Invalid: too short or too long
    """
    if not SHORTEST <= len(password) <= LONGEST:
        raise Invalid(f"a password has {SHORTEST} to {LONGEST} characters")
    salt = secrets.token_bytes(16) if salt is None else salt
    digest = _digest(password, salt, _LOG2_N, _R, _P)
    return "$".join(("scrypt", str(_LOG2_N), str(_R), str(_P), _text(salt), _text(digest)))


def check_password(password: str, kept: str | None) -> bool:
    """Return whether a password matches a stored hash; takes as long without one."""
    try:
        kind, log2_n, r, p, salt, digest = (kept or _NOBODY).split("$")
        parameters = (int(log2_n), int(r), int(p))
        found = _digest(password[: LONGEST + 1], base64.b64decode(salt), *parameters)
        same = hmac.compare_digest(found, base64.b64decode(digest))
    except (ValueError, binascii.Error):
        return False
    return same and kind == "scrypt" and kept is not None and len(password) <= LONGEST


def _digest(password: str, salt: bytes, log2_n: int, r: int, p: int) -> bytes:
    text = password.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(text, salt=salt, n=1 << log2_n, r=r, p=p, maxmem=_MOST_MEMORY, dklen=32)


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
