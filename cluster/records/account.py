"""People who may sign in, and what they allowed a client to do: accounts, codes and grants.

Nothing here opens a door by itself: passwords are slow hashes, codes and refresh tokens stand in the store by
their SHA-256 only, and access tokens not at all.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Role = Literal["administrator", "reader"]
Randomness = Callable[[int], bytes]

NAME_FORM = r"^[a-z0-9][a-z0-9._@+-]{0,63}$"
"What a user name may look like; it is compared in lower case."


class Account(BaseModel):
    """Somebody who may sign in."""

    model_config = ConfigDict(frozen=True)

    username: str = Field(pattern=NAME_FORM)
    user_id: str
    "Stays when everything else changes; what belongs to a person is kept under it."
    password: str = Field(repr=False)
    "A slow hash, see `password`."
    role: Role = "reader"
    disabled: bool = False
    epoch: int = 0
    "Grows with every new password and every lock; browsers signed in under an older one are signed out."
    created_at: int
    "Milliseconds since 1970."


class Code(BaseModel):
    """An authorization code as it rests in the store: everything it is bound to, and not the code."""

    model_config = ConfigDict(frozen=True)

    grant_id: str
    "The grant it will become; named now, so that a replay knows what to revoke."
    client_id: str
    client_name: str
    redirect_uri: str
    challenge: str
    "PKCE, S256."
    resource: str
    user_id: str
    username: str
    created_at: int
    expires_at: int


class Grant(BaseModel):
    """What a person allowed one client: a family of refresh tokens and the access tokens that came of it."""

    model_config = ConfigDict(frozen=True)

    grant_id: str
    client_id: str
    client_name: str
    resource: str
    user_id: str
    username: str
    created_at: int
    target: str = ""
    "Where the answer was sent, as people are shown it; empty in grants of earlier releases."


def new_user_id(randomness: Randomness = secrets.token_bytes) -> str:
    """Name a person."""
    return "usr-" + randomness(8).hex()


def new_grant_id(randomness: Randomness = secrets.token_bytes) -> str:
    """Name a grant."""
    return "g" + randomness(12).hex()
