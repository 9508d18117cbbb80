"""Apps and API keys."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Environment = Literal["playground", "development", "production"]
KeyKind = Literal["secret", "publishable"]


class Limits(BaseModel):
    """Rate limits of one app, per key."""

    model_config = ConfigDict(frozen=True)

    queries_per_s: float = 50.0
    "Search, recommendation, answer and read calls."
    query_burst: int = 100
    writes_per_s: float = 10.0
    "Uploads and deletes. One interaction call counts as a query."
    write_burst: int = 20


def _quotas(given: Any) -> Any:
    """Read `anonymous:3,free:20` as a person types it."""
    if not isinstance(given, str):
        return given
    pairs = [part.partition(":") for part in given.split(",") if part.strip()]
    return {name.strip(): bound.strip() for name, _, bound in pairs}


UserType = Literal["anonymous", "registered", "free", "subscriber", "paid", "internal"]
Quotas = Annotated[dict[UserType, Annotated[int, Field(ge=0)]], BeforeValidator(_quotas)]


class AppSettings(BaseModel):
    """Switches an administrator sets per app; every default is the specification's own behaviour."""

    model_config = ConfigDict(frozen=True)

    strict_user_hash: bool = False
    "Also require `user_hash` for an `anonymous_id` alone (decision I1)."
    bot_rule: Literal["off", "log", "on"] = "on"
    "What happens to a publishable key on a request that looks automated (decision I4)."
    publishable_experiments: bool = False
    "Let the publishable key send experiment events (decision I3)."
    product_envelope: bool = False
    "Wrap single product reads in `{message, data}` (decision I6)."
    service_id_aliases: tuple[str, ...] = ()
    "Other names of `service_id` accepted in interactions (decision I7)."
    service_id_response_alias: str = ""
    "Repeat `service_id` under this name in replies (decision I7)."
    primary_language: str = "en"
    update_significance: float = Field(default=0.5, ge=0.05, le=1.0)
    "From this score on new content is news for a history thread."
    query_log: Literal["pseudonym", "anonymous", "off"] = "pseudonym"
    "Whether queries are logged, and whether readers can be told apart in the log."
    questions_per_day: Quotas = Field(default_factory=dict)
    "`user_type` -> questions a reader of it may ask on one day; a type that is absent has no bound."
    limits: Limits = Limits()


SWITCHES: Final[dict[str, str]] = {
    "strict_user_hash": "require user_hash for an anonymous_id alone",
    "bot_rule": "off, log or on: a publishable key on a request that looks automated",
    "publishable_experiments": "let the publishable key send experiment events",
    "product_envelope": "wrap single product reads in {message, data}",
    "service_id_aliases": "other names of service_id accepted in interactions, comma-separated",
    "service_id_response_alias": "repeat service_id under this name in replies",
    "primary_language": "ISO 639-1 code of the app's texts",
    "update_significance": "0.05 to 1: from this score on new content is news for a history thread",
    "query_log": "pseudonym, anonymous or off: log queries, with readers told apart or not",
    "questions_per_day": "questions a reader may ask a day by user_type, as anonymous:3,free:20; others as they like",
}
"Switches an administrator may turn by name -> what they do, for people."


class App(BaseModel):
    """One environment's data space with its own two keys."""

    model_config = ConfigDict(frozen=True)

    app_id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")
    environment: Environment
    settings: AppSettings = AppSettings()
    created_at: int
    "Milliseconds since 1970."

    @property
    def read_only(self) -> bool:
        """The playground can be read and not written."""
        return self.environment == "playground"


class ApiKey(BaseModel):
    """A key as it rests in the store: recognisable, recoverable with the master key, useless without it."""

    model_config = ConfigDict(frozen=True)

    key_id: str
    "Short public name, safe in logs."
    app_id: str
    kind: KeyKind
    sha256: str
    "Hex digest the key is looked up by."
    ciphertext: str
    "The key under the master key (needed again for user_hash and HS256)."
    mac: str = ""
    """Proves that whoever made the record had the master key: over hash, kind, app and id (`cluster.records.issue`).
    Empty in records of releases before it."""
    hint: str
    "First characters and last four, for people."
    created_at: int
