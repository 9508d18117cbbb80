"""Verified copies of stored files on this node, shared by its processes.

    <folder>/<key>/         the files of one set: complete, or absent
    <folder>/<key>.part/    being fetched
    <folder>/<key>.origin   path of the set in the artifact store
    <folder>/<key>.lock     locked alone while the set is fetched or removed, together while processes use it

The key is a digest of names and checksums, so a copy never changes. One process fetches a set and the others wait for
it. Every byte is compared with its checksum before a set gets its name. A process keeps the lock of each set that it
has mapped, so the bound removes only sets that nobody maps, those unused for longest first.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import structlog

from cluster.errors import Unavailable

RESERVE_BYTES = 256 << 20
"Space that stays free on the disk."
WAIT_S = 600.0
"How long a process waits for another one that fetches the same set."
FRESH_S = 60.0
"A set that was handed out so recently counts as used, mapped or not."
SWEEP_S = 60.0
"Pause between two comparisons with the artifact store, on a node."

_POLL_S = 0.05


class StoredEntry(Protocol):
    """A file of a set, as manifests describe it."""

    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def sha256(self) -> str: ...


Download = Callable[[str, Path], None]
"Fetches a file of the set to a path, and verifies it."


class NodeCache:
    """Copies in one folder. All methods block: call them from a thread."""

    def __init__(
        self,
        folder: Path,
        max_bytes: int,
        *,
        reserve_bytes: int = RESERVE_BYTES,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.folder = folder
        self._sleep = sleep
        self._max_bytes = max_bytes
        self._reserve_bytes = reserve_bytes
        self._used: dict[str, tuple[int, float]] = {}
        "Key -> the handle that shares its lock, and when the set was handed out."
        self._guard = threading.Lock()
        self._log = structlog.get_logger()

    def get(self, origin: str, files: Sequence[StoredEntry], download: Download) -> Path:
        """Return the folder of a set; fetch the set first if it is not cached.

        Errors:
            Unavailable: the disk is full or can't be written, or another process fetches for too long
            any error of `download`; then nothing is left here
        """
        key = _key(origin, files)
        try:
            _make_private(self.folder)
            deadline_s = time.monotonic() + WAIT_S
            # Again after each fetch: between the lock alone and the shared one, another process may remove
            # the set.
            while not self._share(key, files):
                with _locked(self._path(key, ".lock")) as alone:
                    if alone is not None:
                        if not _is_complete(self.folder / key, files):
                            self._fetch(key, origin, files, download)
                        continue
                if time.monotonic() > deadline_s:
                    raise Unavailable(f"another process fetches {origin} for too long", retry_after_s=5)
                self._sleep(_POLL_S)
            with contextlib.suppress(FileNotFoundError):
                # The time of the folder is that of its last use, by which the bound chooses.
                os.utime(self.folder / key)
        except OSError as error:
            raise Unavailable(
                f"{origin} can't be kept here: {error.strerror or error}", retry_after_s=10
            ) from error
        return self.folder / key

    def discard(self, folder: Path) -> bool:
        """Remove a damaged copy, so that the next call fetches it again; return False for other folders."""
        if folder.parent != self.folder:
            return False
        self._release(folder.name)
        self._remove(folder.name)
        return True

    def sweep(self, exists: Callable[[str], bool]) -> int:
        """Remove copies whose original is gone, and interrupted downloads; return their number.

        An erased person must not stay in copies. A process that has mapped such a copy keeps its pages. Other
        processes of the node that swept a moment ago make this call do nothing.

        Errors:
            Unavailable: `exists` failed; nothing else is removed
        """
        if not self.folder.is_dir():
            return 0
        with _locked(self.folder / ".sweep") as alone:
            mark = self.folder / ".swept"
            # 0.8, so that timers of several processes that drift a little do not skip every second sweep.
            if alone is None or (mark.exists() and time.time() - mark.stat().st_mtime < SWEEP_S * 0.8):
                return 0
            mark.touch()
            removed = self._sweep_parts()
            for note in list(self.folder.glob("*.origin")):
                with contextlib.suppress(FileNotFoundError):
                    if not exists(note.read_text("utf-8")):
                        self._remove(note.stem)
                        removed += 1
        self._prune(0)
        return removed

    def size(self) -> int:
        """Return the bytes of all copies."""
        return sum(_folder_size(folder) for folder in self._sets())

    def _share(self, key: str, files: Sequence[StoredEntry]) -> bool:
        """Mark a complete set as used by this process; return False when it is absent."""
        with self._guard:
            # The files may be gone although the lock is shared: another process found the copy damaged and
            # discarded it.
            if key in self._used:
                if _is_complete(self.folder / key, files):
                    self._used[key] = self._used[key][0], time.monotonic()
                    return True
                os.close(self._used.pop(key)[0])
            handle = _open_lock(self._path(key, ".lock"), fcntl.LOCK_SH)
            if handle is None:
                return False
            if not _is_complete(self.folder / key, files):
                os.close(handle)
                return False
            self._used[key] = handle, time.monotonic()
            return True

    def _release(self, key: str) -> None:
        with self._guard:
            if key in self._used:
                os.close(self._used.pop(key)[0])

    def _release_unmapped(self) -> str:
        """Release the locks of sets that this process no longer maps; return the table of mapped sets."""
        try:
            # Arrow and NumPy map files and do not tell when they let go; only the kernel knows.
            mapped = Path("/proc/self/maps").read_text("utf-8", "surrogateescape")
        except OSError:  # no such table: sets stay marked until the process ends
            return ""
        before_s = time.monotonic() - FRESH_S
        with self._guard:
            for key, (handle, at_s) in list(self._used.items()):
                if at_s < before_s and f"/{key}/" not in mapped:
                    os.close(handle)
                    del self._used[key]
        return mapped

    def _fetch(self, key: str, origin: str, files: Sequence[StoredEntry], download: Download) -> None:
        part = self._path(key, ".part")
        shutil.rmtree(part, ignore_errors=True)
        # An incomplete set, which must go first: a rename onto a folder with files fails.
        shutil.rmtree(self.folder / key, ignore_errors=True)
        size = sum(entry.size for entry in files)
        # Before the free space is measured, which it increases.
        self._prune(size)
        if shutil.disk_usage(self.folder).free < size + self._reserve_bytes:
            raise Unavailable(f"no space left on this node for {origin}; free some", retry_after_s=10)
        began_s = time.monotonic()
        try:
            part.mkdir(mode=0o700)
            for entry in files:
                target = part / entry.name
                target.parent.mkdir(parents=True, exist_ok=True)
                download(entry.name, target)
            # Before the set gets its name: a set without a note could never be swept.
            self._path(key, ".origin").write_text(origin, "utf-8")
            part.rename(self.folder / key)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        self._log.info(
            "copied_to_node", origin=origin, size=size, seconds=round(time.monotonic() - began_s, 2)
        )

    def _prune(self, coming: int) -> None:
        """Remove sets that no process maps, those unused for longest first, until the bound holds."""
        mapped = self._release_unmapped()
        by_age = sorted(
            (folder.stat().st_mtime, folder.name, _folder_size(folder)) for folder in self._sets()
        )
        too_much = sum(size for _, _, size in by_age) + coming - self._max_bytes
        for _, key, size in by_age:
            if too_much <= 0:
                return
            with self._guard:
                if key in self._used or f"/{key}/" in mapped:
                    continue
            # Skipped if any process shares the lock: it has mapped the set, or is about to.
            with _locked(self._path(key, ".lock")) as alone:
                if alone is not None:
                    self._remove(key)
                    too_much -= size
        if too_much > 0:
            self._log.warning("node_cache_over_bound", too_much=too_much, bound=self._max_bytes)

    def _sweep_parts(self) -> int:
        removed = 0
        for part in self.folder.glob("*.part"):
            with _locked(self._path(part.stem, ".lock")) as alone:
                if alone is not None:
                    shutil.rmtree(part, ignore_errors=True)
                    # Of an interrupted removal, this look made the lock; nobody would remove it later.
                    self._path(part.stem, ".lock").unlink(missing_ok=True)
                    removed += 1
        return removed

    def _remove(self, key: str) -> None:
        doomed = self._path(key, f".{os.getpid()}-{threading.get_ident()}.part")
        with contextlib.suppress(OSError):
            (self.folder / key).rename(doomed)  # at once: no process finds half a set
        shutil.rmtree(doomed, ignore_errors=True)
        for suffix in (".origin", ".lock"):
            self._path(key, suffix).unlink(missing_ok=True)

    def _sets(self) -> Iterator[Path]:
        for note in self.folder.glob("*.origin"):
            folder = self.folder / note.stem
            if folder.is_dir():
                yield folder

    def _path(self, key: str, suffix: str) -> Path:
        return self.folder / f"{key}{suffix}"


def _key(origin: str, files: Sequence[StoredEntry]) -> str:
    digest = hashlib.sha256(origin.encode())
    for entry in files:
        # With names and sizes: the same contents under other names are another set.
        digest.update(f"\0{entry.name}\0{entry.size}\0{entry.sha256}".encode())
    return digest.hexdigest()[:32]


def _is_complete(folder: Path, files: Sequence[StoredEntry]) -> bool:
    try:
        # Sizes only: every byte was compared when the set was fetched.
        return all((folder / entry.name).stat().st_size == entry.size for entry in files) and folder.is_dir()
    except OSError:
        return False


def _folder_size(folder: Path) -> int:
    size = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            size += path.stat().st_size
    return size


def _make_private(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Another user who made the folder could replace the models in it.
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(1, "the cache folder belongs to somebody else")


def _open_lock(path: Path, kind: int) -> int | None:
    """Return a handle that holds a lock of a file; None when another process's lock excludes it."""
    while True:
        # O_CLOEXEC: a child that inherits the handle would keep the lock after this process closed it.
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
            # `_remove` unlinks the lock: a handle that was opened before then locks a file without a name.
            if os.fstat(handle).st_ino == path.stat().st_ino:
                return handle
        except BlockingIOError:
            os.close(handle)
            return None
        except FileNotFoundError:
            pass
        except OSError:
            os.close(handle)
            raise
        os.close(handle)  # the file was removed meanwhile, so its lock excludes no process


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[int | None]:
    """Hold the exclusive lock of a file; None when another process has it."""
    handle = _open_lock(path, fcntl.LOCK_EX)
    try:
        yield handle
    finally:
        if handle is not None:
            os.close(handle)
