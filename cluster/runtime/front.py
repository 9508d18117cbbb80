"""Stands between Ray Serve and HAProxy: tightens the configuration Serve wrote, then becomes HAProxy.

Serve starts HAProxy by a path it is given (`RAY_SERVE_HAPROXY_BINARY_PATH`); that path is a two-line script
that runs this file. It runs before every start and reload, so it imports nothing but the standard library and
takes about 20 ms.

    1. rewrite the configuration file in place (`tighten`)
    2. take over from an HAProxy that Serve has lost sight of (its keeper was killed, or a stand-in serves)
    3. write down the process id, drop secrets from the environment, and exec the real binary: same process id,
       as Serve expects

What `tighten` changes, and why:

    no log line at all          HAProxy would log request lines, which hold query strings
    admin socket mode 600       Serve asks for 666
    metrics and statistics      on loopback instead of all interfaces
    public address              the doors' own, while replicas listen on loopback only
    502, 503                    503 with `Retry-After` and a JSON body instead of a bare 500
    timeouts                    request head 10 s, first 16 KB of the body 10 s, silence 60 s
    headers of Serve's own      a stranger may not switch off time limits or choose replicas
    repeated requests           a request whose replica died is sent again when it only reads
    shared connections          a caller's first request never travels on one that may just be closing: HAProxy
                                would hang up on the caller without an answer
    room                        only so many reads at once per replica; one more is told to come back at once,
                                before it costs a replica anything
    backup server               without a replica the answer is an immediate 503, not a queue in a slow proxy
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

BUSY = "The service is busy or restarting. Please retry."
"Also said by the doors when a part is away (deployments/edge/errors.py)."
TIMEOUT = "Request timeout."
MALFORMED = "Malformed request."
FAULT = "Something went wrong. Please contact the product team."

SERVES_OWN_HEADERS = (
    "x-request-timeout-seconds",
    "x-request-disconnect-disabled",
    "serve_multiplexed_model_id",
    "serve-multiplexed-model-id",
)
READING_POSTS = "/v1/recommendation/ /v1/search/"
"POST endpoints that change nothing, so they may be sent again."
LAST = "last.cfg"
"Copy of the newest configuration that named a replica."
SECRET_VARIABLES = (
    "KIOSK_REDIS_URL", "KIOSK_MASTER_KEY", "KIOSK_LLM_KEY",
    "KIOSK_REDIS_URL_FILE", "KIOSK_MASTER_KEY_FILE", "KIOSK_LLM_KEY_FILE", "KIOSK_MANIFEST_KEY_FILE",
    "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH",
)  # fmt: skip
ROOM = "kiosk_room"
"Name of the table that counts reads under way."
STAND_IN = "stand-in"
"Name of the stand-in's admin socket; Serve must not take it for its own."


_STAMP = "# tightened\n"
_BACKEND = re.compile(r"^backend (?!default_backend$)(\S+)$", re.MULTILINE)
_SERVER = re.compile(r"^[ \t]+server \S+ \S+:\d+ ", re.MULTILINE)


@dataclass(frozen=True)
class Wishes:
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
    "How long a client may take to send a request's head, and again for the beginning of its body."

    def save(self, path: Path) -> None:
        """Write them down."""
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> Wishes:
        """Read them back."""
        return cls(**json.loads(path.read_text()))


def tighten(config: str, wishes: Wishes) -> str:
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
        kept = _line(line, words, section, wishes)
        if kept is not None:
            lines.append(kept)
        if words and not line[:1].isspace():
            lines += _added(section, wishes, rooms)
    if rooms:
        lines += [f"backend {ROOM}", "    stick-table type integer size 1 store conn_cur"]
    return "\n".join(lines) + "\n"


def _line(line: str, words: list[str], section: str, wishes: Wishes) -> str | None:
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
        return f"    maxconn {wishes.max_connections}"
    if (first, second) == ("stats", "socket"):
        return line.replace("mode 666", "mode 600")
    if first == "bind" and section == "frontend http_frontend" and wishes.bind:
        return f"    bind {wishes.bind}"
    if first == "bind" and section in ("frontend prometheus", "listen stats"):
        return re.sub(r"bind\s+\*?:", "    bind 127.0.0.1:", line.strip())
    if first == "timeout" and second in ("client", "connect", "http-keep-alive", "server"):
        return None
    if first == "server" and words[-1] == "backup":
        return None
    if (first, second) == ("http-reuse", "always"):
        return "    http-reuse safe"
    if section == "backend default_backend" and (first, second) == ("http-request", "return"):
        # Nothing is deployed yet, or nothing any more: not a wrong path.
        return f"    {_busy_return()}"
    return line


def _added(section: str, wishes: Wishes, rooms: list[str]) -> list[str]:
    """Lines that follow a section's heading."""
    if section.startswith("defaults"):
        return [f"    {line}" for line in _default_lines(wishes)]
    if section == "frontend http_frontend":
        more = _room_lines(rooms, wishes.most_reads)
        return [f"    {line}" for line in [*_frontend_lines(wishes.patience_s), *more]]
    return []


def _default_lines(wishes: Wishes) -> list[str]:
    errors = {
        400: MALFORMED, 404: "not found", 408: TIMEOUT, 500: FAULT, 502: BUSY, 503: BUSY, 504: TIMEOUT,
    }  # fmt: skip
    return [
        # Also the pause before a connection is tried again; Serve can only say whole seconds.
        f"timeout connect {wishes.connect_ms}ms",
        f"timeout http-request {wishes.patience_s}s",
        "timeout http-keep-alive 60s",
        "timeout client 60s",
        "timeout server 60s",
        "timeout queue 5s",
        "timeout check 2s",
        "timeout tarpit 5s",
        *(_http_error(status, message) for status, message in errors.items()),
    ]


def _frontend_lines(patience_s: int) -> list[str]:
    return [
        *(f"http-request del-header {name}" for name in SERVES_OWN_HEADERS),
        # Visitors who name nobody are told apart by their address; what a proxy before us noted counts more.
        "option forwardfor if-none",
        "http-request deny deny_status 404 if { path -m beg /-/ } !{ path /-/healthz }",
        # Holds back what has no body yet; a client that waits for a `100 Continue` is the door's business.
        f"http-request wait-for-body time {patience_s}s at-least 16k if {{ req.hdr_cnt(expect) eq 0 }} !METH_GET",
        f"acl only_reads path_beg {READING_POSTS}",
        "http-request disable-l7-retry if !METH_GET !only_reads",
        "http-after-response set-status 503 if { status 502 }",
    ]


def _room_lines(backends: list[str], most: int) -> list[str]:
    """Count reads under way, and refuse those for which the replicas that are up have no room.

    Counted after the body's beginning is here, so slow senders take nobody's room; uploads are not counted.
    """
    if not backends:
        return []
    return [
        f"http-request track-sc1 int(1) table {ROOM} if only_reads",
        f"http-request set-var(txn.room) nbsrv({backends[0]}),mul({most}) if only_reads",
        f"{_busy_return()} if only_reads {{ sc1_conn_cur({ROOM}),sub(txn.room) gt 0 }}",
    ]


def _body(message: str) -> str:
    return json.dumps({"message": message}, separators=(",", ":"))


def _http_error(status: int, message: str) -> str:
    return (
        f"http-error status {status} content-type application/json "
        f"lf-string {_quoted(_body(message))} {_headers(status)}"
    )


def _busy_return() -> str:
    return (
        f"http-request return status 503 content-type application/json "
        f"lf-string {_quoted(_body(BUSY))} {_headers(503)}"
    )


def _headers(status: int) -> str:
    retry = 'hdr Retry-After "1" ' if status in (502, 503) else ""
    return (
        f'{retry}hdr X-Request-Id "%[uuid()]" hdr Access-Control-Allow-Origin "*" '
        'hdr Access-Control-Expose-Headers "X-Request-Id, Retry-After"'
    )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "\\$")
    return f'"{escaped}"'


# --- running ------------------------------------------------------------------------------------------------


def wrapper_script(python: str, wishes: Path) -> str:
    """Write the script that Serve takes for HAProxy."""
    run = " ".join(shlex.quote(word) for word in (python, "-I", "-S", str(Path(__file__)), str(wishes)))
    return f'#!/bin/sh\nexec {run} "$@"\n'


def stand_in_config(config: str) -> str:
    """Give a copy of a configuration its own admin socket.

    The keeper that Serve runs must find its HAProxy gone, or it would take the stand-in for it and never
    change its list of replicas again.
    """
    return re.sub(r"(stats socket )(\S*/)\S+", rf"\1\2{STAND_IN}", config)


def admin_socket(config: str) -> str:
    """Find the admin socket a configuration names."""
    found = re.search(r"^\s*stats socket (\S+)", config, re.MULTILINE)
    return found[1] if found else ""


def predecessor(pid_file: Path) -> int:
    """Find an HAProxy of this installation that is alive; 0 when there is none."""
    try:
        pid = int(pid_file.read_text().split()[0])
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError, IndexError):
        return 0
    return pid if b"haproxy" in command and str(pid_file.parent).encode() in command else 0


def command(arguments: list[str], wishes: Wishes, config: str) -> list[str]:
    """Complete the command line Serve wrote: take over from whoever still serves."""
    words = [wishes.binary, *arguments]
    before = predecessor(Path(wishes.pid_file))
    if before and before != os.getpid() and "-sf" not in words:
        # Listening sockets are handed over by the old process, so nobody is refused meanwhile.
        folder = os.path.dirname(admin_socket(config))
        sockets = [os.path.join(folder, STAND_IN), admin_socket(config)]
        given = next((path for path in sockets if "-x" not in words and _listens_at(path)), "")
        words += ["-sf", str(before), *(["-x", given] if given else [])]
    return words


def _listens_at(path: str) -> bool:
    import socket

    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(0.2)
        try:
            probe.connect(path)
        except OSError:
            return False
        return True


def with_known_replicas(config: str, wishes: Wishes, *, reload: bool) -> str:
    """Let the first HAProxy of a new keeper go on with the replicas its predecessor knew.

    Serve starts it with an empty list and reloads half a second later; everybody would be refused meanwhile.
    """
    known = Path(wishes.pid_file).with_name(LAST)
    if _SERVER.search(config):
        _replace(known, config)
        return config
    if reload or not predecessor(Path(wishes.pid_file)):
        return config
    try:
        before = known.read_text()
    except OSError:
        return config
    return re.sub(r"(stats socket )\S+", lambda found: found[1] + admin_socket(config), before, count=1)


def main(arguments: list[str]) -> None:
    """Tighten the file named by `-f`, then become HAProxy."""
    wishes = Wishes.load(Path(arguments[0]))
    rest = arguments[1:]
    environment = {name: value for name, value in os.environ.items() if name not in SECRET_VARIABLES}
    if "-f" in rest:
        path = Path(rest[rest.index("-f") + 1])
        config = path.read_text()
        if not config.startswith(_STAMP):
            config = _STAMP + tighten(config, wishes)
            config = with_known_replicas(config, wishes, reload="-sf" in rest)
            _replace(path, config)
        words = command(rest, wishes, config)
        if "-c" not in rest:
            _replace(Path(wishes.pid_file), f"{os.getpid()} {path}\n")
    else:
        words = [wishes.binary, *rest]
    os.execve(wishes.binary, words, environment)


def _replace(path: Path, text: str) -> None:
    scratch = path.with_name(f"{path.name}.{os.getpid()}")
    scratch.write_text(text)
    scratch.chmod(0o600)
    with contextlib.suppress(OSError):
        scratch.replace(path)


if __name__ == "__main__":
    main(sys.argv[1:])
