"""A client's registration after the client changed or removed it; before that, the client id is all there is."""

from __future__ import annotations

import hashlib
from typing import Literal

from pydantic import BaseModel, ConfigDict

AuthMethod = Literal["none", "client_secret_post", "client_secret_basic"]


class Registration(BaseModel):
    """What a client says of itself. A removed one stays for a while, so that its id is not good any more."""

    model_config = ConfigDict(frozen=True)

    client_id: str
    name: str = ""
    "Clean, but a stranger's words; may be empty."
    method: AuthMethod = "none"
    redirect_uris: tuple[str, ...] = ()
    issued_at: int
    "Seconds since 1970."
    removed: bool = False


def short_id(client_id: str) -> str:
    """Return the short form of a client id for people, reports, rules and keys."""
    return "c-" + hashlib.sha256(client_id.encode()).hexdigest()[:16]


def revocation_id(client_id: str) -> str:
    """Return the entry among revoked grants for a client whose grants all ended."""
    return revocation_id_from_short(short_id(client_id))


def revocation_id_from_short(short: str) -> str:
    """Return the same entry for a short client id."""
    return f"client:{short}"
