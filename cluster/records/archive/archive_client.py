"""Clients of the archive: the publisher's rules for them, changed registrations, and their calls of tools."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from cluster.records.json_row import JsonRow

SignatureState = Literal["", "verified", "invalid", "unverified"]
"""What the signature of a request proves: empty: there is none; `verified`: a known agent signed it; `invalid`: nobody
did, or it is expired or used twice; `unverified`: nobody can tell, because the keys of the agent can't be had."""
CHECK_CLIENT: Final = "kiosk doctor"
"Name of the client by which `kiosk doctor mcp` calls; reports name its calls apart."
EVERYBODY = "*"
"Name of the rule for clients without a specific rule."
DEFAULT_CALLS_PER_MINUTE = 1200.0
HOST = "host:"
"Begins the name of a rule for all clients whose answers go to one host, as `host:claude.ai`."
AGENT = "agent:"
"Begins the name of a rule for requests that an agent signed, as `agent:bot.example`."
ANY_AGENT = AGENT + "*"
"Name of the rule for requests that any agent signed."
BY_SIGNATURE: Final = {"verified": ANY_AGENT, "invalid": AGENT + "invalid"}
"What a signature proves -> name of the general rule; other requests have that of `UNSIGNED`."
UNSIGNED = AGENT + "none"
"Name of the rule for requests without a signature that can be verified."
_RESERVED = re.compile(r"(?:host|agent):.*|c-[0-9a-f]{16}|\*", re.DOTALL)
"Forms of a rule's client that are no name: a host, an agent, a client id, and `*`."


class ClientRule(BaseModel):
    """The rule for one client; `client` is its id, `agent:` or `host:` and a host, the name that it sends, or `*`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    client: str = Field(min_length=1, max_length=200)
    decision: Literal["allow", "deny"] = "allow"
    calls_per_minute: float | None = Field(default=None, ge=0)
    """All calls of the client together; under `*` the calls of one person. None: the value of `*`; 0: no
    bound."""


def find_rule(
    rules: Mapping[str, ClientRule],
    client_id: str,
    client_name: str,
    host: str = "",
    signature: SignatureState = "",
    agent: str = "",
) -> ClientRule:
    """Return the rule of a client: by its id, by the agent that signed, by the host of its redirect, by its name, by
    what its signature proves, or the general one.

    A name proves nothing, since any client may send any name. A host is proven, because only that host
    received the code, and so is an agent. Rules are stored under case-folded names, so that `Claude` and `claude` are
    one rule.
    """
    rule = rules.get(fold_client_name(client_id))
    # An agent whose keys are at another path than the well-known one is not its host.
    if rule is None and agent and "/" not in agent:
        rule = rules.get(fold_client_name(AGENT + agent))
    if rule is None and host:
        rule = rules.get(fold_client_name(HOST + host))
    if rule is None:
        name = fold_client_name(client_name)
        if _RESERVED.fullmatch(name) is None:
            rule = rules.get(name)
    if rule is None:
        rule = rules.get(BY_SIGNATURE.get(signature, UNSIGNED))
    return rule or rules.get(EVERYBODY) or ClientRule(client=EVERYBODY)


def is_client_name(client: str) -> bool:
    """Return whether a rule's client is a name that any client may use, neither an id nor a host nor `*`."""
    return _RESERVED.fullmatch(fold_client_name(client)) is None


def fold_client_name(name: str) -> str:
    """Return a name in the form that rules are stored under."""
    return " ".join(name.split()).casefold()


AuthMethod = Literal["none", "client_secret_post", "client_secret_basic"]


class Registration(BaseModel):
    """The registration that a client sent. A removed one stays for a while, so that its id is refused."""

    model_config = ConfigDict(frozen=True)

    client_id: str
    name: str = ""
    "Without control characters, but untrusted; may be empty."
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


def tier_revocation_id(user_id: str, tier_epoch: int) -> str:
    """Return the entry for an account whose tiers changed: it ends access tokens, and no grant."""
    return f"tiers:{tier_epoch}:{user_id}"


Outcome = Literal["answered", "refused"]
CallEvent = Literal["call", "visit"]
ASK_QUESTION: Final = "ask_question"
"Tool of the rows of `/v1/ask`."
API_CLIENT: Final = "(api)"
"Client of these rows: the publisher's own programs."
QUESTION_TOOLS: Final = ("ask_archive", "search", ASK_QUESTION)
"Tools whose call is a question, whether or not its text is kept."
CALL_SCHEMA: Final = 1
"Version of the row. Fields may be added within a version."


@dataclass(frozen=True, slots=True)
class ArchiveCall(JsonRow):
    """One call and its outcome, or a visit of an article that a call linked.

    It names no person: a publisher counts clients, not users.
    """

    at: int
    "Milliseconds since 1970."
    tool: str
    client: str
    "Id of the client, short."
    client_name: str
    "Name that the client sends; untrusted."
    skill_used: str = ""
    question: str = ""
    "Its first few hundred characters; empty under `query_log` off."
    articles: tuple[str, ...] = ()
    "Products whose passages were found or whose text was read; best first, each once."
    outcome: Outcome = "answered"
    refusal: str = ""
    "Why it was refused."
    took_ms: float = 0.0
    coverage: float | None = None
    """Share of the question that the best passage covers, 0 to 1; None without a question or from an
    earlier release."""
    signature: SignatureState = ""
    agent: str = ""
    "Host of the agent that signed the request; empty unless its signature is verified."
    schema: int = CALL_SCHEMA
    event: CallEvent = "call"
    call_id: str = ""
    "Random id of the call, for a visit that of the call whose link was followed; empty in rows of earlier releases."
    question_id: str = ""
    "The `call_id` of the question that a call belongs to, if it is known."
    host: str = ""
    "Host that proved the client's identity; empty if none did."
    reply_bytes: int = 0
    model_tokens: int = 0
    "Tokens of the language model that wrote the answer."
    marked: bool = False
    "Whether its links carry marks, so that visits are counted."
    experiments: tuple[Mapping[str, str], ...] = ()
    "`experiment` and `variant` by id, for each experiment of the question."

    def __post_init__(self) -> None:
        if type(self.articles) is not tuple:  # JSON has none
            object.__setattr__(self, "articles", tuple(self.articles))
            object.__setattr__(self, "experiments", tuple(self.experiments))
