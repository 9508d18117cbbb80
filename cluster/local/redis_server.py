"""The Redis server of one installation: its configuration, and its life as a process.

`redis_binary` selects the server. The files `version` and `product` beside the data name the last server that
wrote them.

It listens on a Unix socket below the run directory and has a random password; `redis.url`, which only the owner
can read, has both. The append-only file is written in plain commands, where a flipped byte costs one record:
every record has a checksum. In a binary preamble, it costs the whole file.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import signal
import socket
import subprocess
import time
from pathlib import Path
from urllib.parse import quote

import structlog

from cluster.artifacts.storage.local_files import sync_folder
from cluster.errors import Fault, Unavailable
from cluster.local.aof_repair import repair_commands
from cluster.local.aof_sync import AofSync
from cluster.local.redis_binary import PRODUCTS, RedisBinary, find_redis
from cluster.local.redis_vulnerabilities import Version
from cluster.paths import InstallationPaths, write_private
from cluster.process.installation_processes import MARK
from cluster.process.redis_memory import redis_memory_mb
from cluster.process.start_progress import StallTimer, count_work_steps
from cluster.runtime.handover import without_secrets

AOF_NAME = "appendonly.aof"
_REFUSED = re.compile(
    r"Bad file format reading the append only file|Unknown command .* reading the append only file"
)

REMOVED_COMMANDS = (
    "DEBUG",
    "MODULE",
    "MIGRATE",
    "RESTORE",
    "REPLICAOF",
    "SLAVEOF",
    "PSYNC",
    "SYNC",
    "FAILOVER",
)
"Kiosk sends none of these; each runs code, reads foreign data or sends data elsewhere. Redis 6.2 has them all."

_log = structlog.get_logger()


class RedisServer:
    """One server process. A restart keeps its address and password."""

    def __init__(self, paths: InstallationPaths, *, memory_mb: int = 0, password: str | None = None) -> None:
        self._paths = paths
        self._memory_mb = redis_memory_mb(memory_mb)
        # Hexadecimal, because it stands unquoted in redis.conf, in the URL and in an inline command.
        self._password = secrets.token_hex(24) if password is None else password
        self.binary = self._find_binary()
        self.process: subprocess.Popen[bytes] | None = None
        self._sync: AofSync | None = None
        self._log_start = 0

    @property
    def url(self) -> str:
        """Return the address, including the password."""
        return f"unix://:{self._password}@{quote(str(self._paths.redis_socket))}"

    @property
    def pid(self) -> int:
        """Return its process id; 0 before the start."""
        return self.process.pid if self.process else 0

    def start(self) -> None:
        """Start the process and write its address to `redis.url`."""
        folder = self._paths.redis_dir
        write_private(folder / "redis.conf", self.configuration())
        write_private(folder / "product", self.binary.product + "\n")
        # Numbers only: older releases of Kiosk read this file and refuse newer data.
        write_private(folder / "version", ".".join(map(str, self.binary.version)) + "\n")
        write_private(self._paths.redis_url, self.url + "\n")
        with self._log_path.open("ab") as out:
            # The file also has the lines of earlier processes, which must not cause a repair of this one.
            self._log_start = out.tell()
            self.process = subprocess.Popen(
                [self.binary.path, str(folder / "redis.conf")],
                cwd=folder,
                # The server needs no secret, and its environment can be read under /proc. By the mark, the next
                # command finds the server of a command that was killed.
                env=without_secrets(os.environ) | {MARK: self._paths.mark},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                # Ctrl-C in a terminal is for the supervisor, which stops Redis last.
                start_new_session=True,
            )
        self._end_sync()
        self._sync = AofSync(folder, self._sync_by_redis)
        self._sync.start()
        _log.info("redis_started", server=self.binary.label, pid=self.pid)

    def restart(self) -> None:
        """Restart it after it died, with the same address and password; repair its file if that was the reason."""
        # Only then: a file that Redis loads is never rewritten.
        if self._refused_its_file():
            self._repair()
        self.start()

    def start_and_repair(self, within_s: float) -> None:
        """Start it and wait until it answers; a refused file is repaired once.

        Errors:
            Fault: it does not start
            Unavailable: it does not answer in time
        """
        self.start()
        try:
            self.wait(within_s)
        except Fault:
            # Any other failure would be hidden by a repair.
            if not self._refused_its_file():
                raise
            self.restart()
            self.wait(within_s)

    def has_died(self) -> bool:
        """Return whether the process ended."""
        return self.process is not None and self.process.poll() is not None

    def wait(self, within_s: float) -> None:
        """Wait until it answers, as long as it loads its file.

        Errors:
            Fault: it ended
            Unavailable: it neither answers nor makes progress for so long
        """
        patience = StallTimer(within_s)
        while not patience.is_over:
            patience.record(count_work_steps(self.pid))
            if self.has_died():
                raise Fault(f"Redis ended right after its start: {self._last_log_lines()}")
            if self.ping():
                return
            time.sleep(0.02)
        raise Unavailable(f"Redis did not answer within {within_s:.0f} s")

    def ping(self, within_s: float = 1.0) -> bool:
        """Return whether it answers a PING."""
        return self._send("PING", within_s) == b"+PONG\r\n"

    def stop(self, patience_s: float = 30.0) -> None:
        """Stop it; it syncs its file first. A server that hangs is killed: its file has every acknowledged write."""
        self._end_sync()
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            _log.warning("redis_killed", pid=self.pid, patience_s=patience_s)
            self.process.kill()
            self.process.wait(10)

    def configuration(self) -> str:
        """Return the text of redis.conf."""
        return "\n".join(
            line
            for line in (
                # No TCP: the mode of the socket excludes other users, and no other machine can connect.
                "port 0",
                f"unixsocket {_quoted(self._paths.redis_socket)}",
                "unixsocketperm 600",
                f"requirepass {self._password}",
                f"dir {_quoted(self._paths.redis_dir)}",
                # A daemon would be no child, and its death would go unseen.
                "daemonize no",
                "appendonly yes",
                f"appendfilename {AOF_NAME}",
                # `AofSync` syncs once a second: with `everysec` Redis postpones writes while the disk is busy.
                "appendfsync no",
                # A half-written command at the end is what a power failure leaves.
                "aof-load-truncated yes",
                # `repair_commands` finds its place again between commands, which it could not within binary RDB.
                "aof-use-rdb-preamble no",
                "auto-aof-rewrite-percentage 100",
                "auto-aof-rewrite-min-size 64mb",
                # No snapshots: the append-only file has everything.
                'save ""',
                # Redis is the truth here, not a cache: a full one refuses writes and drops nothing.
                "maxmemory-policy noeviction",
                f"maxmemory {self._memory_mb}mb",
                "maxclients 4000",
                "loglevel notice",
                *(f'rename-command {command} ""' for command in REMOVED_COMMANDS),
                # A title would overwrite the environment, which identifies the processes.
                "set-proc-title no",
                "",
            )
            if line is not None
        )

    def _send(self, command: str, within_s: float) -> bytes:
        """Send one inline command; return its reply of one line, or nothing where Redis does not answer."""
        replies = b""
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(within_s)
                connection.connect(str(self._paths.redis_socket))
                connection.sendall(f"AUTH {self._password}\r\n{command}\r\n".encode())
                # Two lines: the reply to AUTH, and the one to the command.
                while replies.count(b"\r\n") < 2 and (chunk := connection.recv(256)):
                    replies += chunk
        except OSError:
            return b""
        return replies.partition(b"\r\n")[2]

    def _sync_by_redis(self) -> bool:
        """Let Redis sync by itself, and return whether it does: where the disk refuses, it then refuses writes."""
        return self._send("CONFIG SET appendfsync everysec", 5.0) == b"+OK\r\n"

    def _end_sync(self) -> None:
        if self._sync is not None:
            self._sync.end()

    def _find_binary(self) -> RedisBinary:
        """Return a server for the data; releases before Valkey support did not note which product wrote them."""
        note = self._paths.redis_dir / "product"
        try:
            product = note.read_text().strip()
        except OSError:
            product = ""
        if product in PRODUCTS:
            return find_redis(self._data_version(), product)
        # A `redis-server` on PATH may have been Valkey under that name, with a version that Redis never had.
        advice = f"; if Valkey wrote the data, run `echo valkey > {shlex.quote(str(note))}`"
        return find_redis(self._data_version(), "redis", advice)

    def _data_version(self) -> Version:
        try:
            text = (self._paths.redis_dir / "version").read_text()
            return tuple(int(part) for part in text.strip().split("."))
        except (OSError, ValueError):
            return (0,)

    def _last_log_lines(self) -> str:
        lines = self._log_text().splitlines()
        return (
            " / ".join(line.partition("#")[2].strip() or line.strip() for line in lines[-3:])
            or "it said nothing"
        )

    def _log_text(self) -> str:
        """Return the log of the last process."""
        try:
            with self._log_path.open("rb") as log:
                log.seek(self._log_start)
                return log.read(1 << 20).decode("utf-8", "replace")
        except OSError:
            return ""

    @property
    def _log_path(self) -> Path:
        return self._paths.logs_dir / "redis.log"

    def _refused_its_file(self) -> bool:
        return bool(_REFUSED.search(self._log_text()))

    def _repair(self) -> None:
        """Move every append-only file aside and replace it by its intact content."""
        folder = self._paths.redis_dir
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        for path in [*folder.glob(AOF_NAME), *folder.glob("appendonlydir/*.aof")]:
            scratch = path.with_name(path.name + ".mending")
            aside = path.with_name(f"{path.name}.damaged-{stamp}")
            mended = repair_commands(path, scratch)
            if not mended.gaps:
                scratch.unlink()
                continue
            # The damaged file is kept: a later tool may read more of it. Its name has an intact file at any moment, or
            # a start that was killed here would let Redis begin with an empty one.
            os.link(path, aside)
            os.replace(scratch, path)
            sync_folder(path.parent)
            _log.error(
                "append_only_file_mended",
                file=path.name,
                kept_as=aside.name,
                commands=mended.kept,
                gaps=mended.gaps,
                lost_bytes=mended.lost_bytes,
            )


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
