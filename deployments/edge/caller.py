"""The caller of a request: a live key of an app, and the user that a token names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cluster.records.access import App, KeyKind


@dataclass(frozen=True, slots=True)
class Credential:
    """One live key, as an API replica keeps it in memory."""

    app: App
    key_id: str
    kind: KeyKind
    text: str = field(repr=False)
    "The key itself; the default anonymous id is derived from it."
    secrets: tuple[bytes, ...] = field(repr=False)
    "The app's live secret keys: they sign `user_hash` and user tokens."
    token_keys: tuple[bytes, ...] = field(default=(), repr=False)
    "The keys derived from them, which sign user tokens under `derived_token_key`."

    @property
    def is_secret(self) -> bool:
        """Whether this is a secret key, which may call everything without proofs."""
        return self.kind == "secret"


@dataclass(frozen=True, slots=True)
class UserToken:
    """The claims of a valid user token."""

    user_id: str = ""
    user_type: str = ""
    claims: Mapping[str, Any] = field(default_factory=dict, repr=False)
    "All claims; unknown ones are merged into the metadata of a question."


@dataclass(frozen=True, slots=True)
class Caller:
    """A credential and, with a valid token, its user."""

    credential: Credential
    token: UserToken | None = None
