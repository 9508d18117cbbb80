"""A thread that writes the append-only file of Redis to the disk once a second.

Redis has a setting for that, `appendfsync everysec`, but with it Redis postpones its own writes to the file for up to
two seconds while the disk is busy. A killed process then loses writes that it has acknowledged: 37 of 33,104 in 100
kills on a busy disk. With `appendfsync no` Redis writes to the file before each reply, so a killed process loses
nothing, and this thread bounds what a power cut loses as `everysec` does. Reasons and figures: decision 25.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import structlog

EVERY_S = 1.0
SLOW_S = 2.0
"A longer sync is logged: a power cut would lose the writes of that time."

_log = structlog.get_logger()


class AofSync:
    """Syncs the append-only files below a folder once a second, in a thread of this process."""

    def __init__(self, folder: Path, on_failure: Callable[[], bool], every_s: float = EVERY_S) -> None:
        """`on_failure` is called from the thread when the disk refuses a sync; the thread ends once it returns True."""
        self._folder = folder
        self._on_failure = on_failure
        self._every_s = every_s
        self._versions: dict[Path, tuple[int, int, int]] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="aof-sync", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """End the thread without waiting for a sync that is under way."""
        self._ended.set()

    def sync(self) -> int:
        """Sync each file that changed since its last sync; return how many.

        Errors:
            OSError: the disk refuses
        """
        synced = self._versions
        count = 0
        # An error leaves the remaining files out, so the next call syncs them again.
        self._versions = {}
        for path in [*self._folder.glob("appendonly.aof"), *self._folder.glob("appendonlydir/*.aof")]:
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:  # a rewrite removed it
                continue
            try:
                # Read before the sync: bytes that arrive during it belong to the next one.
                state = os.fstat(descriptor)
                # With the inode: a rewrite may leave a new file of the same name and size.
                version = (state.st_ino, state.st_size, state.st_mtime_ns)
                if synced.get(path) != version:
                    # A descriptor for reading is enough: the kernel syncs the file, whoever wrote to it.
                    os.fdatasync(descriptor)
                    count += 1
                self._versions[path] = version
            finally:
                os.close(descriptor)
        return count

    def _run(self) -> None:
        while not self._ended.wait(self._every_s):
            began_s = time.monotonic()
            try:
                self.sync()
            except OSError as error:
                _log.error("append_only_file_not_synced", reason=error.strerror)
                if self._on_failure():
                    return
            took_s = time.monotonic() - began_s
            if took_s > SLOW_S:
                _log.warning("append_only_file_synced_slowly", took_s=round(took_s, 1))
