"""The configuration of HAProxy: what Ray Serve wrote, tightened. Standard library only.

    connection      bounded by address
    request         cleaned -> address found -> bounded by address -> body awaited -> counted, if it is a read
    answer          teaches which keys are good; a refused key counts against the address

What `tighten` changes, and why:

    no log line at all          HAProxy would log request lines, which hold query strings
    admin socket mode 600       Serve asks for 666
    metrics                     on loopback instead of all interfaces
    statistics page             gone: it asks for no token, and Serve uses the admin socket
    public address              the doors' own, while replicas listen on loopback only
    502, 503                    503 with `Retry-After` and a JSON body instead of a bare 500
    timeouts                    request head 10 s, first 30 KB of the body 10 s (2 s for sign-in), silence 30 s
    headers of Serve's own      a stranger may not switch off time limits or choose replicas
    `X-Forwarded-For`           holds one address, found by HAProxy; only trusted proxies are believed (RFC 7239, 8.1)
    `Upgrade`                   websockets are refused, other upgrades are ignored
    bounds of each address      on connections, requests under way, requests and refused keys in ten seconds
    repeated requests           a request whose replica died is sent again when it only reads
    shared connections          a caller's first request never travels on one that may just be closing: HAProxy
                                would hang up on the caller without an answer
    bound of reads              only so many at once per replica; one more is told to come back at once. A read
                                counts when its whole body is here. Proven secret keys, secret keys that are new
                                and all others have a bound each
    backup server               without a replica the answer is an immediate 503, not a queue in a slow proxy

HAProxy learns which keys are good from the answers of the replicas (`kiosk_keys`): a key is proven for ten
minutes when a request with it was answered with 200, 404 or 422. Proven secret keys have no bounds by address,
so a forged one gains nothing.

What HAProxy 2.8 can't read as HTTP it answers with a page of its own that no setting changes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

BUSY = "The service is busy or restarting. Please retry."
"Also said by the doors when a part is away (deployments/edge/errors.py)."
TIMEOUT = "Request timeout."
MALFORMED = "Malformed request."
NO_KEY = "invalid api key."
TOO_MANY = "Too many requests."
OVERLOADED = "The service is overloaded. Please retry."
TWO_KEYS = "X-API-KEY was sent more than once."
NO_UPGRADE = "This service speaks no websockets."
FAULT = "Something went wrong. Please contact the product team."
_RETRY = 'hdr Retry-After "1" '
_CHALLENGE = (
    'hdr WWW-Authenticate "ApiKey realm=\\"kiosk\\", error_description=\\"no key was sent; send it in the header '
    'X-API-KEY or as the query parameter api_key\\"" '
)
_MORE = {401: _CHALLENGE, 429: _RETRY, 502: _RETRY, 503: _RETRY}
"Status -> headers that only it has."
SERVES_OWN_HEADERS = (
    "x-request-timeout-seconds",
    "x-request-disconnect-disabled",
    "serve_multiplexed_model_id",
    "serve-multiplexed-model-id",
)
READING_POSTS = "/v1/recommendation/ /v1/search/"
"POST endpoints that change nothing, so they may be sent again."
BUFFER_BYTES = 32_768
"A head, and a body of a read or of a sign-in, fit in; longer bodies pass through and don't count as reads here."

ROOM, CONNECTIONS, CALLERS, KEYS = "kiosk_room", "kiosk_connections", "kiosk_callers", "kiosk_keys"
"Names of the tables: reads under way, connections and requests by address, proven keys."
MOST_PROXIES = 3
"Trusted proxies in a row."
_TABLES = {
    # Proven secret keys, everybody else, secret keys that are not proven yet.
    ROOM: "type integer size 3 store conn_cur",
    CONNECTIONS: "type ipv6 size 100k expire 1m store conn_cur",
    CALLERS: "type ipv6 size 100k expire 1m store conn_cur,http_req_rate(10s),gpc0,gpc0_rate(10s)",
    # Hashes of keys that replicas accepted; strangers can't add any.
    KEYS: "type binary len 20 size 20k expire 10m store gpt0",
}
SETTINGS = {
    "KIOSK_TRUSTED_PROXIES": "trusted_proxies",
    "KIOSK_ADDRESS_CONNECTIONS": "address_connections",
    "KIOSK_ADDRESS_REQUESTS": "address_requests",
    "KIOSK_ADDRESS_RATE": "address_rate",
}
"Settings that each start of HAProxy reads from its environment."
_BACKEND = re.compile(r"^backend (?!default_backend$)(\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class HAProxyOptions:
    """What an installation wants of its HAProxy; written as JSON by the start, read by every run."""

    binary: str
    "The real HAProxy."
    bind: str
    "Public address and port, as HAProxy writes them; empty: as Serve says."
    pid_file: str
    "Where the process id of the newest HAProxy is written."
    max_connections: int = 4096
    connect_ms: int = 200
    "How long a replica may take to accept a connection; on one machine that is done by the kernel."
    most_reads: int = 128
    "Reading requests at once per replica; what is over that would only make all of them wait."
    patience_s: int = 10
    "How long a client may take to send a request's head, and again for its body or the beginning of it."
    sign_in_s: int = 2
    "How long the body of a request about signing in may take."
    trusted_proxies: str = ""
    "Addresses and networks, separated by commas."
    address_connections: int = 2048
    address_requests: int = 128
    address_rate: int = 300
    "Bounds of one address, as the settings of the same names say; 0: none."

    def save(self, path: Path) -> None:
        """Write them down."""
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> HAProxyOptions:
        """Read them back."""
        return cls(**json.loads(path.read_text()))

    def with_environment(self, environment: Mapping[str, str]) -> HAProxyOptions:
        """Take what the environment sets."""
        given: dict[str, Any] = {
            name: environment[variable] if name == "trusted_proxies" else int(environment[variable])
            for variable, name in SETTINGS.items()
            if variable in environment
        }
        return replace(self, **given)

    @property
    def networks(self) -> str:
        """The trusted proxies as HAProxy writes them; empty when there are none."""
        return " ".join(part.strip() for part in self.trusted_proxies.split(",") if part.strip())


def tighten(config: str, options: HAProxyOptions) -> str:
    """Rewrite a configuration as Ray 2.60 generates it.

    Sections are told by their heading; what is not known is left as it is, so a later Ray still starts and
    `kiosk doctor` tells what is missing.
    """
    lines: list[str] = []
    section = ""
    rooms = _BACKEND.findall(config)
    for line in config.splitlines():
        words = line.split()
        if words and not line[:1].isspace():
            section = " ".join(words[:2])
        if section == "listen stats":
            continue
        kept = _line(line, words, section, options)
        if kept is not None:
            lines.append(kept)
        if words and not line[:1].isspace():
            lines += _added(section, options, rooms)
    for table, stored in _TABLES.items():
        lines += [f"backend {table}", f"    stick-table {stored}"]
    return "\n".join(lines) + "\n"


def _line(line: str, words: list[str], section: str, options: HAProxyOptions) -> str | None:
    """Rewrite one line; None drops it."""
    first, second = [*words, "", ""][:2]
    if first in ("log", "log-format-sd") or (first, second) in (
        ("option", "httplog"),
        ("option", "log-health-checks"),
    ):
        return None
    if first == "errorfile":
        return None
    if first == "maxconn" and section == "global":
        return f"    maxconn {options.max_connections}"
    if (first, second) == ("stats", "socket"):
        return line.replace("mode 666", "mode 600")
    if first == "bind" and section == "frontend http_frontend" and options.bind:
        return f"    bind {options.bind}"
    if first == "bind" and section == "frontend prometheus":
        return re.sub(r"bind\s+\*?:", "    bind 127.0.0.1:", line.strip())
    if first in ("tune.bufsize", "tune.stick-counters"):
        return None
    if first == "timeout" and second in ("client", "connect", "http-keep-alive", "server"):
        return None
    if first == "server" and words[-1] == "backup":
        return None
    if (first, second) == ("http-reuse", "always"):
        return "    http-reuse safe"
    if section == "backend default_backend" and (first, second) == ("http-request", "return"):
        # Nothing is deployed yet, or nothing any more: not a wrong path.
        return f"    {return_now(503, BUSY)}"
    return line


def _added(section: str, options: HAProxyOptions, rooms: list[str]) -> list[str]:
    """Lines that follow a section's heading."""
    if section.startswith("defaults"):
        return [f"    {line}" for line in _default_lines(options)]
    if section == "global":
        return [f"    tune.bufsize {BUFFER_BYTES}", "    tune.stick-counters 4"]
    if section == "frontend http_frontend":
        more = [
            *_connection_lines(options),
            *_cleaning_lines(),
            *_address_lines(options),
            *_caller_lines(options),
            *_body_lines(options),
            *_room_lines(rooms, options.most_reads),
            *_answer_lines(),
        ]
        return [f"    {line}" for line in more]
    return []


def _default_lines(options: HAProxyOptions) -> list[str]:
    errors = {
        400: MALFORMED, 401: NO_KEY, 403: NO_UPGRADE, 404: "not found", 408: TIMEOUT, 413: MALFORMED, 429: TOO_MANY,
        500: FAULT, 502: BUSY, 503: BUSY, 504: TIMEOUT,
    }  # fmt: skip
    return [
        # Also the pause before a connection is tried again; Serve can only say whole seconds.
        f"timeout connect {options.connect_ms}ms",
        f"timeout http-request {options.patience_s}s",
        "timeout http-keep-alive 60s",
        "timeout client 30s",
        "timeout server 60s",
        "timeout queue 5s",
        "timeout check 2s",
        "timeout tarpit 5s",
        *(http_error(status, message) for status, message in errors.items()),
    ]


def _connection_lines(options: HAProxyOptions) -> list[str]:
    """Bound the connections of one address, more strictly when HAProxy is 60 % and 80 % full."""
    most, all_of_them = options.address_connections, options.max_connections
    if not most:
        return []
    return [
        *([f"tcp-request connection accept if {{ src {options.networks} }}"] if options.networks else []),
        f"tcp-request connection track-sc0 src,ipmask(32,64) table {CONNECTIONS}",
        f"tcp-request connection reject if {{ sc0_conn_cur({CONNECTIONS}) gt {most} }}",
        *(
            f"tcp-request connection reject if {{ fe_conn gt {int(all_of_them * full)} }} "
            f"{{ sc0_conn_cur({CONNECTIONS}) gt {max(1, most // part)} }}"
            for full, part in ((0.6, 8), (0.8, 64))
        ),
    ]


def _cleaning_lines() -> list[str]:
    """Refuse what no caller has business with."""
    return [
        # Only what begins like this may decode to one of Serve's own paths; decoding costs a copy.
        "http-request deny deny_status 404 if { path -m beg /- /% } { path,url_dec -m beg /-/ } "
        "!{ path /-/healthz }",
        f"{return_now(400, TWO_KEYS)} if {{ req.fhdr_cnt(x-api-key) gt 1 }}",
    ]


def _address_lines(options: HAProxyOptions) -> list[str]:
    """Find the address of the caller and hand it on as the only entry of `X-Forwarded-For`."""
    trusted = options.networks
    if not trusted:
        return ["http-request set-header X-Forwarded-For %[src]"]
    # The last entry that is no trusted proxy; one address more than proxies can stand in a row.
    entries = [f"req.hdr_ip(x-forwarded-for,-{place})" for place in range(1, MOST_PROXIES + 1)]
    found = f"if {{ var(txn.address) -m ip {trusted} }}"
    return [
        "http-request set-var(txn.address) src",
        *(f"http-request set-var(txn.address) {entry} {found} {{ {entry} -m found }}" for entry in entries),
        "http-request set-header X-Forwarded-For %[var(txn.address)]",
    ]


def _caller_lines(options: HAProxyOptions) -> list[str]:
    """Bound what one address asks, unless it asks with a proven secret key."""
    address = "var(txn.address)" if options.networks else "src"
    lines = [
        "http-request set-var(txn.key) req.fhdr(x-api-key)",
        "http-request set-var(txn.key) url_param(api_key) if !{ var(txn.key),length gt 0 }",
        "http-request set-var(txn.key) req.fhdr(authorization) if { path_beg /mcp }",
        "acl has_key var(txn.key),length gt 0",
        "acl is_public var(txn.key) -m beg kpk_",
        f"http-request set-var(txn.proven) var(txn.key),sha1,table_gpt0({KEYS}) if has_key",
        "acl is_exempt var(txn.proven) -m int eq 1",
        "acl is_known var(txn.proven) -m int gt 0",
        "acl is_keyed path_beg /v1/",
        "acl is_keyed path /mcp",
        "http-request set-var(txn.proves) bool(true) if has_key is_keyed !METH_OPTIONS",
        # All that follows bounds others, or concerns bodies and headers that a shop's own server does not send.
        "http-request allow if is_exempt METH_GET",
        *(f"http-request del-header {name}" for name in SERVES_OWN_HEADERS),
        f"{return_now(403, NO_UPGRADE)} if {{ req.hdr(upgrade) -m sub -i websocket }}",
        "http-request del-header upgrade",
        f"http-request track-sc1 {address},ipmask(32,64) table {CALLERS} if !is_exempt",
    ]
    if options.address_requests:
        over = f"sc1_conn_cur({CALLERS}) gt {options.address_requests}"
        lines += [
            # After a reload no key is proven, and a server's first hundreds of requests come at once. They wait for
            # no proof unless their address was refused lately; who forges a key is refused at once.
            "http-request set-var(txn.plausible) bool(true) if !is_exempt { var(txn.key) -m beg ksk_ } "
            f"{{ sc1_gpc0_rate({CALLERS}) eq 0 }}",
            f"{return_now(429, TOO_MANY)} if {{ {over} }} !{{ var(txn.plausible) -m bool }}",
        ]
    if options.address_rate:
        over = f"sc1_http_req_rate({CALLERS}) gt {10 * options.address_rate}"
        # Wrong keys: a fraction of that, and who has a key that is known to be good does not pay for others.
        wrong = f"sc1_gpc0_rate({CALLERS}) gt {max(10, 10 * options.address_rate // 15)}"
        lines += [
            f"{return_now(429, TOO_MANY)} if {{ {over} }}",
            f"{return_now(429, TOO_MANY)} if !is_known {{ {wrong} }}",
        ]
    return lines


def _body_lines(options: HAProxyOptions) -> list[str]:
    """Hold every request back until its body is here, or as much of it as fits in.

    HAProxy answers `Expect` itself meanwhile.
    """
    return [
        f"acl only_reads path_beg {READING_POSTS}",
        f"{return_now(401, NO_KEY)} if only_reads METH_POST !has_key",
        f"http-request wait-for-body time {options.sign_in_s}s if {{ path_beg /oauth/ }}",
        f"http-request wait-for-body time {options.patience_s}s",
        "http-request disable-l7-retry if !METH_GET !only_reads",
    ]


def _room_lines(backends: list[str], most: int) -> list[str]:
    """Count reads under way, and refuse those for which the replicas that are up have no room.

    What is not whole is not counted here but by the replica, which reads bodies before it counts.
    """
    if not backends:
        return []
    return [
        "http-request set-var(txn.here) req.body_len if only_reads METH_POST",
        "http-request set-var(txn.missing) req.body_size,sub(txn.here) if only_reads METH_POST",
        "acl is_counted var(txn.missing) -m int eq 0",
        "http-request set-var(txn.missing) int(1) if only_reads { req.hdr_cnt(transfer-encoding) gt 0 }",
        "http-request set-var(txn.class) int(2) if is_counted",
        "http-request set-var(txn.class) int(3) if is_counted { var(txn.key) -m beg ksk_ }",
        "http-request set-var(txn.class) int(1) if is_counted is_exempt",
        f"http-request track-sc2 var(txn.class) table {ROOM} if is_counted",
        f"http-request set-var(txn.room) nbsrv({backends[0]}),mul({most}) if is_counted",
        f"{return_now(429, OVERLOADED)} if is_counted {{ sc2_conn_cur({ROOM}),sub(txn.room) gt 0 }}",
    ]


def _answer_lines() -> list[str]:
    """Learn from answers which keys are good, and count wrong ones."""
    learns = f"http-response track-sc3 var(txn.key),sha1 table {KEYS}"
    # A replica looks at the key before it says any of these to a request that carries one.
    proven = "!is_known { var(txn.proves) -m bool } { status 200 404 422 }"
    lost = "{ status 401 } is_known { var(txn.proves) -m bool }"
    return [
        f"{learns} if {proven}",
        f"http-response sc-set-gpt0(3) 1 if {proven} !is_public",
        f"http-response sc-set-gpt0(3) 2 if {proven} is_public",
        # Keeps the keys that are used much from expiring.
        f"{learns} if is_known {{ rand(64) eq 0 }}",
        f"{learns} if {lost}",
        f"http-response sc-set-gpt0(3) 0 if {lost}",
        "http-response sc-inc-gpc0(1) if { status 401 }",
        "http-response del-header server",
        "http-after-response set-status 503 if { status 502 }",
    ]


def _body(message: str) -> str:
    return json.dumps({"message": message}, separators=(",", ":"))


def http_error(status: int, message: str) -> str:
    """Write the line that gives one status its body."""
    return (
        f"http-error status {status} content-type application/json "
        f"lf-string {_quoted(_body(message))} {_headers(status)}"
    )


def return_now(status: int, message: str) -> str:
    """Write the action that answers a request at once."""
    return (
        f"http-request return status {status} content-type application/json "
        f"lf-string {_quoted(_body(message))} {_headers(status)}"
    )


def _headers(status: int) -> str:
    more = _MORE.get(status, "")
    return (
        f'{more}hdr X-Request-Id "%[uuid()]" hdr Access-Control-Allow-Origin "*" '
        'hdr Access-Control-Expose-Headers "X-Request-Id, Retry-After, WWW-Authenticate"'
    )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "\\$")
    return f'"{escaped}"'
