"""What happened to articles after agents read them, and the keys by which a publisher vouches for it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict

WITHDRAWN = "withdrawn"
"Revision of an article that left the archive."


class ArticleRevision(BaseModel):
    """The newest correction of an article, or its withdrawal."""

    model_config = ConfigDict(frozen=True)

    status: Literal["corrected", "withdrawn"]
    at: int
    "When the archive got it, in milliseconds since 1970."
    revision: str
    "Names this state of the article; equal for equal corrections."
    title: str = ""
    url: str = ""
    access: str = ""
    "Tier that the readers of the article need or needed; empty: it was open."
    corrected_at: str = ""
    "As uploaded: a day or a time in ISO 8601."
    note: str = ""


def revision_of(corrected_at: str, note: str) -> str:
    """Return the name of the state of an article after a correction; empty without one."""
    if not corrected_at:
        return ""
    return hashlib.blake2b(f"{corrected_at}\0{note}".encode(), digest_size=8).hexdigest()


def passage_digest(text: str) -> str:
    """Return the digest of a passage: the number of its words, a colon, and SHA-256 of the words joined by blanks."""
    words = text.split()
    return f"{len(words)}:{hashlib.sha256(' '.join(words).encode()).hexdigest()}"


@dataclass(frozen=True, slots=True)
class ArticleRead:
    """A note that an agent read an article, or was informed about a revision of it. It names no person."""

    agent: str
    "Keyed digest of the account and the client."
    product_id: str
    revision: str
    "Empty: the article was never corrected."

    def to_bytes(self) -> bytes:
        return orjson.dumps([self.agent, self.product_id, self.revision])

    @classmethod
    def from_bytes(cls, data: bytes) -> ArticleRead | None:
        """Return a note; None for other data."""
        try:
            values: Any = orjson.loads(data)
        except orjson.JSONDecodeError:
            return None
        is_note = (
            isinstance(values, list) and len(values) == 3 and all(isinstance(value, str) for value in values)
        )
        return cls(*values) if is_note else None


class PublisherKey(BaseModel):
    """The public half of a key by which a publisher signs statements about citations.

    The private half is derived from the master key, the app and the generation, so it is stored nowhere.
    """

    model_config = ConfigDict(frozen=True)

    key_id: str
    "Thumbprint of the key (RFC 7638)."
    generation: int
    "Grows with every rotation."
    public_key: str
    "The 32 bytes of Ed25519 as base64url."
    created_at: int
    "Milliseconds since 1970."
