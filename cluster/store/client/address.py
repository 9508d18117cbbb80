"""The address of Redis, parsed from a URL.

redis://[user:password@]host[:port][/db]                      one server
redis+sentinel://[user:password@]host:port,...[/service[/db]]  a master that Sentinel names; the hosts are Sentinels
redis+cluster://[user:password@]host:port,...                  a Redis Cluster; the hosts are some of its nodes
rediss://, rediss+sentinel://, rediss+cluster://               the same over TLS
unix://[user:password@]/path/to/socket[?db=0]

Options follow `?`, with the names of redis-py: `ssl_ca_certs`, `ssl_certfile`, `ssl_keyfile`,
`ssl_check_hostname`. Kiosk adds `password_file`, `sentinel_username`, `sentinel_password`,
`sentinel_password_file` and `wait_replicas`.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

from cluster.errors import Invalid, Unavailable

PORT = 6379
SENTINEL_PORT = 26379
SERVICE = "mymaster"

Kind = Literal["server", "sentinel", "cluster"]
_KINDS: dict[str, Kind] = {"": "server", "sentinel": "sentinel", "cluster": "cluster"}
_REFUSED = (
    "the store's URL is none of redis://, rediss://, unix://, redis+sentinel://, rediss+sentinel://, "
    "redis+cluster://, rediss+cluster://"
)


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where one server listens: a path, or host and port."""

    path: str = ""
    host: str = ""
    port: int = PORT

    def __str__(self) -> str:
        return self.path or f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Credentials:
    """User and password; the password never shows in a repr."""

    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    password_file: str = ""

    def read(self) -> tuple[str, str]:
        """Return user and password; a file is read at each call, so a replaced one counts from the next connection on.

        Errors:
            Unavailable: the file can't be read
        """
        if not self.password_file:
            return self.username, self.password
        try:
            return self.username, Path(self.password_file).read_text("utf-8").strip()
        # `from None`: the error of a read could carry part of the file into a log.
        except (OSError, UnicodeDecodeError):
            raise Unavailable(
                f"the store's password file {self.password_file} can't be read", retry_after_s=5
            ) from None


@dataclass(frozen=True, slots=True)
class Tls:
    """Files that prove identities; empty paths mean the system's authorities and no client certificate."""

    ca: str = ""
    cert: str = ""
    key: str = ""
    checks_host: bool = True

    def open_context(self) -> ssl.SSLContext:
        """Return a context with the files as they are now.

        Errors:
            Unavailable: a file is missing or damaged
        """
        try:
            context = ssl.create_default_context(cafile=self.ca or None)
            if self.cert:
                context.load_cert_chain(self.cert, self.key or None)
        except (OSError, ssl.SSLError) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise Unavailable(
                "a certificate file of the store can't be read", retry_after_s=5, reason=reason
            ) from None
        context.check_hostname = self.checks_host
        return context


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed Redis URL."""

    kind: Kind = "server"
    endpoints: tuple[ServerAddress, ...] = (ServerAddress(host="localhost"),)
    "The server, or the Sentinels, or some nodes of the cluster."
    service: str = ""
    "The name of the master in Sentinel."
    db: int = 0
    credentials: Credentials = Credentials()
    sentinel: Credentials = Credentials()
    tls: Tls | None = None
    wait_replicas: int = 0
    "Number of replicas that must confirm a write before it is acknowledged."

    @classmethod
    def parse(cls, url: str) -> Address:
        """Parse a Redis URL.

        Errors:
            Invalid: not a Redis URL; the message never repeats it
        """
        try:
            return _parse(urlsplit(url))
        except ValueError:
            # `from None` too: the text of a ValueError may repeat the URL and with it the password.
            raise Invalid(_REFUSED) from None

    @property
    def place(self) -> str:
        """Return where it is, without user and password."""
        return ",".join(map(str, self.endpoints))


def _parse(parts: SplitResult) -> Address:
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    # From the last @: a password that was not quoted may contain one.
    user, _, hosts = parts.netloc.rpartition("@")
    username, _, password = user.partition(":")
    credentials = Credentials(
        unquote(username) or query.get("username", ""),
        unquote(password) or query.get("password", ""),
        query.get("password_file", ""),
    )
    replicas = int(query.get("wait_replicas", "0"))
    if parts.scheme == "unix":
        if not parts.path:
            raise ValueError("no path")
        place = ServerAddress(path=unquote(parts.path))
        db = int(query.get("db", "0"))
        return Address("server", (place,), "", db, credentials, wait_replicas=replicas)
    scheme, _, name = parts.scheme.partition("+")
    kind = _KINDS.get(name)
    if scheme not in ("redis", "rediss") or kind is None or (parts.scheme.endswith("+")):
        raise ValueError("another scheme")
    steps = [unquote(step) for step in parts.path.split("/") if step]
    service = (steps.pop(0) if steps else SERVICE) if kind == "sentinel" else ""
    db = int(steps.pop(0) if steps else query.get("db", "0"))
    port = SENTINEL_PORT if kind == "sentinel" else PORT
    endpoints = tuple(_parse_place(place, port) for place in hosts.split(","))
    if (
        steps
        or db < 0
        or replicas < 0
        # A Redis Cluster has database 0 only.
        or (kind == "cluster" and db)
        or (kind == "server" and len(endpoints) > 1)
    ):
        raise ValueError("does not fit together")
    return Address(
        kind,
        endpoints,
        service,
        db,
        credentials,
        _sentinel(query),
        _tls(scheme, query),
        wait_replicas=replicas,
    )


def _parse_place(place: str, port: int) -> ServerAddress:
    parts = urlsplit(f"//{place}")
    return ServerAddress(host=unquote(parts.hostname or "localhost"), port=parts.port or port)


def _sentinel(query: dict[str, str]) -> Credentials:
    return Credentials(
        *(query.get(f"sentinel_{name}", "") for name in ("username", "password", "password_file"))
    )


def _tls(scheme: str, query: dict[str, str]) -> Tls | None:
    if scheme != "rediss":
        return None
    checks = query.get("ssl_check_hostname", "true").lower() not in ("false", "0", "no")
    ca, cert, key = (query.get(f"ssl_{name}", "") for name in ("ca_certs", "certfile", "keyfile"))
    return Tls(ca, cert, key, checks)
