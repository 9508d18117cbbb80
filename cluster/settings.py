"""Settings: read once from the environment by a composition root, then handed down in small parts.

Only files that start a process (app.py, gateway.py, driver.py, commands/, runtime/) read this module.

What `kiosk up` decides for itself (where its own Redis listens, with which password) it leaves in files below
the data directory, readable by their owner only: an environment variable can be read by every process we
start, and a command line by everybody on the machine. A secret that is given as a variable is taken out of the
environment by the first process (`cluster.runtime.handover`); `<NAME>_FILE` names a file that holds it instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

from cluster.access_tier import parse_claim_values
from cluster.addresses.artifacts_address import check_data_dir, parse_artifacts_address
from cluster.addresses.origin import parse_origin, parse_origins
from cluster.addresses.redis_url import add_options
from cluster.errors import Invalid, InvalidSetting
from cluster.word_lists import words_from_text

REDIS_URL_FILE = "redis.url"
"Name of the file in the data directory with the address of the installation's Redis."

SECRET_VARIABLES = (
    "KIOSK_MASTER_KEY",
    "KIOSK_LLM_KEY",
    "KIOSK_REDIS_URL",
    "KIOSK_REDIS_PASSWORD",
    "KIOSK_OIDC_CLIENT_SECRET",
)
"Settings that must not be in the environment of any child process."

_SERVICE_LINK = re.compile(r"(?:tcp|udp|sctp)://[^\s/]+:\d+")
"What Kubernetes writes into `<NAME>_PORT` of every pod of a namespace with a Service of that name."
_LABEL = re.compile(r"[A-Za-z0-9][\w./-]{0,126}=[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?", re.ASCII)


def _url_left_by_start(given: dict[str, Any]) -> SecretStr | None:
    if "data_dir" not in given:
        return None
    return _secret_in(given.get("redis_url_file") or Path(given["data_dir"]) / REDIS_URL_FILE)


def _secret_in(path: Path) -> SecretStr | None:
    try:
        text = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return SecretStr(text) if text else None


_FILE_SETTINGS = words_from_text(
    "redis_url_file redis_password_file redis_ca redis_cert redis_key cache_dir master_key_file "
    "manifest_key_file llm_key_file oidc_client_secret_file archive_pinned_clients"
)
"Settings that name a file or a folder."


class Settings(BaseSettings):
    """Everything an installation can be told from outside; the prefix is `KIOSK_`."""

    model_config = SettingsConfigDict(env_prefix="KIOSK_", frozen=True, extra="ignore")

    def __init__(self, **given: Any) -> None:
        """Read the settings from the environment.

        Errors:
            InvalidSetting: a value has the wrong type or is out of its bounds
        """
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise InvalidSetting(explain_settings(error)) from None
        except Invalid as error:
            raise InvalidSetting(error.message) from None

    data_dir: Path = Field(default_factory=lambda: Path.home() / ".kiosk")
    "Where this installation keeps everything. Not secret."
    redis_url_file: Path | None = None
    "A file that holds `redis_url`. Not secret."
    redis_url: SecretStr | None = Field(default_factory=_url_left_by_start)
    """An external Redis; without it one is found or brought along, and `<data_dir>/redis.url` says where.
    Forms: `redis://`, `redis+sentinel://`, `redis+cluster://`, with `rediss` for TLS, and `unix://`.
    Secret: may hold a password."""
    redis_password: SecretStr | None = None
    "Password of that Redis, where its address holds none. Secret."
    redis_password_file: Path | None = None
    "A file that holds `redis_password`; read at each new connection, so it may be replaced. Not secret."
    redis_ca: Path | None = None
    "Certificates of the authorities that sign that Redis; without it those of the system. Not secret."
    redis_cert: Path | None = None
    "Certificate by which that Redis knows us. Not secret."
    redis_key: Path | None = None
    "The key of that certificate, where the file of the certificate does not hold it. Not secret."
    redis_wait_replicas: int = Field(default=0, ge=0, le=10)
    "Replicas of that Redis that must have a write before it is acknowledged; 0: none. Not secret."
    master_key: SecretStr | None = None
    """32 bytes in URL-safe base64 that encrypt API keys at rest; else `<data_dir>/master.key`. Behind white space may
    follow previous keys, which still open what they sealed (`kiosk master-key`). Secret."""
    master_key_file: Path | None = None
    "A file that holds `master_key`, as a mounted secret; one key on each line, the current one first. Not secret."
    manifest_key_file: Path | None = None
    """A file with the key that signs manifests, for machines that train and have no master key; else it is derived.
    `kiosk artifacts key` writes it. Not secret."""
    artifacts_url: str = ""
    """Where snapshots, passages and compacted records are kept: `s3://bucket/prefix`, `gs://bucket/prefix`,
    `file:///folder` or a folder, the same for all nodes; else `<data_dir>/shelf`. Credentials are never part of it.
    Not secret."""
    artifacts_copy: str = Field(default="auto", pattern="^(auto|always|never)$")
    """Copy files of an artifact folder to the node before they are mapped: `auto` on network file systems, `always`,
    or `never`. Those of a bucket are always copied. Not secret."""
    cache_dir: Path | None = None
    """Folder of those copies, on a disk of the node; else `<data_dir>/cache`, or below the temporary folder where
    the data directory is on the network. Not secret."""
    cache_mb: int = Field(default=20_480, ge=64)
    "Bound of those copies in MiB; what a process has mapped stays beyond it. Not secret."
    learners: str = ""
    """Learner classes of yours that may run here, as `package.module:Class`, separated by commas; those of
    `kiosk learners allow` come on top. They run with all rights of the process. Not secret."""
    host: str = "127.0.0.1"
    "Address that the API listens on. Not secret."
    port: int = Field(default=8000, ge=1, le=65_535)
    "Port that the API listens on. Not secret."
    trusted_proxies: str = ""
    """Addresses and networks of the proxies in front of the API, separated by commas: only from them is
    `X-Forwarded-For` read. Without any, the address of a caller is the one that connects. Not secret."""
    address_connections: int = Field(default=2048, ge=0)
    "Connections one address may keep; 0: no bound. Trusted proxies have none. Not secret."
    address_requests: int = Field(default=128, ge=0)
    """Requests of one address that may be under way at once, those with a proven secret key not counted;
    0: no bound. Not secret."""
    address_rate: int = Field(default=300, ge=0)
    """Requests of one address in a second, averaged over ten, those with a proven secret key not counted;
    0: no bound. Not secret."""
    public_url: str = ""
    """Origin by which clients reach the API, as `https://news.example.com`; every address in the archive's
    metadata is built from it. Without one only loopback addresses work for agents. Not secret."""
    edge_url: str = ""
    """Origin by which browsers reach the API, as `https://edge.example.com`, where a content delivery network stands in
    front; empty: that of `KIOSK_PUBLIC_URL`. Not secret."""
    plain_sign_in: bool = False
    """People may sign in over plain http beyond loopback, because a proxy in front speaks TLS or the network is safe
    by other means; not needed where `KIOSK_PUBLIC_URL` is set. Not secret."""
    console: bool = True
    """Whether API replicas serve the console below `/console`, administration below `/v1/admin`, and the
    demonstrations below `/demo`. Not secret."""
    oidc_issuer: str = ""
    """Issuer of an OpenID Connect provider, as `https://login.example.com`, through which people may sign in; needs the
    console; empty: with passwords only. Not secret."""
    password_sign_in: bool = True
    """Whether people may sign in with a password where `KIOSK_OIDC_ISSUER` names a provider; without a provider they
    always may. Not secret."""
    oidc_client_id: str = ""
    "Name under which that provider knows this installation. Not secret."
    oidc_client_secret: SecretStr | None = None
    "Its secret there. Secret."
    oidc_client_secret_file: Path | None = None
    "A file that holds `oidc_client_secret`. Not secret."
    oidc_tiers_claim: str = Field(default="", max_length=200)
    """Claim of that provider's ID tokens that names the tiers of articles a person may read, as `subscription` or
    `realm_access.roles`; empty: none does. Not secret."""
    oidc_tiers: str = ""
    """Tiers by the values of that claim, as `premium=subscriber,archive=gold`; empty: the values are the tiers. Not
    secret."""
    archive_app: str = "playground"
    "The app whose articles agents search over MCP. Not secret."
    archive_title: str = "News Archive Search"
    "What the archive is called, on its pages and to agents. Not secret."
    archive_subjects: str | None = Field(default=None, max_length=200, pattern=r"^[^\x00-\x1f\x7f{}]*$")
    """What the archive covers, as agents read it in `/llms.txt` and in the tool's description; absent: the subjects of
    the sample articles while agents read the app `playground`, else nothing. Not secret."""
    archive_connectors: bool = False
    """Whether agents of the older MCP revisions see the tools `search` and `fetch` too; agents of revision 2026-07-28
    always do. Not secret."""
    archive_teasers: bool = False
    """Whether answers of `ask_archive` name locked articles that fit a question, by title and link alone; else a locked
    article is as if it never was. Not secret."""
    archive_client_documents: str = Field(default="off", pattern="^(off|pinned|fetch)$")
    """Whether agents may connect by the address of their client id metadata document instead of a registration:
    `off`; `pinned`, only those of `archive_pinned_clients`; or `fetch`, those of every public host too. Not secret."""
    archive_pinned_clients: Path | None = None
    """A file or a folder of `*.json` files with client id metadata documents that are used without a fetch.
    Not secret."""
    archive_signed_agents: str = Field(default="off", pattern="^(off|fetch)$")
    """Whether agents are identified by signatures of their requests (Web Bot Auth): `off`; or `fetch`, with keys that
    are fetched from the hosts of agents. Not secret."""
    archive_licence: str = "CC BY 2.5"
    "Licence of articles that name none of their own. Not secret."
    archive_citation: str = ""
    "A sentence added to what agents are told about citing. Not secret."
    archive_origins: str = ""
    """Origins of web pages and browsers' extensions that may call the archive from a browser, separated by commas.
    Not secret."""
    max_body_mb: int = Field(default=32, ge=1)
    "Largest request body in MiB. Not secret."
    memory_mb: int = Field(default=512, ge=64)
    """MiB of memory for the engines and archives of all apps in one API replica. Apps that were not used lately are
    unloaded above it. The process takes up to 656 MiB more, which `KIOSK_RESERVE_MEMORY` reserves, too. `--memory` and
    an argument `memory_budget_mb` of a Serve configuration take precedence. Not secret."""
    max_training_memory_mb: int = Field(default=0, ge=0)
    """Largest `limits.memory_mb` in MiB of a recipe in any app; the switch `max_training_memory_mb` of an app can only
    lower it. 0: what the machine has left. Not secret."""
    replicas_min: int = Field(default=1, ge=1)
    "API replicas at rest. Not secret."
    replicas_max: int = Field(default=2, ge=1)
    "API replicas under load. Not secret."
    api_nodes: str = ""
    """Labels of the Ray nodes that may run API replicas, as `kiosk-group=api`, separated by commas; empty: any node.
    Not secret."""
    engine_nodes: str = ""
    "Labels of the Ray nodes that may run dedicated engines; empty: any node. Not secret."
    training_nodes: str = ""
    "Labels of the Ray nodes that may run trainings, imports and batch scoring; empty: any node. Not secret."
    reserve_memory: bool = False
    """Ray reserves the memory budgets of API replicas and dedicated engines, so that no node takes more of them than it
    can hold; `kiosk node env` turns it on. Not secret."""
    disk_limit: float = Field(default=0.94, gt=0, le=1)
    "Share of the data directory's disk that may be used before writes are refused. Not secret."
    dashboard: bool = True
    "Run Ray's dashboard, on loopback and behind a token. Not secret."
    object_store_mb: int = Field(default=128, ge=80)
    "Shared memory Ray may use for objects between processes. Not secret."
    redis_memory_mb: int = Field(default=0, ge=0)
    """Memory in MiB our own Redis may use before it refuses writes; 0: a quarter of the machine's or container's, at
    least 256. Not secret."""

    slow_request_ms: int = Field(default=1_000, ge=0)
    "Milliseconds from which a request gets a line with its stages in the log; 0: no such lines. Not secret."
    trace_url: str = ""
    """Address of an OpenTelemetry collector that takes spans over HTTP, as `http://collector:4318`; without one nothing
    is traced. Needs the packages of `kiosk[tracing]`. Not secret."""
    trace_sample: float = Field(default=0.01, ge=0, le=1)
    "Share of requests that are traced, beside those whose caller traces them. Not secret."
    haproxy_metrics: str = ""
    """Address and port where HAProxy's own metrics can be read, as `10.0.0.5:9101` or `0.0.0.0:9101`; without one they
    can be read on loopback only. Not secret."""

    llm_url: str = ""
    """Address of a server with the OpenAI chat interface, as `https://models.example.com/v1`, that writes answers;
    without one they are composed of the sources' own sentences. Not secret."""
    llm_model: str = ""
    "The model to ask for. Not secret."
    llm_key: SecretStr | None = None
    "Sent to that server as a bearer token. Secret."
    llm_key_file: Path | None = None
    "A file that holds `llm_key`. Not secret."
    llm_internal: bool = False
    "The server may have a loopback, private or link-local address. Not secret."
    llm_connect_s: float = Field(default=3.0, gt=0, le=30)
    "How long a connection to it may take. Not secret."
    llm_first_s: float = Field(default=12.0, gt=0, le=50)
    "How long its first piece of text may take. Not secret."
    llm_between_s: float = Field(default=6.0, gt=0, le=50)
    "How long the next piece may take. Not secret."
    llm_total_s: float = Field(default=40.0, gt=0, le=50)
    "How long all of it may take. Not secret."
    llm_tokens: int = Field(default=700, ge=16, le=8_000)
    "Tokens it may write for one answer. Not secret."

    @model_validator(mode="before")
    @classmethod
    def _drop_service_links(cls, given: Any) -> Any:
        """Ignore `KIOSK_PORT` of a Kubernetes Service called `kiosk`: nobody has set it."""
        if isinstance(given, dict) and _SERVICE_LINK.fullmatch(str(given.get("port", ""))):
            return {name: value for name, value in given.items() if name != "port"}
        return given

    @field_validator("data_dir", mode="before")
    @classmethod
    def _is_folder(cls, place: object) -> object:
        check_data_dir(str(place))
        return place

    @field_validator("artifacts_url")
    @classmethod
    def _is_address(cls, text: str) -> str:
        address = parse_artifacts_address(text) if text else None
        if address is not None and address.scheme == "file":
            folder = Path(address.path).expanduser()
            if not folder.is_absolute():
                raise Invalid("KIOSK_ARTIFACTS_URL must be absolute: every node and every shell reads it")
            return str(folder)
        return text

    @field_validator(*_FILE_SETTINGS, mode="before")
    @classmethod
    def _is_named(cls, text: object) -> object:
        return text or None

    @field_validator("public_url", "edge_url")
    @classmethod
    def _is_origin(cls, text: str, info: ValidationInfo) -> str:
        return parse_origin(text, f"KIOSK_{str(info.field_name).upper()}") if text else ""

    @field_validator("trace_url")
    @classmethod
    def _is_http(cls, text: str) -> str:
        if text and not text.startswith(("http://", "https://")):
            raise Invalid(f"KIOSK_TRACE_URL is an address as http://collector:4318, not {text!r}")
        return text

    @field_validator("haproxy_metrics")
    @classmethod
    def _is_bind(cls, text: str) -> str:
        host, _, port = text.rpartition(":")
        try:
            valid = not text or (bool(ip_address(host.strip("[]"))) and 0 < int(port) < 65_536)
        except ValueError:
            valid = False
        if not valid:
            raise Invalid(f"KIOSK_HAPROXY_METRICS is an address and a port as 0.0.0.0:9101, not {text!r}")
        return text

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, text: str) -> str:
        parts = [part.strip() for part in text.split(",") if part.strip()]
        try:
            return ",".join(str(ip_network(part, strict=False)) for part in parts)
        except ValueError as error:
            raise Invalid(
                f"KIOSK_TRUSTED_PROXIES names addresses and networks, as 10.0.0.0/8: {error}"
            ) from error

    @field_validator("api_nodes", "engine_nodes", "training_nodes")
    @classmethod
    def _are_labels(cls, text: str, info: ValidationInfo) -> str:
        parts = [part.strip() for part in text.split(",") if part.strip()]
        wrong = next((part for part in parts if not _LABEL.fullmatch(part)), None)
        if wrong is not None:
            raise Invalid(
                f"KIOSK_{str(info.field_name).upper()} names labels of Ray nodes, as kiosk-group=api: {wrong!r} is none"
            )
        return ",".join(parts)

    @field_validator("archive_pinned_clients")
    @classmethod
    def _is_absolute(cls, path: Path | None) -> Path | None:
        if path is not None and not path.expanduser().is_absolute():
            raise Invalid("KIOSK_ARCHIVE_PINNED_CLIENTS must be absolute: every API replica reads it")
        return path and path.expanduser()

    @field_validator("archive_origins")
    @classmethod
    def _are_origins(cls, text: str) -> str:
        return parse_origins(text)

    def shareable(self) -> dict[str, Any]:
        """Return the settings that commands of other shells may read: no secrets, and no paths of this shell."""
        private = {name for name, field in Settings.model_fields.items() if {SecretStr, Path} & _kinds(field)}
        # Each process runs the learners of its own start.
        return self.model_dump(mode="json", exclude={*private, "learners"})

    def replaced_by(self, running: Mapping[str, Any]) -> tuple[Settings, list[str]]:
        """Return the settings of a running installation; and those that had no effect here, as `KIOSK_PORT=9000`."""
        settings = self.shareable()
        taken = {
            name: value for name, value in running.items() if name in settings and value != settings[name]
        }
        in_vain = [
            f"KIOSK_{name.upper()}={settings[name]}" for name in taken if name in self.model_fields_set
        ]
        return self.model_copy(update=taken), sorted(in_vain)

    @property
    def observed(self) -> tuple[int, float]:
        """Return from when a request counts as slow, in milliseconds, and the share of requests that are traced."""
        return self.slow_request_ms, self.trace_sample

    @property
    def proxy_networks(self) -> tuple[str, ...]:
        """Return the trusted proxies one by one."""
        return tuple(self.trusted_proxies.split(",")) if self.trusted_proxies else ()

    def node_options(self, group: Literal["api", "engine", "training"]) -> dict[str, Any]:
        """Return the options of Ray that keep actors and tasks of a group on its nodes; none without labels."""
        text: str = getattr(self, f"{group}_nodes")
        labels = dict(part.split("=", 1) for part in text.split(",") if part)
        return {"label_selector": labels} if labels else {}

    @property
    def artifacts_address(self) -> str:
        """Return the address of the artifact store: a folder below the data directory if none is set."""
        return self.artifacts_url or str(self.data_dir / "shelf")

    @property
    def llm(self) -> dict[str, Any] | None:
        """Return the options of the language model for answers; None without a model."""
        if not self.llm_url:
            return None
        key = _secret_in(self.llm_key_file) if self.llm_key_file is not None else self.llm_key
        return {
            "url": self.llm_url,
            "model": self.llm_model,
            "key": key.get_secret_value() if key is not None else "",
            "may_be_internal": self.llm_internal,
            "connect_s": self.llm_connect_s,
            "first_s": self.llm_first_s,
            "between_s": self.llm_between_s,
            "total_s": self.llm_total_s,
            "most_tokens": self.llm_tokens,
        }

    @property
    def oidc(self) -> tuple[str, str, str, str, dict[str, str]] | None:
        """Return issuer, client id, client secret, claim of tiers and its values of the provider; None without one.

        It leads people back to a page of the console, so there is none without the console.

        Errors:
            InvalidSetting: the client id or the secret is missing, or a value of the claim has no tier
        """
        if not self.oidc_issuer or not self.console:
            return None
        in_file = self.oidc_client_secret_file
        secret = _secret_in(in_file) if in_file is not None else self.oidc_client_secret
        if not self.oidc_client_id or secret is None:
            raise InvalidSetting("KIOSK_OIDC_ISSUER needs KIOSK_OIDC_CLIENT_ID and KIOSK_OIDC_CLIENT_SECRET")
        try:
            tiers = parse_claim_values(self.oidc_tiers)
        except ValueError as error:
            raise InvalidSetting(f"KIOSK_OIDC_TIERS: {error}") from None
        client = self.oidc_client_id, secret.get_secret_value()
        return self.oidc_issuer, *client, self.oidc_tiers_claim, tiers

    @property
    def redis_address(self) -> str | None:
        """Return the address of Redis with all that belongs to it, as `open_stores` reads it; None without one.

        Secret: holds a password where no file does.
        """
        if self.redis_url is None or not self.redis_is_external:
            return None if self.redis_url is None else self.redis_url.get_secret_value()
        password = self.redis_password.get_secret_value() if self.redis_password is not None else ""
        options = {
            "password": "" if self.redis_password_file else password,
            "password_file": str(self.redis_password_file or ""),
            "ssl_ca_certs": str(self.redis_ca or ""),
            "ssl_certfile": str(self.redis_cert or ""),
            "ssl_keyfile": str(self.redis_key or ""),
            "wait_replicas": str(self.redis_wait_replicas or ""),
        }
        return add_options(self.redis_url.get_secret_value(), options)

    @property
    def redis_is_external(self) -> bool:
        """Return whether an external Redis is set, so that none is started here."""
        return "redis_url" in self.model_fields_set or self.redis_url_file is not None


def explain_settings(error: ValidationError) -> str:
    """Return in one line which settings are invalid and what each must be; without values of secrets."""
    problems = []
    for problem in error.errors():
        name = str(problem["loc"][0]) if problem["loc"] else ""
        field = Settings.model_fields.get(name)
        if field is None:
            problems.append(f"{name or 'settings'}: {problem['msg']}")
            continue
        value = "its value" if SecretStr in _kinds(field) else repr(str(problem["input"]))
        problems.append(f"KIOSK_{name.upper()}: {value} is {_expected(field)}")
    return "; ".join(problems)


def _kinds(field: FieldInfo) -> set[Any]:
    return {field.annotation, *get_args(field.annotation)}


_WRONG_TYPE_TEXTS = {int: "no whole number", float: "no number", bool: "neither true nor false"}


def _expected(field: FieldInfo) -> str:
    kind = next(
        (_WRONG_TYPE_TEXTS[kind] for kind in _kinds(field) if kind in _WRONG_TYPE_TEXTS), "not allowed"
    )
    bounds = {
        name: getattr(rule, name)
        for rule in field.metadata
        for name in ("gt", "ge", "lt", "le")
        if hasattr(rule, name)
    }
    low = bounds.get("gt", bounds.get("ge"))
    high = bounds.get("lt", bounds.get("le"))
    if low is None and high is None:
        return kind
    if high is None:
        return f"{kind} from {low:,} on" if "ge" in bounds else f"{kind} above {low:,}"
    return f"{kind} between {low:,} and {high:,}"
