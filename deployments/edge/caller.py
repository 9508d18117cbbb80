"""Who is calling: a live key of an app, and the reader a token names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cluster.records.access import App, KeyKind


@dataclass(frozen=True, slots=True)
class Credential:
    """One live key, as a door keeps it in memory."""

    app: App
    key_id: str
    kind: KeyKind
    text: str = field(repr=False)
    "The key itself; part of the default anonymous id."
    secrets: tuple[bytes, ...] = field(repr=False)
    "The app's live secret keys: they sign `user_hash` and reader tokens."
    token_keys: tuple[bytes, ...] = field(default=(), repr=False)
    "The keys derived from them that sign reader tokens under `derived_token_key`."

    @property
    def is_secret(self) -> bool:
        """A secret key may do everything and needs no proof of who the reader is."""
        return self.kind == "secret"


@dataclass(frozen=True, slots=True)
class UserToken:
    """What a valid reader token says."""

    user_id: str = ""
    user_type: str = ""
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False)
    "All claims; those the interface does not know are merged into the metadata of a question."


@dataclass(frozen=True, slots=True)
class Caller:
    """A credential and, when a valid token came along, its reader."""

    credential: Credential
    token: UserToken | None = None
