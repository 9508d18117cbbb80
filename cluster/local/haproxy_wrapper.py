"""The wrapper between Ray Serve and HAProxy: tightens Serve's configuration, then becomes HAProxy.

Serve starts HAProxy by a path it is given (`RAY_SERVE_HAPROXY_BINARY_PATH`); that path is a two-line script
that calls `main`. It runs before every start and reload, so this file and those that it imports need nothing but
the standard library and take about 20 ms.

    1. rewrite the configuration file in place (`haproxy_config`)
    2. keep the replicas of the predecessor while Serve names none: it rebuilds an application whose configuration
       changed, and its replicas answer meanwhile. HAProxy checks every one of them, so a dead one gets no request
    3. take over from an HAProxy that Serve lost (its proxy actor was killed, or a stand-in serves)
    4. write down the process id, drop secrets from the environment, and exec the real binary: same process id,
       as Serve expects
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from pathlib import Path

from cluster.local import haproxy_watch
from cluster.local.haproxy_config import HAProxyOptions, rewrite_ray_config
from cluster.local.haproxy_handover import (
    LAST,
    STAND_IN,
    find_admin_socket,
    find_predecessor,
    is_listening_at,
)

SECRET_VARIABLES = (
    "KIOSK_REDIS_URL",
    "KIOSK_REDIS_PASSWORD",
    "KIOSK_MASTER_KEY",
    "KIOSK_LLM_KEY",
    "KIOSK_REDIS_PASSWORD_FILE",
    "KIOSK_REDIS_URL_FILE",
    "KIOSK_MASTER_KEY_FILE",
    "KIOSK_LLM_KEY_FILE",
    "KIOSK_MANIFEST_KEY_FILE",
    "KIOSK_OIDC_CLIENT_SECRET",
    "KIOSK_OIDC_CLIENT_SECRET_FILE",
    "RAY_AUTH_TOKEN",
    "RAY_AUTH_TOKEN_PATH",
)

_STAMP = "# tightened\n"
_SERVER = re.compile(r"^[ \t]+server \S+ \S+:\d+ ", re.MULTILINE)
_HEALTH = re.compile(r"^[ \t]+http-request return .* if healthcheck\b.*$", re.MULTILINE)
"The answers to `/-/healthz`."
_DRAINING = "# Override: force health checks to fail"


def render_wrapper_script(python: str, options: Path) -> str:
    """Return the script that Serve runs as HAProxy."""
    root = str(Path(__file__).parents[2])
    code = (
        f"import sys; sys.path.append({root!r}); "
        "from cluster.local import haproxy_wrapper; haproxy_wrapper.main(sys.argv[1:])"
    )
    run = " ".join(shlex.quote(word) for word in (python, "-I", "-S", "-c", code, str(options)))
    return f'#!/bin/sh\nexec {run} "$@"\n'


def build_command(arguments: list[str], options: HAProxyOptions, config: str) -> list[str]:
    """Return Serve's command line with the takeover from the HAProxy that still serves."""
    words = [options.binary, *arguments]
    before = find_predecessor(Path(options.pid_file))
    if before and before != os.getpid() and "-sf" not in words:
        # The old process hands over its listening sockets, so no request is refused meanwhile.
        # A stand-in has its socket beside the configuration that it copied; that of a change over, beside the pid.
        admin = Path(find_admin_socket(config))
        stand_ins = [admin.parent / STAND_IN, Path(options.pid_file).parent / STAND_IN]
        sockets = [str(path) for path in (*stand_ins, admin)]
        given = next((path for path in sockets if "-x" not in words and is_listening_at(path)), "")
        words += ["-sf", str(before), *(["-x", given] if given else [])]
    return words


def restore_replicas(config: str, options: HAProxyOptions, *, reload: bool) -> str:
    """Return the configuration with the replicas of the predecessor while it names none itself.

    Serve starts a new proxy actor's HAProxy with an empty list and reloads half a second later. It also empties the
    list for ten seconds when the configuration of the application changes, until it has built the application again.
    All requests would be refused meanwhile. Where Serve drains the node, its health check goes on failing.
    """
    last_path = Path(options.pid_file).with_name(LAST)
    if _SERVER.search(config):
        _replace(last_path, config)
        return config
    if not reload and not find_predecessor(Path(options.pid_file)):
        # The first HAProxy of a Ray: the list of an earlier Ray is obsolete.
        last_path.unlink(missing_ok=True)
        return config
    try:
        before = last_path.read_text()
    except OSError:
        return config
    kept = re.sub(r"(stats socket )\S+", lambda match: match[1] + find_admin_socket(config), before, count=1)
    return _with_health_of(kept, config) if _DRAINING in config or _DRAINING in kept else kept


def _with_health_of(kept: str, config: str) -> str:
    """Return a configuration that answers health checks as another one does."""
    answers = _HEALTH.findall(config)
    first, *rest = _HEALTH.findall(kept) or [""]
    for line in rest:
        kept = kept.replace(line + "\n", "", 1)
    return kept.replace(first, "\n".join(answers), 1) if first and answers else kept


def main(arguments: list[str]) -> None:
    """Tighten the file named by `-f`, then become HAProxy."""
    options = HAProxyOptions.load(Path(arguments[0])).with_environment(os.environ)
    rest = arguments[1:]
    # HAProxy needs no secrets, and other processes can read its environment.
    environment = {name: value for name, value in os.environ.items() if name not in SECRET_VARIABLES}
    if "-f" in rest:
        path = Path(rest[rest.index("-f") + 1])
        config = path.read_text()
        # A second start with the same file must not add the rules again.
        if not config.startswith(_STAMP):
            config = _STAMP + rewrite_ray_config(config, options)
            config = restore_replicas(config, options, reload="-sf" in rest)
            _replace(path, config)
        words = build_command(rest, options, config)
        # -c only checks the configuration: the next HAProxy must not take over from that process.
        if "-c" not in rest:
            _replace(Path(options.pid_file), f"{os.getpid()} {path}\n")
            if options.watched:
                haproxy_watch.start_watch(Path(arguments[0]), Path(options.pid_file).parent, os.getppid())
    else:
        words = [options.binary, *rest]
    os.execve(options.binary, words, environment)


def _replace(path: Path, text: str) -> None:
    scratch = path.with_name(f"{path.name}.{os.getpid()}")
    scratch.write_text(text)
    scratch.chmod(0o600)
    with contextlib.suppress(OSError):
        # A rename, so that no process reads half a file.
        scratch.replace(path)
