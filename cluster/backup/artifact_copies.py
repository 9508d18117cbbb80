"""The files of an artifact store in a backup: copied in pieces, each piece once for all backups of a target."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from cluster.artifacts.logs.call_log import CallLogStore
from cluster.artifacts.logs.outcomes import OutcomeStore
from cluster.artifacts.logs.query_log import QueryLogStore
from cluster.artifacts.logs.served_log import ServedLogStore
from cluster.artifacts.manifest import FileEntry, Manifest, manifest_kind
from cluster.artifacts.replaced_products import ReplacedProducts
from cluster.artifacts.signing import is_manifest
from cluster.artifacts.storage.artifact_store import ArtifactStore, StoredFile, checksum
from cluster.backup.catalogue import ArtifactCopy, Backup
from cluster.backup.chunks import PIECE_BYTES, ChunkWriter, read_chunk
from cluster.errors import Conflict, Fault, NotFound

_TRIES = 5
_LOGS = frozenset(
    {QueryLogStore.kind, ServedLogStore.kind, OutcomeStore.kind, CallLogStore.kind, ReplacedProducts.kind}
)
"Folders of apps whose files are replaced every minute, so each is listed right before its copy."
Report = Callable[[str, int], None]


def copy_artifacts(
    source: ArtifactStore, chunks: ChunkWriter, earlier: Backup | None, report: Report
) -> list[ArtifactCopy]:
    """Copy every manifest, the files it names, and files outside all sets; return where each file is.

    Files of a set that its newest manifest does not name are left out: interrupted writes and replaced segments.

    Errors:
        Conflict: files are replaced faster than they are copied
    """
    # By checksum, so a file that was renamed or moved since is not read again either.
    earlier_copies = {} if earlier is None else {copy.sha256: copy for copy in earlier.facts.artifacts}
    logs = dict.fromkeys(map(_log_folder, [entry.path for entry in source.entries("")]))
    copies: list[ArtifactCopy] = []
    for folder in dict.fromkeys(["", *logs]):
        copies += _copy_folder(source, folder, chunks, earlier_copies, earlier, len(copies), report)
    return copies


def restore_artifacts(target: ArtifactStore, backup: Backup, into: ArtifactStore, report: Report) -> int:
    """Write the files of a backup into an artifact store, manifests last; return their number.

    Errors:
        Fault: a piece is damaged
    """
    # Manifests come last, so that every manifest finds the files that it names.
    files = sorted(backup.facts.artifacts, key=lambda copy: (is_manifest(copy.path), copy.path))
    for done, copy in enumerate(files):
        # Collected in a file: its checksum is known only at its end, and a file may be larger than memory.
        with tempfile.NamedTemporaryFile(prefix="kiosk-restore-") as scratch:
            digest = hashlib.sha256()
            for piece in copy.pieces:
                data = read_chunk(target, backup.chunks[piece])
                digest.update(data)
                scratch.write(data)
            scratch.flush()
            if digest.hexdigest() != copy.sha256:
                raise Fault(f"file of the backup is damaged: {copy.path}", path=copy.path)
            into.upload(copy.path, Path(scratch.name))
        report("artifacts", done + 1)
    return len(files)


def _log_folder(path: str) -> str:
    """Return the folder of a file of a log; empty for other files."""
    folder = path.rpartition("/")[0]
    return folder if folder.count("/") == 1 and folder.rpartition("/")[2] in _LOGS else ""


def _copy_folder(
    source: ArtifactStore,
    folder: str,
    chunks: ChunkWriter,
    earlier_copies: dict[str, ArtifactCopy],
    earlier: Backup | None,
    done: int,
    report: Report,
) -> list[ArtifactCopy]:
    """Copy one folder of a log; empty: all files of no log."""
    for _ in range(_TRIES):
        copies: list[ArtifactCopy] = []
        try:
            for entry, expected in _list_files(source, folder):
                copies.append(_copy_file(source, entry, expected, chunks, earlier_copies, earlier))
                report("artifacts", done + len(copies))
            return copies
        except NotFound:  # a compaction or a cleanup removed it since the listing
            continue
    raise Conflict("files of the artifact store are replaced faster than they are copied; try again")


def _list_files(source: ArtifactStore, log: str) -> Iterator[tuple[StoredFile, FileEntry | None]]:
    """Yield the files to copy; a file that a manifest names comes with its entry."""
    listed = [entry for entry in source.entries(log) if _log_folder(entry.path) == log]
    named: dict[str, FileEntry] = {}
    folders: set[str] = set()
    for entry in listed:
        if is_manifest(entry.path):
            folder = entry.path.rpartition("/")[0]
            data = source.read(entry.path)
            manifest = Manifest.parse(data, kind=manifest_kind(data), signer=source.signer, place=entry.path)
            folders.add(folder)
            # of several manifests of one folder the newest comes last, and names the files to keep
            named = {path: file for path, file in named.items() if path.rpartition("/")[0] != folder}
            named |= {f"{folder}/{file.name}": file for file in manifest.files}
    newest = {entry.path.rpartition("/")[0]: entry.path for entry in listed if is_manifest(entry.path)}
    # The listing is not one moment: a file may be replaced between it and the read of a manifest.
    for path in named.keys() - {entry.path for entry in listed}:
        raise NotFound(f"a manifest names a file that is gone: {path}", path=path)
    for entry in listed:
        folder = entry.path.rpartition("/")[0]
        if is_manifest(entry.path):
            if newest[folder] == entry.path:
                yield entry, None
        # A folder without a manifest is no set: all its files are copied.
        elif entry.path in named or folder not in folders:
            yield entry, named.get(entry.path)


def _copy_file(
    source: ArtifactStore,
    entry: StoredFile,
    expected: FileEntry | None,
    chunks: ChunkWriter,
    earlier_copies: dict[str, ArtifactCopy],
    earlier: Backup | None,
) -> ArtifactCopy:
    # Without a checksum of a manifest, only the bytes say whether the file changed.
    before = None if expected is None or earlier is None else earlier_copies.get(expected.sha256)
    if before is not None and earlier is not None:
        kept = [chunks.keep(piece, earlier.chunks[piece].size) for piece in before.pieces]
        # A removal may have taken some of the pieces, then the file is read anew.
        if all(kept):
            return ArtifactCopy(entry.path, before.size, before.sha256, before.pieces)
    if expected is None:
        data = source.read(entry.path)
        pieces = [chunks.write(data[at : at + PIECE_BYTES]) for at in range(0, len(data), PIECE_BYTES)]
        return ArtifactCopy(entry.path, len(data), checksum(data), pieces)
    with tempfile.NamedTemporaryFile(prefix="kiosk-backup-") as scratch:
        source.download(entry.path, Path(scratch.name), size=expected.size, sha256=expected.sha256)
        pieces = []
        while data := scratch.read(PIECE_BYTES):
            pieces.append(chunks.write(data))
    return ArtifactCopy(entry.path, expected.size, expected.sha256, pieces)
