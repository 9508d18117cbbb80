"""The configuration of HAProxy: the one of Ray Serve with stricter limits. Standard library only.

    connection      bounded by address
    request         cleaned -> address found -> bounded by address -> body awaited -> counted, if it is a read
    answer          teaches which keys are good; a refused key counts against the address

What `rewrite_ray_config` changes, and why:

    no log line at all          HAProxy would log request lines, which hold query strings
    admin socket mode 600       Serve asks for 666
    metrics                     on loopback instead of all interfaces, or where KIOSK_HAPROXY_METRICS says
    statistics page             removed: it needs no token, and Serve uses the admin socket
    public address              bound by HAProxy, while replicas listen on loopback only
    502, 503                    503 with `Retry-After` and a JSON body instead of a bare 500
    timeouts                    request head 10 s, first 30 KB of the body 10 s (2 s for sign-in), silence 30 s
    headers of Serve's own      removed: a client must not switch off time limits or choose replicas
    `X-Forwarded-For`           holds one address, found by HAProxy; only trusted proxies are believed (RFC 7239, 8.1)
    `Upgrade`                   websockets are refused, other upgrades are ignored
    bounds of each address      on connections, requests under way, requests and refused keys in ten seconds
    repeated requests           a request whose replica died is sent again if it only reads
    shared connections          a client's first request never travels on a closing connection: HAProxy
    would hang up on the client without an answer
    bound of reads              a number of concurrent reads for each replica; further ones are refused at once. A
    read counts when its whole body is here. Proven secret keys, secret keys that are new
    and all others have a bound each
    replica without Redis       a write that such a replica did not begin is sent to another one, and a read that
    waited too long for Redis is sent again
    node without power          a connection whose bytes nobody acknowledges for three seconds ends, and reads are
    sent again
    backup server               without a replica the answer is an immediate 503, not a queue in a slow proxy

HAProxy learns valid keys from the answers of the replicas (`kiosk_keys`): a key is proven for ten minutes after a
request with it was answered with 200, 404 or 422. Proven secret keys have no bounds by address,
so a forged key gains nothing. Replicas read keys as HAProxy does (`deployments/edge/http/credentials.py`).

Requests that HAProxy 2.8 can't parse as HTTP get its built-in error page, which no setting changes.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

BUSY = "The service is busy or restarting. Please retry."
"API replicas use the same text when a part is unavailable (deployments/edge/http/errors.py)."
TIMEOUT = "Request timeout."
MALFORMED = "Malformed request."
NO_KEY = "invalid api key."
TOO_MANY = "Too many requests."
OVERLOADED = "The service is overloaded. Please retry."
TWO_KEYS = "X-API-KEY was sent more than once."
NO_UPGRADE = "This service speaks no websockets."
FAULT = "Something went wrong. Please contact the product team."
_RETRY = 'hdr Retry-After "1" '
_KEY_MISSING = "no key was sent; send it in the header X-API-KEY or as the query parameter api_key"
_CHALLENGE = f'hdr WWW-Authenticate "ApiKey realm=\\"kiosk\\", error_description=\\"{_KEY_MISSING}\\"" '
_MORE = {401: _CHALLENGE, 429: _RETRY, 502: _RETRY, 503: _RETRY}
"Status -> headers that only it has."
INTERNAL_HEADERS = (
    "x-request-timeout-seconds",
    "x-request-disconnect-disabled",
    "serve_multiplexed_model_id",
    "serve-multiplexed-model-id",
)
READING_POSTS = "/v1/recommendation/ /v1/search/"
"POST endpoints that change nothing, so they may be sent again."
NAMED_ARCHIVE_PATH = "^/mcp/[a-z0-9-]+/?$"
"The addresses of named archives; every other path below `/mcp/` is no resource with a token."
UNSENT = 501
"""Status that an API replica gives a write that it could not begin, because its connection to Redis is away, and a read
for which Redis did not answer in time. HAProxy sends the request again, to another replica if there is one; if that
does not help, the client gets 503. Kiosk uses this status for nothing else."""
SILENT_S = 3
"""Longest time until the other end acknowledges bytes. The kernel of a node acknowledges at once, however busy the
replica is; a node without power or network never does."""
WRITES = "-writes"
"Ending of the name of a backend for writes, which has the replicas of the backend without it."
BUFFER_BYTES = 32_768
"""The buffer holds the header, and the body of a read or of a sign-in. Longer bodies pass through and
don't count as reads."""

ROOM = "kiosk_room"
CONNECTIONS = "kiosk_connections"
CALLERS = "kiosk_callers"
KEYS = "kiosk_keys"
"Names of the tables: running reads, connections and requests by address, proven keys."
MOST_PROXIES = 3
"Trusted proxies in a row."
_TABLES = {
    # Proven secret keys, all other requests, secret keys that are not proven yet.
    ROOM: "type integer size 3 store conn_cur",
    CONNECTIONS: "type ipv6 size 100k expire 1m store conn_cur",
    CALLERS: "type ipv6 size 100k expire 1m store conn_cur,http_req_rate(10s),gpc0,gpc0_rate(10s)",
    # Hashes of keys that replicas accepted; clients can't add any.
    KEYS: "type binary len 20 size 20k expire 10m store gpt0",
}
SETTINGS = {
    "KIOSK_TRUSTED_PROXIES": "trusted_proxies",
    "KIOSK_ADDRESS_CONNECTIONS": "address_connections",
    "KIOSK_ADDRESS_REQUESTS": "address_requests",
    "KIOSK_ADDRESS_RATE": "address_rate",
    "KIOSK_HAPROXY_METRICS": "metrics_bind",
}
"Settings that each start of HAProxy reads from its environment."
_TEXTS = ("trusted_proxies", "metrics_bind")
_BACKEND = re.compile(r"^backend (?!default_backend$)(\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class HAProxyOptions:
    """The HAProxy options of an installation; written as JSON by the start, read by every run."""

    binary: str
    "The real HAProxy."
    bind: str
    "Public address and port, as HAProxy writes them; empty: the ones of Serve."
    pid_file: str
    "File of the process id of the newest HAProxy."
    max_connections: int = 4096
    connect_ms: int = 200
    "Time a replica may take to accept a connection; on one machine the kernel accepts at once."
    most_reads: int = 128
    "Concurrent reads of each replica; more would only slow down all of them."
    patience_s: int = 10
    "Time a client may take to send a request's head, and again for its body or the beginning of it."
    sign_in_s: int = 2
    "Time the body of a sign-in request may take."
    trusted_proxies: str = ""
    "Addresses and networks, separated by commas."
    address_connections: int = 2048
    address_requests: int = 128
    address_rate: int = 300
    "Bounds of one address, from the settings of the same names; 0: none."
    metrics_bind: str = ""
    "Address and port of HAProxy's own metrics; empty: on loopback, on the port that Serve chose."
    watched: bool = False
    """A process beside HAProxy replaces a dead one (`haproxy_watch`); without a supervisor, no other
    process does so soon."""

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> HAProxyOptions:
        names = {field.name for field in fields(cls)}
        # A newer release may have written options that this one lacks.
        given: dict[str, Any] = json.loads(path.read_text())
        return cls(**{name: value for name, value in given.items() if name in names})

    def with_environment(self, environment: Mapping[str, str]) -> HAProxyOptions:
        """Return the options with the values of the environment."""
        given: dict[str, Any] = {
            name: environment[variable] if name in _TEXTS else int(environment[variable])
            for variable, name in SETTINGS.items()
            if variable in environment
        }
        return replace(self, **given)

    @property
    def networks(self) -> str:
        """Return the trusted proxies as HAProxy writes them; empty when there are none."""
        return " ".join(part.strip() for part in self.trusted_proxies.split(",") if part.strip())


def rewrite_ray_config(config: str, options: HAProxyOptions) -> str:
    """Return a configuration of Ray 2.60 with stricter limits.

    Sections are identified by their heading. Unknown parts are unchanged, so a later Ray still starts and
    `kiosk doctor` reports what is missing.
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
    for room in rooms:
        lines += _write_backend(lines, room)
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
        # Otherwise every user of the machine could command HAProxy.
        return line.replace("mode 666", "mode 600")
    if first == "bind" and section == "frontend http_frontend" and options.bind:
        return f"    bind {options.bind}"
    if first == "bind" and section == "frontend prometheus":
        if options.metrics_bind:
            return f"    bind {options.metrics_bind}"
        # Serve opens the metrics on every address, and they need no sign-in.
        return re.sub(r"bind\s+\*?:", "    bind 127.0.0.1:", line.strip())
    if first in ("tune.bufsize", "tune.stick-counters"):
        return None
    if first == "timeout" and second in ("client", "connect", "http-keep-alive", "server"):
        return None
    if first == "server" and words[-1] == "backup":
        return None
    if (first, second) == ("http-reuse", "always"):
        # With `always`, a client's first request may meet a connection that the server closes, and nobody
        # repeats it.
        return "    http-reuse safe"
    if first == "use_backend" and section == "frontend http_frontend":
        condition = " ".join([*words[2:], "is_resource !only_reads !METH_GET"])
        return f"    use_backend {second}{WRITES} {condition}\n{line}"
    if section == "backend default_backend" and (first, second) == ("http-request", "return"):
        # No application is deployed yet, or the last one was removed; the path is not wrong.
        return f"    {return_now(503, BUSY)}"
    return line


def _added(section: str, options: HAProxyOptions, rooms: list[str]) -> list[str]:
    """Return the lines that follow a section's heading."""
    if section.startswith("defaults"):
        return [f"    {line}" for line in _default_lines(options)]
    if section == "global":
        return [f"    tune.bufsize {BUFFER_BYTES}", "    tune.stick-counters 4"]
    if section.removeprefix("backend ") in rooms:
        # Bytes under way, and connections that wait for an answer: the kernel asks for signs of life.
        keepalive = ("option srvtcpka", "srvtcpka-idle 1s", "srvtcpka-intvl 1s", f"srvtcpka-cnt {SILENT_S}")
        return [f"    {line}" for line in (f"default-server tcp-ut {SILENT_S}s", *keepalive)]
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
        400: MALFORMED,
        401: NO_KEY,
        403: NO_UPGRADE,
        404: "not found",
        408: TIMEOUT,
        413: MALFORMED,
        429: TOO_MANY,
        500: FAULT,
        502: BUSY,
        503: BUSY,
        504: TIMEOUT,
    }
    return [
        # Also the pause before a connection is tried again; Serve supports only whole seconds.
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
    most = options.address_connections
    all_of_them = options.max_connections
    if not most:
        return []
    return [
        # A trusted proxy brings the connections of many clients.
        *([f"tcp-request connection accept if {{ src {options.networks} }}"] if options.networks else []),
        # One client has a network of 64 bits in IPv6, and may take another address of it each time.
        f"tcp-request connection track-sc0 src,ipmask(32,64) table {CONNECTIONS}",
        f"tcp-request connection reject if {{ sc0_conn_cur({CONNECTIONS}) gt {most} }}",
        *(
            f"tcp-request connection reject if {{ fe_conn gt {int(all_of_them * full)} }} "
            f"{{ sc0_conn_cur({CONNECTIONS}) gt {max(1, most // part)} }}"
            for full, part in ((0.6, 8), (0.8, 64))
        ),
    ]


def _cleaning_lines() -> list[str]:
    """Refuse paths and headers that no client may use."""
    return [
        # Only paths with this prefix may decode to one of Serve's own paths; decoding costs a copy.
        "http-request deny deny_status 404 if { path -m beg /- /% } { path,url_dec -m beg /-/ } "
        "!{ path /-/healthz /-/ready }",
        f"{return_now(400, TWO_KEYS)} if {{ req.fhdr_cnt(x-api-key) gt 1 }}",
    ]


def _address_lines(options: HAProxyOptions) -> list[str]:
    """Find the address of the client and pass it on as the only entry of `X-Forwarded-For`."""
    trusted = options.networks
    if not trusted:
        # `set-header` replaces what the client wrote; `add-header` would keep it.
        return ["http-request set-header X-Forwarded-For %[src]"]
    # The last entry that is no trusted proxy; the number of addresses is that of proxies in a row plus one.
    entries = [f"req.hdr_ip(x-forwarded-for,-{place})" for place in range(1, MOST_PROXIES + 1)]
    condition = f"if {{ var(txn.address) -m ip {trusted} }}"
    return [
        "http-request set-var(txn.address) src",
        *(
            f"http-request set-var(txn.address) {entry} {condition} {{ {entry} -m found }}"
            for entry in entries
        ),
        "http-request set-header X-Forwarded-For %[var(txn.address)]",
    ]


def _caller_lines(options: HAProxyOptions) -> list[str]:
    """Bound the requests of one address, except with a proven secret key."""
    address = "var(txn.address)" if options.networks else "src"
    lines = [
        "http-request set-var(txn.key) req.fhdr(x-api-key)",
        "http-request set-var(txn.key) url_param(api_key) if !{ var(txn.key),length gt 0 }",
        # The token alone, because scheme and blanks can be written in many ways, each with its own digest.
        "http-request set-var(txn.token) http_auth_bearer if { path_beg /mcp }",
        "http-request set-var(txn.key) var(txn.token) if { var(txn.token) -m found }",
        "acl has_key var(txn.key),length gt 0",
        "acl is_secret var(txn.key) -m beg ksk_",
        "acl is_secret var(txn.token) -m found",
        f"http-request set-var(txn.proven) var(txn.key),sha1,table_gpt0({KEYS}) if has_key",
        "acl is_exempt var(txn.proven) -m int eq 1",
        "acl is_known var(txn.proven) -m int gt 0",
        "acl is_keyed path_beg /v1/",
        "acl is_keyed path /mcp",
        "http-request set-var(txn.proves) bool(true) if has_key is_keyed !METH_OPTIONS",
        # Calls of named archives. Other paths below get a 404 that proves no token, escaped names among them.
        "http-request set-var(txn.proves) bool(true) if has_key METH_POST "
        f"{{ path -m reg {NAMED_ARCHIVE_PATH} }}",
        # The rest bounds other clients, or concerns bodies and headers that a shop's own server does not send.
        "http-request allow if is_exempt METH_GET",
        *(f"http-request del-header {name}" for name in INTERNAL_HEADERS),
        f"{return_now(403, NO_UPGRADE)} if {{ req.hdr(upgrade) -m sub -i websocket }}",
        "http-request del-header upgrade",
        f"http-request track-sc1 {address},ipmask(32,64) table {CALLERS} if !is_exempt",
    ]
    if options.address_requests:
        over = f"sc1_conn_cur({CALLERS}) gt {options.address_requests}"
        lines += [
            # After a reload no key is proven, and a server's first hundreds of requests come at once. They need
            # no proof unless their address was refused lately; a client with a forged key is refused at once.
            "http-request set-var(txn.plausible) bool(true) if !is_exempt { var(txn.key) -m beg ksk_ } "
            f"{{ sc1_gpc0_rate({CALLERS}) eq 0 }}",
            f"{return_now(429, TOO_MANY)} if {{ {over} }} !{{ var(txn.plausible) -m bool }}",
        ]
    if options.address_rate:
        over = f"sc1_http_req_rate({CALLERS}) gt {10 * options.address_rate}"
        # Wrong keys have a fraction of that bound, so they do not affect a client with a proven key.
        wrong = f"sc1_gpc0_rate({CALLERS}) gt {max(10, 10 * options.address_rate // 15)}"
        lines += [
            f"{return_now(429, TOO_MANY)} if {{ {over} }}",
            f"{return_now(429, TOO_MANY)} if !is_known {{ {wrong} }}",
        ]
    return lines


def _body_lines(options: HAProxyOptions) -> list[str]:
    """Hold every request back until its body is received, or as much of it as the buffer takes.

    HAProxy answers `Expect` itself meanwhile.
    """
    return [
        f"acl only_reads path_beg {READING_POSTS}",
        f"{return_now(401, NO_KEY)} if only_reads METH_POST !has_key",
        f"http-request wait-for-body time {options.sign_in_s}s if {{ path_beg /oauth/ }}",
        f"http-request wait-for-body time {options.patience_s}s",
        "acl is_resource path_beg /v1/",
        "http-request disable-l7-retry if !METH_GET !only_reads !is_resource",
    ]


def _write_backend(lines: list[str], room: str) -> list[str]:
    """Return the lines of the backend for writes: the same replicas, other reasons to send a request again.

    A write is only repeated where no replica has begun it: after a failed connection, or the status `UNSENT`.
    """
    start = lines.index(f"backend {room}") + 1
    section = itertools.takewhile(lambda line: line[:1].isspace(), lines[start:])
    written = [f"backend {room}{WRITES}", f"    retry-on conn-failure {UNSENT}"]
    for line in section:
        words = line.split()
        if words[:1] == ["server"]:
            # `track` copies the health from the other backend, so no replica is checked twice.
            written.append(f"    server {words[1]} {words[2]} no-check track {room}/{words[1]}")
        elif words[:2] != ["option", "httpchk"] and words[:1] != ["http-check"]:
            written.append(line)
    return written


def _room_lines(backends: list[str], most: int) -> list[str]:
    """Count running reads, and refuse those beyond the capacity of the live replicas.

    The replica, not HAProxy, counts incomplete requests: it reads bodies before it counts.
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
        # Without a replica no request is too many: the client is told to wait, not to slow down.
        f"{return_now(503, BUSY)} if is_counted {{ nbsrv({backends[0]}) eq 0 }}",
        f"{return_now(429, OVERLOADED)} if is_counted {{ sc2_conn_cur({ROOM}),sub(txn.room) gt 0 }}",
    ]


def _answer_lines() -> list[str]:
    """Learn proven keys from answers, and count wrong ones."""
    # A digest, because whoever reads the table must not get usable keys.
    learns = f"http-response track-sc3 var(txn.key),sha1 table {KEYS}"
    # A replica checks the key before it returns any of these to a request with a key.
    proven = "!is_known { var(txn.proves) -m bool } { status 200 404 422 }"
    lost = "{ status 401 } is_known { var(txn.proves) -m bool }"
    return [
        f"{learns} if {proven}",
        f"http-response sc-set-gpt0(3) 1 if {proven} is_secret",
        f"http-response sc-set-gpt0(3) 2 if {proven} !is_secret",
        # Frequently used keys do not expire.
        f"{learns} if is_known {{ rand(64) eq 0 }}",
        f"{learns} if {lost}",
        f"http-response sc-set-gpt0(3) 0 if {lost}",
        "http-response sc-inc-gpc0(1) if { status 401 }",
        "http-response del-header server",
        f"http-after-response set-status 503 if {{ status 502 {UNSENT} }}",
    ]


def _body(message: str) -> str:
    return json.dumps({"message": message}, separators=(",", ":"))


def http_error(status: int, message: str) -> str:
    """Return the line that gives one status its body."""
    return (
        f"http-error status {status} content-type application/json "
        f"lf-string {_quoted(_body(message))} {_headers(status)}"
    )


def return_now(status: int, message: str) -> str:
    """Return the action that answers a request at once."""
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
    # In `lf-string`, `%` begins a variable of HAProxy; between quotes, `$` one of the environment.
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "\\$")
    return f'"{escaped}"'
