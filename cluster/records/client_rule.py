"""What a publisher allows a client of the archive: let in or not, and how often it may call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

EVERYBODY = "*"
"Name of the rule for clients without one of their own."
DEFAULT_CALLS_PER_MINUTE = 1200.0
HOST = "host:"
"Begins the name of a rule for all clients whose answers go to one host, as `host:claude.ai`."
_RESERVED = re.compile(r"host:.*|c-[0-9a-f]{16}|\*", re.DOTALL)
"What a client may call itself without being taken for the host or the client of that name."


class ClientRule(BaseModel):
    """The rule for one client; `client` is its id, `host:` and a host, the name it gives itself, or `*`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    client: str = Field(min_length=1, max_length=200)
    decision: Literal["allow", "deny"] = "allow"
    calls_per_minute: float | None = Field(default=None, ge=0)
    "All calls of the client together; under `*` those of one person. None: what `*` says; 0: no bound."


def find_rule(
    rules: Mapping[str, ClientRule], client_id: str, client_name: str, host: str = ""
) -> ClientRule:
    """Return the rule of a client: by its id, by the host of its redirect, by its name, or the general one.

    A name proves nothing, since any client may give itself any name. A host is proven: only who answers there got
    the code. Rules are kept under folded names, so that `Claude` and `claude` are one.
    """
    everybody = rules.get(EVERYBODY) or ClientRule(client=EVERYBODY)
    own = rules.get(fold_client_name(client_id)) or (
        rules.get(fold_client_name(HOST + host)) if host else None
    )
    if own is None and is_client_name(client_name):
        own = rules.get(fold_client_name(client_name))
    return own or everybody


def is_client_name(client: str) -> bool:
    """Return whether a rule's client is a name that any client may use, neither an id nor a host nor `*`."""
    return _RESERVED.fullmatch(fold_client_name(client)) is None


def fold_client_name(name: str) -> str:
    """Return a name in the form that rules are stored under."""
    return " ".join(name.split()).casefold()
