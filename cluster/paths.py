"""The files and directories of one installation.

    <data_dir>/               mode 700
      lock                    held by the running supervisor
      state.json              state of the installation; no secrets
      master.key ray.token redis.url      mode 600
      learners                custom learner classes that may run in this installation
      adopted                 marks that unsigned files of earlier releases were signed; no others are accepted
      redis/                  append-only file and configuration
      shelf/                  artifact store
      logs/                   supervisor.log, redis.log; processes leads to the logs of all others
      haproxy, haproxy.json   the wrapper Ray starts instead of HAProxy
    /tmp/kiosk-<8 hex>/       mode 700: sockets and other files that end with the processes
      redis.sock  h/ (HAProxy)  r/ (Ray)  secrets/ (keys of the first process, mode 600)

Sockets have a separate short directory because the name of a Unix socket may have at most 107 bytes, and Ray
and HAProxy append long names to it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cluster.errors import Fault, Invalid
from cluster.settings import REDIS_URL_FILE

LONGEST_RUN_DIR = 28
"Bytes: HAProxy's admin socket adds 78 (a node id of 56 characters, and a suffix while it is being bound)."


@dataclass(frozen=True)
class InstallationPaths:
    """Paths of one installation; creating the object changes no file."""

    data_dir: Path
    "Absolute."
    temp_dir: Path = Path("/tmp")
    "Short, writable."

    @classmethod
    def from_data_dir(cls, data_dir: Path, temp_dir: Path | None = None) -> InstallationPaths:
        absolute = Path(os.path.abspath(data_dir.expanduser()))
        return cls(absolute) if temp_dir is None else cls(absolute, temp_dir)

    @cached_property
    def mark(self) -> str:
        """Return a short name of this installation, which marks its processes and directories."""
        # With the user: the run directory in /tmp belongs to one user, also where two have equal paths.
        owner = f"{os.getuid()}:{self.data_dir}"
        return hashlib.sha256(owner.encode()).hexdigest()[:8]

    @cached_property
    def run_dir(self) -> Path:
        """Return the directory of files that end with the processes."""
        return self.temp_dir / f"kiosk-{self.mark}"

    @property
    def lock(self) -> Path:
        return self.data_dir / "lock"

    @property
    def state(self) -> Path:
        return self.data_dir / "state.json"

    @property
    def master_key(self) -> Path:
        return self.data_dir / "master.key"

    @property
    def ray_token(self) -> Path:
        return self.data_dir / "ray.token"

    @property
    def redis_url(self) -> Path:
        return self.data_dir / REDIS_URL_FILE

    @property
    def redis_dir(self) -> Path:
        return self.data_dir / "redis"

    @property
    def logs_dir(self) -> Path:
        return self.data_dir / "logs"

    @property
    def supervisor_log(self) -> Path:
        return self.logs_dir / "supervisor.log"

    @property
    def haproxy_wrapper(self) -> Path:
        return self.data_dir / "haproxy"

    @property
    def haproxy_options(self) -> Path:
        return self.data_dir / "haproxy.json"

    @property
    def learners(self) -> Path:
        return self.data_dir / "learners"

    @property
    def signing_marker(self) -> Path:
        return self.data_dir / "adopted"

    @property
    def secrets_dir(self) -> Path:
        return self.run_dir / "secrets"

    @property
    def redis_socket(self) -> Path:
        return self.run_dir / "redis.sock"

    @property
    def haproxy_dir(self) -> Path:
        return self.run_dir / "h"

    @property
    def ray_dir(self) -> Path:
        return self.run_dir / "r"

    @property
    def ray_logs_dir(self) -> Path:
        return self.ray_dir / "session_latest" / "logs"

    def make(self) -> None:
        """Create the directories, for their owner only.

        Errors:
            Invalid: the data directory can't be created or belongs to another user
            Fault: another user owns the run directory
        """
        if len(os.fsencode(self.run_dir)) > LONGEST_RUN_DIR:
            raise Fault(f"{self.run_dir} is too long for the sockets of Ray and HAProxy")
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._claim(self.data_dir)
            for folder in (self.redis_dir, self.logs_dir, self.data_dir / "shelf"):
                folder.mkdir(exist_ok=True, mode=0o700)
        except OSError as error:
            raise Invalid(
                f"the data directory {self.data_dir} can't be used ({error.strerror}); set KIOSK_DATA_DIR to "
                "a directory you own"
            ) from error
        self.make_run_dir()
        self._link_process_logs()

    def _link_process_logs(self) -> None:
        """Let the folder of the logs lead to those that Ray writes beside its sockets; only a convenience."""
        link = self.logs_dir / "processes"
        with contextlib.suppress(OSError):
            if not link.is_symlink() or link.readlink() != self.ray_logs_dir:
                link.unlink(missing_ok=True)
                link.symlink_to(self.ray_logs_dir)

    def make_run_dir(self) -> None:
        """Create only the run directory, for a node whose data directory is shared.

        Errors:
            Fault: another user owns the run directory
        """
        try:
            self.run_dir.mkdir(exist_ok=True, mode=0o700)
            self._claim(self.run_dir)
            self.haproxy_dir.mkdir(exist_ok=True, mode=0o700)
        except OSError as error:
            raise Fault(
                f"{self.run_dir} can't be used ({error.strerror}); remove it and start again"
            ) from error

    @staticmethod
    def _claim(folder: Path) -> None:
        """Ensure that a directory is no link, belongs to this user, and is closed to others."""
        # Not `stat`: in /tmp, anybody can place a link that leads to another directory.
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(20, "it is not a directory")
        if status.st_uid != os.getuid():
            raise PermissionError(1, "it belongs to somebody else")
        if stat.S_IMODE(status.st_mode) & 0o077:
            folder.chmod(0o700)


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read; the write is atomic."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    # With its mode from the start: between `open` and a later `chmod`, others could read it.
    handle = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    scratch.replace(path)


def read_private(path: Path) -> str | None:
    """Return the content of a file of `write_private`; None when it is absent, or accessible to others.

    Names of run directories are predictable, so another user of the machine may create them first.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(handle, encoding="utf-8") as file:
        # Of the open file: the path may name another one by now.
        status = os.fstat(handle)
        is_ours = status.st_uid == os.getuid() and not status.st_mode & 0o077 and stat.S_ISREG(status.st_mode)
        return file.read() if is_ours else None


def lock_directory(path: Path) -> int:
    """Lock a directory and return its handle: cleaners of /tmp skip locked directories."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    return handle
