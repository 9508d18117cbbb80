"""The artifact store: a local directory or an object store (pyarrow.fs) for segments and snapshots.

All methods block; hosts call them from a thread. A file in the store is written once and never changed. Locally it
is written under a temporary name, synced and renamed; an object store's put is atomic anyway. A manifest, written
last, names the files of one set (`cluster.artifacts.manifest`).

The store maps files in place only on a disk of this machine. It copies files of a bucket or a network file
system first (`cluster.artifacts.storage.node_cache`), because a slow server would stop a process in a page fault.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import random
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from pyarrow import fs

from cluster import ids
from cluster.artifacts.storage.bucket_access import open_location
from cluster.artifacts.storage.conditional_writes import ConditionalWriter
from cluster.artifacts.storage.local_files import move_into_place, sync_folder, without_links
from cluster.artifacts.storage.node_cache import NodeCache, StoredEntry
from cluster.crypto import Signer
from cluster.errors import Conflict, Fault, Invalid, NotFound, Unavailable

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


PATIENT = RetryPolicy(attempts=24, longest_s=10.0)
"For jobs, which rather wait than fail: pauses of about 170 s in all, so an outage of a minute is waited out."

_CHUNK = 8 << 20

WriterLock = Callable[[str], AbstractContextManager[object]]
"Excludes other writers of one path, where the server has no conditional writes."


@dataclass(frozen=True, slots=True)
class _WholeFile:
    """A file of the store as a set of one file."""

    name: str
    size: int
    sha256: str = field(repr=False)


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
        in_place: bool | None = None,
        creator: ConditionalWriter | None = None,
        writer_lock: WriterLock | None = None,
        cache: NodeCache | None = None,
        patience: RetryPolicy | None = None,
        signer: Signer | None = None,
        reserve_bytes: int = 64 << 20,
        sleep: Callable[[float], None] = time.sleep,
        rng: random.Random | None = None,
    ) -> None:
        self._files = files
        self._root = root.rstrip("/")
        self._local = local
        self.in_place = local if in_place is None else in_place
        "Whether files are mapped in place; else they are copied to this node first."
        self._creator = creator
        self._writer_lock = writer_lock
        self._cache = cache
        self.signer = signer
        """Signs written manifests and verifies read ones. Without it, only checksums are verified; this is allowed only
        for tests and for tools that read no other machine's files."""
        self._patience = RetryPolicy() if patience is None else patience
        self._reserve_bytes = reserve_bytes
        self._sleep = sleep
        self._rng = rng if rng is not None else random.Random()

    @classmethod
    def open(cls, address: str | Path, *, copy: str = "auto", **options: Any) -> ArtifactStore:
        """Open a folder (path or `file://`) or a bucket (`s3://`, `gs://`), with credentials of the usual variables.

        `copy` decides whether files of a folder are copied before they are mapped: `auto`, `always` or
        `never`.

        Errors:
            Invalid: the address is not supported, or holds credentials
        """
        location = open_location(address, copy=copy)
        return cls(
            location.files,
            location.root,
            local=location.local,
            in_place=location.in_place,
            creator=location.creator,
            **options,
        )

    def digest(self, path: str, data: bytes) -> bytes:
        """Return 64 hex digits that authenticate bytes at a path: their MAC, without a signer their SHA-256."""
        proof = checksum(data) if self.signer is None else self.signer.sign(path, data)
        return proof.encode()

    def is_digest(self, path: str, data: bytes, digest: bytes) -> bool:
        """Return whether `digest` authenticates bytes at a path."""
        if self.signer is None:
            return hmac.compare_digest(checksum(data).encode(), digest)
        return self.signer.verify(path, data, digest)

    def read(self, path: str, most: int | None = None) -> bytes:
        """Return a whole file, or its first `most` bytes.

        Errors:
            NotFound: there is no regular file, as a pipe or a device
        """
        full = self._full_path(path)

        def attempt() -> bytes:
            # opening a pipe would wait for its writer
            if self._local and not Path(full).is_file():
                raise FileNotFoundError
            with self._files.open_input_stream(full, compression=None) as stream:
                data: bytes = stream.read(most)
                return data

        return self._retry("read", path, attempt)

    def read_parsed(self, path: str, parse: Callable[[bytes], T], most: int | None = None) -> T:
        """Return what `parse` makes of a file or its first `most` bytes; what it refuses is read again from a bucket.

        Errors:
            Fault: `parse` refuses them after all attempts
        """
        for tried in range(self._attempts):
            try:
                return parse(self.read(path, most))
            except Fault:
                if tried + 1 == self._attempts:
                    raise
                self._pause(tried)
        raise AssertionError("no attempt was made")

    def read_checked(self, path: str, *, size: int, sha256: str) -> bytes:
        """Return a file that must have this size and checksum; a short or changed body is read again.

        Errors:
            Fault: it still differs after all attempts; fact `path`
        """

        def check(data: bytes) -> bytes:
            if len(data) == size and checksum(data) == sha256:
                return data
            raise _damaged(path, len(data), size)

        # a longer file is damaged, however long it is
        return self.read_parsed(path, check, size + 1)

    def read_copied(self, path: str, *, size: int, sha256: str) -> bytes:
        """Return a file as `read_checked` does, by the copy on this node if files are not mapped in place.

        Errors:
            Fault: the file in the store differs; fact `path`
        """
        if self.in_place or self._cache is None:
            return self.read_checked(path, size=size, sha256=sha256)
        folder, _, name = path.rpartition("/")
        for _ in range(2):
            copy = self.node_copy(path, folder, [_WholeFile(name, size, sha256)])
            try:
                data = (copy / name).read_bytes()
            except OSError:  # a sweep of another process removed it just now
                data = b""
            if len(data) == size and checksum(data) == sha256:
                return data
            self._cache.discard(copy)
        return self.read_checked(path, size=size, sha256=sha256)

    def node_copy(self, origin: str, folder: str, files: Sequence[StoredEntry]) -> Path:
        """Return a folder on this machine with some files of a folder of the store.

        It is the folder itself where files are mapped in place, else a copy that was verified when it was made.
        `origin` is the file without which the set does not exist: its manifest.

        Errors:
            Fault: a file differs from its entry
            Unavailable: the store does not answer, or this node's disk is full
        """
        if self.in_place:
            return Path(self._full_path(folder))
        if self._cache is None:
            raise Fault("files of a bucket can't be mapped without a cache folder on this node")

        def download(name: str, target: Path) -> None:
            entry = next(file for file in files if file.name == name)
            self.download(f"{folder}/{name}", target, size=entry.size, sha256=entry.sha256)

        return self._cache.get(origin, files, download)

    def discard_copy(self, folder: Path) -> bool:
        """Remove a damaged copy of this node; return False when the folder is no copy."""
        return self._cache is not None and self._cache.discard(folder)

    def sweep_copies(self) -> int:
        """Remove copies of this node whose original is gone; return their number."""
        return 0 if self._cache is None else self._cache.sweep(lambda path: self.size(path) is not None)

    def node_folder(self, name: str) -> Path | None:
        """Return a folder for temporary files that processes of this node share; None without any."""
        if self.in_place:
            return Path(self._full_path(name))
        return None if self._cache is None else self._cache.folder / name

    def download(self, path: str, target: Path, *, size: int, sha256: str) -> None:
        """Copy a file to a path of this machine and compare it with its checksum, with bounded memory.

        Errors:
            Fault: it differs after all attempts; fact `path`
        """

        def attempt() -> tuple[int, str]:
            digest = hashlib.sha256()
            length = 0
            with (
                self._files.open_input_stream(self._full_path(path), compression=None) as stream,
                target.open("wb") as out,
            ):
                while chunk := stream.read(_CHUNK):
                    digest.update(chunk)
                    length += len(chunk)
                    out.write(chunk)
            return length, digest.hexdigest()

        length = 0
        for tried in range(self._attempts):
            length, actual = self._retry("read", path, attempt)
            # Repeated when it differs: a bucket may cut a body short without an error.
            if (length, actual) == (size, sha256):
                return
            if tried + 1 < self._attempts:
                self._pause(tried)
        raise _damaged(path, length, size)

    def entries(self, folder: str) -> list[StoredFile]:
        """Return all files below a folder (empty: the whole store), sorted by path; an absent folder is empty.

        Links in a local directory, and files below linked folders, are left out.
        """

        def attempt() -> list[StoredFile]:
            above = self._full_path(folder) if folder else self._root
            selector = fs.FileSelector(above, allow_not_found=True, recursive=True)
            infos = self._files.get_file_info(selector)
            if self._local:
                infos = without_links(infos)
            return [
                StoredFile(info.path[len(self._root) + 1 :], info.size, (info.mtime_ns or 0) // 1_000_000)
                for info in infos
                if info.type == fs.FileType.File and not info.path.endswith(PART_SUFFIX)
            ]

        return sorted(self._retry("list", folder, attempt), key=lambda entry: entry.path)

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders directly in a folder, sorted."""

        def attempt() -> list[str]:
            selector = fs.FileSelector(self._full_path(folder), allow_not_found=True)
            infos = self._files.get_file_info(selector)
            if self._local:
                infos = without_links(infos)
            return [info.base_name for info in infos if info.type == fs.FileType.Directory]

        return sorted(self._retry("list", folder, attempt))

    def has_any(self) -> bool:
        """Return whether the store has any file or folder."""
        selector = fs.FileSelector(self._root, allow_not_found=True)
        return bool(self._retry("list", "", lambda: self._files.get_file_info(selector)))

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

    def write(self, path: str, data: bytes, *, new: bool = False) -> None:
        """Write a whole file atomically.

        Errors:
            Conflict: the file already exists and `new` is set
        """
        full = self._full_path(path)
        if self._local:
            self._write_local(Path(full), data, new)
            return
        if new:
            self._create(path, data)
            return
        self._retry("write", path, lambda: self._put(full, data))

    def upload(self, path: str, source: Path) -> None:
        """Copy a file of this machine to the store with bounded memory; an existing file is replaced."""
        full = self._full_path(path)
        if self._local:
            self._write_local(Path(full), source, new=False)
            return

        def attempt() -> None:
            with (
                source.open("rb") as body,
                self._files.open_output_stream(full, compression=None) as stream,
            ):
                shutil.copyfileobj(body, stream, _CHUNK)

        self._retry("write", path, attempt)

    def _put(self, full: str, data: bytes) -> None:
        with self._files.open_output_stream(full, compression=None) as stream:
            stream.write(data)

    def _create(self, path: str, data: bytes) -> None:
        """Create a file of a bucket: of two writers of one path only one succeeds."""
        creator = self._creator
        if creator is not None and self._retry("probe", path, creator.is_enforced):
            self._create_by_condition(creator, path, data)
            return
        # A bucket that ignores "if none match": look and write are two steps, so a lock must join them.
        with nullcontext() if self._writer_lock is None else self._writer_lock(path):
            if self.size(path) is not None:
                raise Conflict(f"already in the artifact store: {path}", path=path)
            self._retry("write", path, lambda: self._put(self._full_path(path), data))

    def _create_by_condition(self, creator: ConditionalWriter, path: str, data: bytes) -> None:
        tries = 0

        def attempt() -> None:
            nonlocal tries
            tries += 1
            try:
                creator.create(path, data)
            except FileExistsError:
                # an earlier request of this process may have arrived although its answer did not
                if tries == 1 or self.read(path) != data:
                    raise Conflict(f"already in the artifact store: {path}", path=path) from None

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

    def _write_local(self, target: Path, data: bytes | Path, new: bool) -> None:
        # In the same folder, because a rename is atomic within one file system only.
        part = target.parent / f".{target.name}.{ids.new_request_id()}{PART_SUFFIX}"
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            room = self.free_space()
            size = len(data) if isinstance(data, bytes) else data.stat().st_size
            if room is not None and room[0] < size + self._reserve_bytes:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            with part.open("wb") as stream:
                if isinstance(data, bytes):
                    stream.write(data)
                else:
                    with data.open("rb") as body:
                        shutil.copyfileobj(body, stream, _CHUNK)
                stream.flush()
                # Before the rename: after a power loss the name must not point at bytes that were never
                # written.
                os.fsync(stream.fileno())
            move_into_place(part, target, new)
            # The rename itself is durable only once the folder is.
            sync_folder(target.parent)
        except FileExistsError as error:
            raise Conflict(f"already in the artifact store: {target.name}", path=target.name) from error
        except OSError as error:
            raise self._access_error("write", target.name, error) from error
        finally:
            part.unlink(missing_ok=True)

    def _full_path(self, path: str) -> str:
        parts = PurePosixPath(path).parts
        # Paths hold ids of apps and engines; none may lead out of the store.
        if not parts or path.startswith("/") or ".." in parts:
            raise Invalid(f"not a path of the artifact store: {path!r}")
        return f"{self._root}/{path}"

    @property
    def _attempts(self) -> int:
        return 1 if self._local and self.in_place else self._patience.attempts

    def _retry(self, verb: str, path: str, attempt: Callable[[], T]) -> T:
        attempts = self._attempts
        for tried in range(attempts):
            try:
                return attempt()
            except FileNotFoundError as error:
                raise NotFound(f"not in the artifact store: {path}", path=path) from error
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
                "no space left for the artifact store; free some, writing goes on by itself", retry_after_s=10
            )
        return Unavailable(
            f"the artifact store can't {verb} {path}: {error.strerror or error}", retry_after_s=5
        )


def _damaged(path: str, length: int, size: int) -> Fault:
    return Fault(
        f"file of the artifact store is damaged: {path} ({length} bytes, {size} expected)", path=path
    )
