"""The state of an installation for the command line: one small JSON file, written by the supervisor.

    starting ──▶ ready ◀──▶ recovering        a part died and is restarted
        │          │             │
        ▼          ▼             ▼
      failed    stopping ──▶ (file removed)

The lock beside it shows whether the supervisor lives: the supervisor holds it, and it ends with the process.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cluster.paths import InstallationPaths, write_private

Phase = Literal["starting", "ready", "recovering", "stopping", "failed"]


class InstallationState(BaseModel):
    """The state of one installation at one time, without secrets."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    phase: Phase
    message: str = ""
    "The current step, or the failure and its remedy."
    stages: tuple[tuple[float, str], ...] = ()
    "The steps of the start so far: seconds after its begin, and text."
    pid: int
    "Process id of the supervisor."
    version: str
    host: str
    port: int
    data_dir: str
    run_dir: str
    logs_dir: str
    started_at: int
    "Milliseconds since 1970."
    ready_after_s: float | None = None
    "Seconds from the start to the first good answer."
    first_start: bool = False
    "Whether this start created the apps and keys."
    redis: str = ""
    "`external`, `found` or `bundled`, with its version."
    proxy: str = ""
    "`haproxy`, or why the slow Python proxy replaces it."
    ray_address: str = ""
    dashboard_url: str = ""
    metrics_url: str = ""
    "Port for Prometheus; on loopback."
    pids: dict[str, int] = Field(default_factory=dict)
    "Processes watched by the supervisor."
    restarts: dict[str, int] = Field(default_factory=dict)
    "Number of restarts of parts since the start."
    settings: dict[str, Any] = Field(default_factory=dict)
    "Arguments of the start, without secrets and paths, for commands of other shells."

    @property
    def is_degraded(self) -> bool:
        """Return whether requests go through the slow Python proxy in place of HAProxy."""
        return self.proxy not in ("", "haproxy")

    @property
    def url_host(self) -> str:
        """Return the host to call: a loopback address when the API replicas listen on all addresses."""
        if self.host in ("0.0.0.0", "", "*"):
            return "127.0.0.1"
        if self.host == "::":
            return "[::1]"
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def api_url(self) -> str:
        """Return the base URL of the API."""
        return f"http://{self.url_host}:{self.port}"


def save_state(paths: InstallationPaths, state: InstallationState) -> None:
    """Replace the state file."""
    write_private(paths.state, state.model_dump_json(indent=1) + "\n")


def load_state(paths: InstallationPaths) -> InstallationState | None:
    """Return the state file's content; None when it is absent or invalid."""
    try:
        return InstallationState.model_validate(json.loads(paths.state.read_text("utf-8")))
    except (OSError, ValueError, ValidationError):
        return None


_LOOK_S = 0.2
"Longer than `find_lock_holder` has its shared lock."


class InstallationLock:
    """The exclusive right to run one installation; it ends with its process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None

    def acquire(self) -> bool:
        """Take the lock; return False when another process holds it."""
        if self._handle is None:
            # Not inheritable, or a child process would keep the lock after the supervisor's end.
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            until_s = time.monotonic() + _LOOK_S
            while True:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    if time.monotonic() > until_s:
                        os.close(handle)
                        return False
                    time.sleep(_LOOK_S / 10)
            os.ftruncate(handle, 0)
            os.write(handle, f"{os.getpid()}\n".encode())
            self._handle = handle
        return True

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def find_lock_holder(paths: InstallationPaths) -> int:
    """Return the process that holds the lock: a supervisor, or a command that works on a stopped installation.

    0: no process does.
    """
    try:
        handle = os.open(paths.lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        # A shared lock, so that two commands that look at once don't take each other for the holder.
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return 0
    except OSError:
        text = os.pread(handle, 20, 0).strip()
        return int(text) if text.isdigit() else -1
    finally:
        os.close(handle)
