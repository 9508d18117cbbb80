"""`user_hash`: the caller's proof that its server knows the reader.

Source: REST interface, Identifying the user with a publishable key; reference 3.3.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable


def sign_reader(secret: bytes, reader_id: str, user_type: str = "") -> str:
    """Compute the hex digest for a reader; with `user_type` the second form, `<user_type>:<reader_id>`."""
    message = f"{user_type}:{reader_id}" if user_type else reader_id
    return hmac.digest(secret, message.encode("utf-8", "surrogatepass"), "sha256").hex()


def hash_matches(secrets: Iterable[bytes], given: str, reader_id: str, user_type: str = "") -> bool:
    """Compare a given digest, case-insensitively and in constant time, with both forms.

    Every form under every secret is compared whatever the earlier comparisons said.
    """
    digest = given.lower().encode("utf-8", "surrogatepass")
    found = False
    for secret in secrets:
        found |= hmac.compare_digest(sign_reader(secret, reader_id).encode(), digest)
        if user_type:
            found |= hmac.compare_digest(sign_reader(secret, reader_id, user_type).encode(), digest)
    return found
