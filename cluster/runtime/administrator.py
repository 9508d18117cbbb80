"""The person who runs an installation: a name and a password, made on the first start and shown once."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from pathlib import Path

from cluster.runtime.places import write_private

USERNAME = "admin"


def ensure_administrator(path: Path) -> str:
    """Make the administrator if there is none; return the fresh password, or nothing."""
    if path.exists():
        return ""
    password = secrets.token_urlsafe(12)
    salt = secrets.token_bytes(16)
    kept = {"username": USERNAME, "salt": salt.hex(), "scrypt": _digest(password, salt).hex()}
    write_private(path, json.dumps(kept) + "\n")
    return password


def is_administrator(path: Path, username: str, password: str) -> bool:
    """Check a name and a password.

    Cost: 50 ms on purpose.
    """
    try:
        kept = json.loads(path.read_text("utf-8"))
        wanted, salt, name = bytes.fromhex(kept["scrypt"]), bytes.fromhex(kept["salt"]), str(kept["username"])
    except (OSError, ValueError, KeyError):
        wanted, salt, name = b"\0" * 64, b"\0" * 16, ""
    same = hmac.compare_digest(_digest(password, salt), wanted)
    return hmac.compare_digest(username.encode(), name.encode()) and same


def _digest(password: str, salt: bytes) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=1 << 14, r=8, p=1)
