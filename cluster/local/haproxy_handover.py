"""Finding the HAProxy that serves, and its admin socket, so that the next one can take its listening sockets over.

The wrapper imports it before each start and reload: standard library only.
"""

from __future__ import annotations

import re
import socket
from pathlib import Path

LAST = "last.cfg"
"Copy of the newest configuration that named a replica."
STAND_IN = "stand-in"
"Name of the stand-in's admin socket; Serve must not take it for its own."


def fallback_config(config: str) -> str:
    """Return a copy of a configuration with its own admin socket.

    Serve's proxy actor must not find the stand-in: it would take it for its own HAProxy and never
    change its list of replicas again.
    """
    return re.sub(r"(stats socket )(\S*/)\S+", rf"\1\2{STAND_IN}", config)


def find_admin_socket(config: str) -> str:
    """Return the admin socket of a configuration."""
    match = re.search(r"^\s*stats socket (\S+)", config, re.MULTILINE)
    return match[1] if match else ""


def find_predecessor(pid_file: Path) -> int:
    """Return a live HAProxy of this installation; 0 when there is none."""
    try:
        pid = int(pid_file.read_text().split()[0])
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError, IndexError):
        return 0
    # Another process may have got the number of a dead HAProxy.
    return pid if b"haproxy" in command and str(pid_file.parent).encode() in command else 0


def is_listening_at(path: str) -> bool:
    """Return whether a process listens at a unix socket."""
    # The file of a socket outlives its process, so only a connection proves a listener.
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(0.2)
        try:
            probe.connect(path)
        except OSError:
            return False
        return True
