"""The state of an installation for the command line: one small JSON file, written by the supervisor.

    starting ──▶ ready ◀──▶ recovering        a part died and is being brought back
        │          │             │
        ▼          ▼             ▼
      failed    stopping ──▶ (file removed)

The lock beside it tells the truth about life: whoever supervises holds it, and it falls with the process.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cluster.paths import InstallationPaths, write_private

Phase = Literal["starting", "ready", "recovering", "stopping", "failed"]


class InstallationState(BaseModel):
    """One installation at one moment. Holds no secrets."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    phase: Phase
    message: str = ""
    "What is being done, or what went wrong and what to do."
    stages: tuple[tuple[float, str], ...] = ()
    "What the start has done so far: seconds after its begin, and words."
    pid: int
    "The supervisor."
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
    "Did this start make the apps and keys?"
    redis: str = ""
    "`external`, `found` or `bundled`, with its version."
    proxy: str = ""
    "`haproxy`, or why the slow Python proxy stands in for it."
    ray_address: str = ""
    dashboard_url: str = ""
    metrics_url: str = ""
    "For Prometheus; on loopback."
    pids: dict[str, int] = Field(default_factory=dict)
    "Processes watched by the supervisor."
    restarts: dict[str, int] = Field(default_factory=dict)
    "Times a part was brought back since the start."
    settings: dict[str, Any] = Field(default_factory=dict)
    "What the installation was started with, without secrets and paths: commands of other shells judge by it."

    @property
    def url_host(self) -> str:
        """The host to call: a loopback address when the doors listen everywhere."""
        if self.host in ("0.0.0.0", "", "*"):
            return "127.0.0.1"
        if self.host == "::":
            return "[::1]"
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def api_url(self) -> str:
        """Where the interface answers."""
        return f"http://{self.url_host}:{self.port}"


def save_state(paths: InstallationPaths, state: InstallationState) -> None:
    """Replace the state file."""
    write_private(paths.state, state.model_dump_json(indent=1) + "\n")


def load_state(paths: InstallationPaths) -> InstallationState | None:
    """Read the state file; None when there is none or it makes no sense."""
    try:
        return InstallationState.model_validate(json.loads(paths.state.read_text("utf-8")))
    except (OSError, ValueError, ValidationError):
        return None


class InstallationLock:
    """The right to run one installation; falls by itself when its process dies."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None

    def acquire(self) -> bool:
        """Take the lock; False when another process holds it."""
        if self._handle is None:
            # Not inheritable, or a server we start would keep the lock alive after us.
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(handle)
                return False
            os.ftruncate(handle, 0)
            os.write(handle, f"{os.getpid()}\n".encode())
            self._handle = handle
        return True

    def release(self) -> None:
        """Give it back."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def find_lock_holder(paths: InstallationPaths) -> int:
    """Find the process that holds the lock: a supervisor, or a command that works on a stopped installation.

    0: nobody does.
    """
    try:
        handle = os.open(paths.lock, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return 0
    except OSError:
        text = os.pread(handle, 20, 0).strip()
        return int(text) if text.isdigit() else -1
    finally:
        os.close(handle)
