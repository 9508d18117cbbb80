"""Define accounts, their passwords, and the authorization codes and grants of OAuth clients.

No stored value grants access. Passwords are stored as slow hashes, codes and refresh tokens as SHA-256, and
access tokens not at all.

Passwords as slow hashes: scrypt with its parameters written in front, so that they can grow.

    scrypt$15$8$3$<salt, base64>$<digest, base64>

Cost: 0.2 to 0.3 s and 32 MiB on purpose; never call it on an event loop.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from cluster.errors import Invalid
from cluster.records.administration import AppRole

Role = Literal["administrator", "reader"]
Randomness = Callable[[int], bytes]

NAME_FORM = r"^[a-z0-9][a-z0-9._@+-]{0,63}$"
"Form of a user name; names are compared in lower case."
_NAME = re.compile(NAME_FORM)


class Account(BaseModel):
    """A person who may sign in."""

    model_config = ConfigDict(frozen=True)

    username: str = Field(pattern=NAME_FORM)
    user_id: str
    "Never changes; the records of a person are stored under it."
    password: str = Field(repr=False)
    "A slow hash, see `password`."
    has_temporary_password: bool = False
    "Another person got this password to hand over; the console asks for a new one before anything else."
    role: Role = "reader"
    disabled: bool = False
    epoch: int = 0
    """Grows with every new password and every lock; browsers that signed in under an earlier epoch are
    signed out."""
    created_at: int
    "Milliseconds since 1970."
    roles: dict[str, AppRole] = Field(default_factory=dict)
    "App -> role in it. Administrators own every app without an entry here."
    totp: str = Field(default="", repr=False)
    "The secret of the second factor, encrypted under the master key; empty: none."
    totp_step: int = 0
    "The last time step whose code was accepted; codes of it and of earlier steps are refused."
    wrong_codes: int = 0
    "Wrong codes of the second factor in a row; a right one sets it to 0."
    wrong_code_at: int = 0
    "Time of the last one, in milliseconds since 1970."
    recovery_codes: tuple[str, ...] = Field(default=(), repr=False)
    "SHA-256 of unused codes that replace the authenticator."
    tiers: dict[str, int] = Field(default_factory=dict)
    "Tier of articles that the account may read -> its end, milliseconds since 1970; 0: none."
    tier_epoch: int = 0
    "Grows with every change of the tiers; access tokens of an earlier epoch are refused."
    claimed_tiers: dict[str, int] = Field(default_factory=dict)
    "Tier that the provider of identities claims -> its end, milliseconds since 1970."
    claimed_at: int = 0
    "Time of the last request for the claim, in milliseconds since 1970; 0: the next refresh of a grant sends one."
    oidc_refresh: str = Field(default="", repr=False)
    "The provider's refresh token, encrypted under the master key; empty: none."
    oidc_subject: str = ""
    "Issuer and subject of the provider's account that may sign in as this one; empty: none."

    @property
    def has_second_factor(self) -> bool:
        """Return whether a code is needed beside the password."""
        return bool(self.totp)

    def tiers_at(self, now_ms: int) -> tuple[frozenset[str], int]:
        """Return the tiers at a time, and the end of the first one that ends; 0: none ends."""
        tiers = {
            tier: end_ms
            for tier, end_ms in (*self.claimed_tiers.items(), *self.tiers.items())
            if not end_ms or end_ms > now_ms
        }
        return frozenset(tiers), min((end_ms for end_ms in tiers.values() if end_ms), default=0)

    def owns(self, app_id: str) -> bool:
        """Return whether the account may grant roles in an app."""
        return self.role == "administrator" or self.roles.get(app_id) == "owner"


class Code(BaseModel):
    """An authorization code as it rests in the store: everything it is bound to, and not the code."""

    model_config = ConfigDict(frozen=True)

    grant_id: str
    "Id of the future grant; fixed with the code, so that a replayed code identifies the grant to revoke."
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
    sign_in: str = ""
    "How the person signed in, as sessions name it."
    client_keys: str = ""
    "Public keys of a client that signs, as JSON; empty for other clients."


class Grant(BaseModel):
    """The access that a person granted to one client: a family of refresh tokens and their access tokens."""

    model_config = ConfigDict(frozen=True)

    grant_id: str
    client_id: str
    client_name: str
    resource: str
    user_id: str
    username: str
    created_at: int
    target: str = ""
    "Where the code was sent, in the form shown to people; empty in grants of earlier releases."
    sign_in: str = ""
    "How the person signed in, as sessions name it; empty in grants of earlier releases."
    client_keys: str = ""
    "Public keys of a client that signs, as JSON; empty for other clients."


def is_username(text: str) -> bool:
    """Return whether a text has the form of a user name."""
    return _NAME.fullmatch(text) is not None


def new_user_id(randomness: Randomness = secrets.token_bytes) -> str:
    """Name a person."""
    return "usr-" + randomness(8).hex()


def new_grant_id(randomness: Randomness = secrets.token_bytes) -> str:
    """Name a grant."""
    return "g" + randomness(12).hex()


SHORTEST = 10
LONGEST = 256
"Characters."

_LOG2_N = 15
_R = 8
_P = 3
_MOST_MEMORY = 80 << 20
_NOBODY = "scrypt$15$8$3$AAAAAAAAAAAAAAAAAAAAAA==$" + "A" * 43 + "="
"Hash that is checked if the account does not exist, so that the response time reveals nothing."


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
    """Return whether a password matches a stored hash; without a hash the check takes equally long."""
    try:
        kind, log2_n, r, p, salt, digest = (kept or _NOBODY).split("$")
        parameters = (int(log2_n), int(r), int(p))
        # Cut, because hashing a text of megabytes would take a processor.
        computed = _digest(password[: LONGEST + 1], base64.b64decode(salt), *parameters)
        same = hmac.compare_digest(computed, base64.b64decode(digest))
    except (ValueError, binascii.Error):
        return False
    return same and kind == "scrypt" and kept is not None and len(password) <= LONGEST


def _digest(password: str, salt: bytes, log2_n: int, r: int, p: int) -> bytes:
    text = password.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(text, salt=salt, n=1 << log2_n, r=r, p=p, maxmem=_MOST_MEMORY, dklen=32)


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
