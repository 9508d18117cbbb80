"""Apps: the data space of one environment each, with its settings and limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from cluster.records.archive.archive_terms import ArchiveTerms
from cluster.records.archive.named_archive import NamedArchive

Environment = Literal["playground", "development", "production"]


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


IN_BROWSER: Final = "browser:"
"Before the id of a secret key in the record of exposed keys: a web page sent it."

CONFIDENTIAL_FIELDS: Final = (
    "margin",
    "custom_attributes.cost",
    "custom_attributes.cost_price",
    "custom_attributes.margin",
    "custom_attributes.purchase_price",
    "custom_attributes.supplier",
    "custom_attributes.wholesale_price",
)
"Product fields that a new app shows only to its servers."


DEFAULT_STORAGE_MB: Final = 20_000
DEFAULT_TRAINING_MB: Final = 8_192
"Twice the default of `limits.memory_mb`."
"MB that a new app may store until an administrator allows more: room for millions of products and their snapshots."


class AppSettings(BaseModel):
    """Switches an administrator sets per app.

    A default applies to apps that were stored before the switch existed. It is the behaviour that the REST interface
    prescribes if a stricter one could refuse requests of existing pages, else the safe value. New apps get the safe
    values, see `new_app_settings`.
    """

    model_config = ConfigDict(frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _follow_query_log(cls, given: Any) -> Any:
        """Log answers of an app that was stored before `served_log` no more freely than its queries."""
        # Records from before the field take the mode of their `query_log`.
        if not isinstance(given, dict) or "served_log" in given:
            return given
        mode = given.get("query_log")
        return {**given, "served_log": mode} if mode in ("anonymous", "off") else given

    strict_user_hash: bool = False
    """Also require `user_hash` for an `anonymous_id` alone. When off, it is optional there but verified if
    sent."""
    bot_rule: Literal["off", "log", "on"] = "on"
    "How the API treats a publishable key on a request that looks automated."
    secret_key_in_browser: Literal["log", "refuse"] = "log"  # noqa: S105 - what is done about it
    "How the API treats a secret key on a request from a page of another origin."
    publishable_experiments: bool = False
    "Allow the publishable key to send experiment events; when off, only the secret key may."
    product_envelope: bool = False
    "Wrap single product reads in `{message, data}`."
    service_id_aliases: tuple[str, ...] = ()
    "Other names of `service_id` accepted in interactions, for SDKs with another spelling."
    service_id_response_alias: str = ""
    "Repeat `service_id` under this name in replies, for SDKs with another spelling."
    completion_paging: bool = False
    "`start` of `search/autocomplete` selects the page; when off, `start` is accepted and ignored."
    primary_language: str = "en"
    update_significance: float = Field(default=0.5, ge=0.05, le=1.0)
    "From this score on new content is news for a history thread."
    query_log: Literal["pseudonym", "anonymous", "off"] = "pseudonym"
    "Whether queries are logged, and whether the log distinguishes users."
    served_log: Literal["on", "anonymous", "off"] = "on"
    """Whether answers and their products are logged, and whether the log distinguishes users. An app that was stored
    without it has the mode of its `query_log`."""
    served_days: int = Field(default=90, ge=1, le=3_650)
    "Days for which rows of the served log, and of the log of archive calls, are kept."
    citation_marks: Literal["off", "landing", "redirect"] = "off"
    """Whether links in results of archive tools carry a mark: on the address of the article, or as a redirect. Off,
    they are the addresses of the articles."""
    automatic_models: bool = False
    """Whether trainings, promotions and rollbacks happen by themselves. Off in apps that were stored before the switch
    existed, and never in the environment `development`."""
    currency: str = Field(default="", pattern=r"^([A-Z]{3})?$")
    "ISO 4217 code of `revenue` and prices, for reports; empty: amounts stand without a currency."
    affiliation_fq: str = Field(default="", max_length=4_096)
    "Filter of products of partners, which stand beside answers as `affiliation_products`; empty: none."
    questions_per_day: Quotas = Field(default_factory=dict)
    "`user_type` -> questions that a user of this type may ask on one day; an absent type has no bound."
    prove_writers: bool = False
    """Require `user_hash` or a token with a publishable key if a write names a `user_id`. Under
    `strict_user_hash` also require it for an `anonymous_id`."""
    typed_user_hash: bool = True
    """Accept `user_hash` over `<user_type>:<user_id>`. A user who may choose the id that the shop signs
    can act as another user with it."""
    derived_token_key: bool = False
    """Sign user tokens with the hex HMAC-SHA256 of `kiosk reader token` under the secret key, not with the
    secret key itself. So no `user_hash` can ever be a token."""
    keyed_visitor_ids: bool = False
    "Derive the default `anonymous_id` with the secret key, so that a neighbour can't compute it."
    token_max_age_h: int = Field(default=0, ge=0, le=8_760)
    "Hours after `iat` for which a user token without `exp` is accepted; 0: for ever."
    confidential_fields: tuple[str, ...] = ()
    "Product fields that a publishable key can't read, filter, sort, facet or boost by."
    browser_events: int = Field(default=100, ge=0)
    "Interactions that a publishable key may send in one request; 0: no bound."
    browser_readers: int = Field(default=3, ge=0)
    "Different users in the interactions of one such request; 0: no bound."
    new_readers_per_address: int = Field(default=1_000, ge=0)
    """Users that one address may add on one day with a publishable key; events of further users build no
    history."""
    new_readers_per_day: int = Field(default=100_000, ge=0)
    "The same for all addresses together."
    checkouts_per_address: int = Field(default=200, ge=0)
    "Checkouts of unverified users that one address may send on one day (each replica counts); 0: no bound."
    questions_per_address: int = Field(default=200, ge=0)
    "Questions of unverified users that one address may send on one day; 0: no bound."
    questions_without_proof: int = Field(default=5_000, ge=0)
    "Questions of unverified users from all addresses together on one day; 0: no bound."
    provider_tokens_per_day: int = Field(default=2_000_000, ge=0)
    """Tokens of the language model that answers may cost on one day; later answers are extractive. 0: no
    bound."""
    max_records: int = Field(default=0, ge=0)
    "Users and products together; uploads of further ones are refused. 0: no bound."
    max_storage_mb: int = Field(default=DEFAULT_STORAGE_MB, ge=0)
    "MB in the artifact store; above it writes and trainings are refused. 0: no bound."
    max_engines: int = Field(default=0, ge=0)
    "Engines, the default one included; 0: no bound."
    max_trainings: int = Field(default=0, ge=0)
    "Trainings that are queued or running at once; 0: no bound."
    max_training_memory_mb: int = Field(default=0, ge=0)
    "Largest `limits.memory_mb` of a recipe; 0: what the installation and the machine have."
    address_share: float = Field(default=1.0, gt=0, le=1)
    "Share of the rate of a publishable key that one client address may use."
    limits: Limits = Limits()


def new_app_settings(environment: Environment) -> AppSettings:
    """Return the settings of a new app.

    Production gets every safe value. Development allows what public SDKs need: events that name a user
    without proof, and user tokens without `exp`. It also allows all traffic from one developer's address, and
    only logs requests that look automated, so tests with headless browsers and HTTP libraries pass.
    """
    if environment != "production":
        return AppSettings(bot_rule="log", confidential_fields=CONFIDENTIAL_FIELDS)
    return AppSettings(
        automatic_models=True,
        prove_writers=True,
        typed_user_hash=False,
        keyed_visitor_ids=True,
        token_max_age_h=24,
        confidential_fields=CONFIDENTIAL_FIELDS,
        max_training_memory_mb=DEFAULT_TRAINING_MB,
        address_share=0.2,
    )


SWITCHES: Final[dict[str, str]] = {
    "strict_user_hash": "Require user_hash for an anonymous_id alone.",
    "bot_rule": "Treatment of automated requests with a publishable key: off, log or on (refuse).",
    "secret_key_in_browser": "Treatment of a secret key on a request from a page of another origin: log or refuse.",
    "publishable_experiments": "Let the publishable key send experiment events.",
    "product_envelope": "Wrap single product reads in {message, data}.",
    "service_id_aliases": "Other names of service_id that interactions may use, separated by commas.",
    "service_id_response_alias": "Repeat service_id under this name in replies.",
    "completion_paging": "Let start select the page of completions; off: start is ignored.",
    "primary_language": "ISO 639-1 code of the language of the app's texts, for example en or de.",
    "update_significance": "Score from which new content counts as news for a history thread, 0.05 to 1.",
    "query_log": "Log queries with a pseudonym for each user, anonymously, or not at all: pseudonym, anonymous or off.",
    "served_log": "Log answers and their products with pseudonyms of users, anonymously or not: on, anonymous or off.",
    "served_days": "Days for which the logs of answers and of archive calls are kept, 1 to 3650.",
    "citation_marks": "Mark links in results of archive tools, so that visits count: off, landing or redirect.",
    "automatic_models": "Train, promote and roll back models without orders; never in environment development.",
    "currency": "ISO 4217 code of revenue and prices in reports, as EUR; empty: amounts without a currency.",
    "affiliation_fq": "Filter of partners' products that stand beside answers, as tags:partner; empty: none.",
    "questions_per_day": "Questions per day by user_type, as anonymous:3,free:20; other types have no limit.",
    "prove_writers": "Require user_hash or a token if a publishable key writes for a user_id.",
    "typed_user_hash": "Accept user_hash over <user_type>:<user_id>.",
    "derived_token_key": "Sign user tokens with the hex HMAC-SHA256 of 'kiosk reader token' under the secret key.",
    "keyed_visitor_ids": "Derive the default anonymous_id with the secret key, so that other clients can't compute it.",
    "token_max_age_h": "Hours after iat for which a token without exp is accepted; 0: no limit.",
    "confidential_fields": "Product fields that a publishable key can't use, separated by commas.",
    "browser_events": "Interactions that a publishable key may send in one request; 0: no limit.",
    "browser_readers": "Different users in the interactions of one such request; 0: no limit.",
    "new_readers_per_address": "New users per day that one address may add without proof.",
    "new_readers_per_day": "New users per day that all addresses together may add without proof.",
    "checkouts_per_address": "Checkouts per day that one address may send without proof; 0: no limit.",
    "questions_per_address": "Questions per day that one address may ask without proof; 0: no limit.",
    "questions_without_proof": "Questions per day from all addresses without proof; 0: no limit.",
    "provider_tokens_per_day": "Tokens of the language model per day; later answers are extractive. 0: no limit.",
    "max_records": "Users and products that the app may hold; 0: no limit.",
    "max_storage_mb": "MB of the app in the artifact store; above it, writes and trainings are refused. 0: no limit.",
    "max_engines": "Engines that the app may have; 0: no limit.",
    "max_trainings": "Trainings that may be queued or running at once; 0: no limit.",
    "address_share": "Share of the rate of a publishable key that one client address may use, above 0 to 1.",
    "max_training_memory_mb": "MB that one training may be allowed by its recipe; 0: what the installation allows.",
}
"Switches that an administrator may turn by name -> a description for people."
LISTS: Final = frozenset({"service_id_aliases", "confidential_fields"})
"Switches whose value is a list."


class App(BaseModel):
    """One environment's data space with its own two keys."""

    model_config = ConfigDict(frozen=True)

    app_id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")
    environment: Environment
    settings: AppSettings = AppSettings()
    created_at: int
    "Milliseconds since 1970."
    display_name: str = ""
    "The name that the console shows beside the id; empty: the id."
    archive_since: int = 0
    "Since when agents read this app, milliseconds since 1970; the newest of all apps counts. 0: never chosen."
    archive: NamedArchive | None = None
    "How agents read this app at an address of its own; None: there is no such address."
    terms: dict[str, ArchiveTerms] = Field(default_factory=dict)
    "Terms of its articles that machines read, by the name of a licence; empty name: of all others."

    @property
    def is_automatic(self) -> bool:
        """Return whether trainings, promotions and rollbacks of the app happen automatically: in production only."""
        return self.environment == "production" and self.settings.automatic_models

    @property
    def read_only(self) -> bool:
        """Return whether clients may read but not write the app: it is the playground."""
        return self.environment == "playground"


def find_archive_app(apps: Mapping[str, App], default: str) -> str:
    """Return the app that agents read: the one chosen last, else the default of the settings."""
    chosen = max(apps.values(), key=lambda app: (app.archive_since, app.app_id), default=None)
    return chosen.app_id if chosen is not None and chosen.archive_since else default
