"""Watch HAProxy on a node of a Ray cluster, and replace a dead HAProxy within a second.

Serve notices a dead HAProxy after some seconds, and then starts a proxy actor and an HAProxy, which takes some more.
Where no supervisor of Kiosk runs, this process starts a stand-in meanwhile: the same configuration, with its own admin
socket. The next HAProxy of Serve takes the port over from it. If none comes, because Serve removed the proxy from this
node on purpose, the stand-in ends after `LONGEST_S`. The process ends with the raylet. Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from cluster.local.haproxy_handover import LAST, fallback_config, find_predecessor

LOOK_S = 0.2
REST_S = 2.0
"Pause after a stand-in that could not start."
LONGEST_S = 60.0
"Serve replaces a dead proxy well before this time."
LOCK = "watch.lock"
STAND_IN_CONFIG = "stand-in.cfg"
_BIND = re.compile(r"^frontend http_frontend\n(?:[ \t].*\n)*?[ \t]+bind \S*:(\d+)\s*$", re.MULTILINE)
_CLEAN = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "KIOSK_TRUSTED_PROXIES",
    "KIOSK_ADDRESS_CONNECTIONS",
    "KIOSK_ADDRESS_REQUESTS",
    "KIOSK_ADDRESS_RATE",
)
"Variables that this process and the stand-in inherit; no secrets."


def start_watch(saved: Path, folder: Path, proxy_actor: int) -> None:
    """Start the process for the HAProxy of a proxy actor, unless one runs; `saved` are the options of the wrapper."""
    raylet = _parent(proxy_actor)
    # Asked here only to save a start. The process itself takes the lock again, which it keeps.
    with (folder / LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
    root = str(Path(__file__).parents[2])
    code = (
        f"import sys; sys.path.append({root!r}); "
        "from cluster.local import haproxy_watch; haproxy_watch.main(sys.argv[1:])"
    )
    # -I and -S: no user packages and no `site`, so it starts in milliseconds with little memory.
    command = [sys.executable, "-I", "-S", "-c", code, str(saved), str(folder), str(raylet)]
    environment = {name: text for name, text in os.environ.items() if name in _CLEAN}
    # The shell in between ends at once, so the process has no parent that would have to collect it.
    subprocess.run(
        ["/bin/sh", "-c", f"{shlex.join(command)} &"],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        check=False,
    )


def main(arguments: list[str]) -> None:
    """Watch until the raylet ends."""
    saved = Path(arguments[0])
    folder = Path(arguments[1])
    raylet = int(arguments[2])
    with (folder / LOCK).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        # Cleaners of /tmp skip locked directories.
        for kept in (folder, folder.parent):
            fcntl.flock(os.open(kept, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), fcntl.LOCK_SH)
        watch = HAProxyWatch(saved.with_suffix(""), folder)
        while _parent(raylet):
            watch.look()
            time.sleep(LOOK_S)
        # Without a raylet no HAProxy of Serve will take the port over.
        watch.end_stand_in()


class HAProxyWatch:
    """The stand-in of one node; `wrapper` starts it, `folder` has the files of HAProxy."""

    def __init__(self, wrapper: Path, folder: Path) -> None:
        self._wrapper = wrapper
        self._folder = folder
        self._stand_in: subprocess.Popen[bytes] | None = None
        self._until_s = 0.0
        self._rest_until_s = 0.0
        self._given_up = 0
        "The stand-in that Serve did not replace."

    def look(self) -> None:
        """Start a stand-in if HAProxy is dead, and end one that served for too long."""
        now_s = time.monotonic()
        if self._stand_in is not None:
            if self._stand_in.poll() is not None:
                self._stand_in = None
                self._rest_until_s = now_s + REST_S
            elif now_s > self._until_s:
                self._given_up = self._stand_in.pid
                self.end_stand_in()
            return
        alive = find_predecessor(self._folder / "pid")
        # 0: no HAProxy has run here yet, so nothing needs a stand-in.
        if alive or now_s < self._rest_until_s or self._last_pid() in (0, self._given_up):
            return
        self._start(now_s)

    def end_stand_in(self) -> None:
        """Stop accepting requests on the stand-in; it ends after its running requests."""
        if self._stand_in is not None and self._stand_in.poll() is None:
            self._stand_in.send_signal(signal.SIGUSR1)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._stand_in.wait(5)

    def _last_pid(self) -> int:
        try:
            return int((self._folder / "pid").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return 0

    def _start(self, now_s: float) -> None:
        # Before the attempt, so that one that fails is not repeated five times a second.
        self._rest_until_s = now_s + REST_S
        copy = self._folder / STAND_IN_CONFIG
        try:
            config = (self._folder / LAST).read_text()
            bind = _BIND.search(config)
            # Another process listens there already: two of them on one port would share its connections.
            if bind is None or _is_taken(int(bind[1])):
                return
            copy.write_text(fallback_config(config))
        except OSError:
            return  # no application was deployed yet
        self._stand_in = subprocess.Popen(
            # -db: no daemon, so that `poll` notices its end. -dR: no SO_REUSEPORT, so two can't share a port.
            [str(self._wrapper), "-db", "-dR", "-f", str(copy)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._until_s = now_s + LONGEST_S


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _parent(pid: int) -> int:
    """Return the parent of a live process; 0 when it has ended."""
    try:
        # From the last bracket: the name of a process may contain blanks and brackets itself.
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if words[0] in "ZX" else int(words[1])
