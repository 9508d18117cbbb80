"""The artifact store: a local directory or an object store (pyarrow.fs) for segments and snapshots.

All methods block; hosts call them from a thread. A file in the store is written once and never changed. Locally it
is written under a temporary name, synced and renamed; an object store's put is atomic anyway. A manifest, written
last, names the files of one set (`cluster.artifacts.manifest`).
"""

from __future__ import annotations

import errno
import hashlib
import os
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from pyarrow import fs

from cluster import ids
from cluster.errors import Conflict, Fault, Invalid, NotFound, Unavailable
from cluster.secrecy import Signer

T = TypeVar("T")

PART_SUFFIX = ".part"
"Suffix of a file that is still being written; never listed."


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file in the artifact store."""

    path: str
    "Relative to the store's root, with `/`."
    size: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and with which pauses failed calls of an object store are repeated."""

    attempts: int = 5
    pause_s: float = 0.2
    "First pause in seconds; doubles every time, with jitter of half to one and a half."
    longest_s: float = 5.0


def checksum(data: bytes) -> str:
    """Return the SHA-256 of bytes in hex."""
    return hashlib.sha256(data).hexdigest()


class ArtifactStore:
    """Named files under one root.

    Errors (all methods):
        NotFound: there is no such file
        Unavailable: the store does not answer after all attempts, or the disk is full
    """

    def __init__(
        self,
        files: Any,
        root: str,
        *,
        local: bool,
        patience: RetryPolicy | None = None,
        signer: Signer | None = None,
        reserve_bytes: int = 64 << 20,
        sleep: Callable[[float], None] = time.sleep,
        rng: random.Random | None = None,
    ) -> None:
        self._files = files
        self._root = root.rstrip("/")
        self._local = local
        self.signer = signer
        """Signs written manifests and verifies read ones. Without it, only checksums are verified; this is allowed only
        for tests and for tools that read no other machine's files."""
        self._patience = RetryPolicy() if patience is None else patience
        self._reserve_bytes = reserve_bytes
        self._sleep = sleep
        self._rng = rng if rng is not None else random.Random()

    @classmethod
    def open(cls, uri: str | Path, **options: Any) -> ArtifactStore:
        """Open a directory (path or `file://`) or a bucket (`s3://`, `gs://`; credentials as pyarrow finds them).

        Errors:
            Invalid: pyarrow does not support the address
        """
        text = str(uri)
        if "://" not in text:
            return cls(fs.LocalFileSystem(), str(Path(text).expanduser().resolve()), local=True, **options)
        try:
            files, root = fs.FileSystem.from_uri(text)
        except (ValueError, OSError) as error:
            raise Invalid(f"shelf address can't be used: {error}") from error
        return cls(files, root, local=isinstance(files, fs.LocalFileSystem), **options)

    def digest(self, path: str, data: bytes) -> bytes:
        """Return 64 hex digits that authenticate bytes at a path: their MAC, without a signer their SHA-256."""
        proof = checksum(data) if self.signer is None else self.signer.sign(path, data)
        return proof.encode()

    # --- reading ------------------------------------------------------------------------------------------

    def read(self, path: str) -> bytes:
        """Return a whole file."""

        def attempt() -> bytes:
            with self._files.open_input_stream(self._full_path(path), compression=None) as stream:
                data: bytes = stream.read()
                return data

        return self._retry("read", path, attempt)

    def read_checked(self, path: str, *, size: int, sha256: str) -> bytes:
        """Return a file that must have this size and checksum; a short or changed body is read again.

        Errors:
            Fault: it still differs after all attempts; fact `path`
        """
        attempts = 1 if self._local else self._patience.attempts
        for tried in range(attempts):
            data = self.read(path)
            if len(data) == size and checksum(data) == sha256:
                return data
            if tried + 1 < attempts:
                self._pause(tried)
        raise Fault(f"file on the shelf is damaged: {path} ({len(data)} bytes, {size} expected)", path=path)

    def entries(self, folder: str) -> list[StoredFile]:
        """Return all files below a folder (empty: the whole store), sorted by path; an absent folder is empty.

        Links in a local directory, and files below linked folders, are left out.
        """

        def attempt() -> list[StoredFile]:
            above = self._full_path(folder) if folder else self._root
            selector = fs.FileSelector(above, allow_not_found=True, recursive=True)
            found = self._files.get_file_info(selector)
            if self._local:
                found = _without_links(found)
            return [
                StoredFile(info.path[len(self._root) + 1 :], info.size, (info.mtime_ns or 0) // 1_000_000)
                for info in found
                if info.type == fs.FileType.File and not info.path.endswith(PART_SUFFIX)
            ]

        return sorted(self._retry("list", folder, attempt), key=lambda entry: entry.path)

    def size(self, path: str) -> int | None:
        """Return the size of a file in bytes, None when it is absent."""
        info = self._retry("size", path, lambda: self._files.get_file_info(self._full_path(path)))
        return int(info.size) if info.type == fs.FileType.File else None

    def local_path(self, path: str) -> Path | None:
        """Return the path of a file or folder of a local directory; None for an object store."""
        return Path(self._full_path(path)) if self._local else None

    def free_space(self) -> tuple[int, int] | None:
        """Return free and total bytes of the disk of a local directory; None for an object store."""
        if not self._local:
            return None
        place = Path(self._root)
        while not place.exists():
            place = place.parent
        usage = shutil.disk_usage(place)
        return usage.free, usage.total

    # --- writing ------------------------------------------------------------------------------------------

    def write(self, path: str, data: bytes, *, new: bool = False) -> None:
        """Write a whole file atomically.

        Errors:
            Conflict: the file already exists and `new` is set
        """
        full = self._full_path(path)
        if self._local:
            self._write_local(Path(full), data, new)
            return
        if new and self.size(path) is not None:
            raise Conflict(f"already on the shelf: {path}", path=path)

        def attempt() -> None:
            with self._files.open_output_stream(full, compression=None) as stream:
                stream.write(data)

        self._retry("write", path, attempt)

    def remove(self, path: str) -> bool:
        """Remove a file; return False when it was absent."""

        def attempt() -> None:
            self._files.delete_file(self._full_path(path))

        try:
            self._retry("remove", path, attempt)
        except NotFound:
            return False
        return True

    def sweep_parts(self, folder: str, older_than_ms: int) -> int:
        """Remove files of interrupted writes in a local folder before a time; return their number."""
        if not self._local:
            return 0
        swept = 0
        for part in Path(self._full_path(folder)).rglob("*" + PART_SUFFIX):
            if part.stat().st_mtime * 1000 < older_than_ms:
                part.unlink(missing_ok=True)
                swept += 1
        return swept

    def _write_local(self, target: Path, data: bytes, new: bool) -> None:
        part = target.parent / f".{target.name}.{ids.new_request_id()}{PART_SUFFIX}"
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            room = self.free_space()
            if room is not None and room[0] < len(data) + self._reserve_bytes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            with part.open("wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            _move_into_place(part, target, new)
            _sync_folder(target.parent)
        except FileExistsError as error:
            raise Conflict(f"already on the shelf: {target.name}", path=target.name) from error
        except OSError as error:
            raise self._access_error("write", target.name, error) from error
        finally:
            part.unlink(missing_ok=True)

    # --- retries ------------------------------------------------------------------------------------------

    def _full_path(self, path: str) -> str:
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts:
            raise Invalid(f"not a path on the shelf: {path!r}")
        return f"{self._root}/{path}"

    def _retry(self, verb: str, path: str, attempt: Callable[[], T]) -> T:
        attempts = 1 if self._local else self._patience.attempts
        for tried in range(attempts):
            try:
                return attempt()
            except FileNotFoundError as error:
                raise NotFound(f"not on the shelf: {path}", path=path) from error
            except OSError as error:
                if tried + 1 == attempts:
                    raise self._access_error(verb, path, error) from error
                self._pause(tried)
        raise AssertionError("no attempt was made")

    def _pause(self, tried: int) -> None:
        pause_s = min(self._patience.longest_s, self._patience.pause_s * 2**tried)
        self._sleep(pause_s * self._rng.uniform(0.5, 1.5))

    def _access_error(self, verb: str, path: str, error: OSError) -> Unavailable:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return Unavailable(
                "no space left for the shelf; free some, writing goes on by itself", retry_after_s=10
            )
        return Unavailable(f"shelf can't {verb} {path}: {error.strerror or error}", retry_after_s=5)


def _without_links(found: list[Any]) -> list[Any]:
    """Leave out symbolic links and everything below linked folders, so that no foreign file is ever removed."""
    links = {info.path for info in found if os.path.islink(info.path)}
    if not links:
        return found
    below = tuple(f"{link}/" for link in links)
    return [info for info in found if info.path not in links and not info.path.startswith(below)]


def _move_into_place(part: Path, target: Path, new: bool) -> None:
    if not new:
        part.replace(target)
        return
    try:
        os.link(part, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: the writers' lease excludes concurrent writers
        if target.exists():
            raise FileExistsError(target) from None
        part.replace(target)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
