"""Reading the replies of Redis: bytes as text or as names, and flat lists as pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any


def text_of(raw: bytes) -> str:
    """Decode stored text for people and replies; damaged bytes are replaced, never an error."""
    return raw.decode("utf-8", "replace")


def name_of(raw: bytes) -> str:
    """Decode a stored name that goes back into a command: `pack_command` encodes it to the same bytes."""
    return raw.decode("utf-8", "surrogateescape")


def split_pairs(flat: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """Split a flat reply into its pairs: the fields and values of a hash, or the members and scores of a sorted set."""
    return zip(flat[::2], flat[1::2], strict=True)
