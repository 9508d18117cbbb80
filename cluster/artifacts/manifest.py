"""Manifest: the description of a set of files in the artifact store, written after them and verified on load.

    {"checksum":"<sha-256 hex of the manifest bytes>","manifest":{...,"mac":"<hmac-sha-256 hex>"}}

The outer form is compared byte by byte and the inner bytes by checksum, so any flipped bit in the file is detected.
The checksum detects damage; the MAC detects a writer without the installation's key. The MAC covers the manifest's
path and every inner byte before it. It is the last field, so releases without MACs read it as an unknown
field.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from cluster.artifacts.storage.artifact_store import ArtifactStore, checksum
from cluster.crypto import Signer
from cluster.errors import Fault

_BEGINS = "manifest-"
_ENDS = ".json"
_DIGITS = 12
ORPHAN_AGE_MS = 3_600_000
"Minimum age of a file outside all manifests for its removal: a younger one may belong to a coming manifest."


def manifest_path(folder: str, sequence: int) -> str:
    """Return the path of the manifest of one commit."""
    return f"{folder}/{_BEGINS}{sequence:0{_DIGITS}d}{_ENDS}"


def newest_manifest(store: ArtifactStore, folder: str) -> str | None:
    """Return the path of the newest manifest; None before the first commit."""
    paths = [entry.path for entry in store.entries(folder) if _is_manifest(entry.path)]
    # Names have a fixed number of digits, so their order is that of the sequences.
    return paths[-1] if paths else None


def sequence_from_path(path: str) -> int:
    """Return the sequence in the path of a manifest."""
    return int(path[: -len(_ENDS)][-_DIGITS:])


def list_replaced_files(before: Manifest, files: Iterable[FileEntry]) -> tuple[str, ...]:
    """Return the names of a commit's files that the next commit does not contain."""
    kept = {entry.name for entry in files}
    return tuple(entry.name for entry in before.files if entry.name not in kept)


def remove_incomplete_files(
    store: ArtifactStore, folder: str, newest: Manifest, *, oldest_kept: int, now_ms: int
) -> int:
    """Remove files of interrupted writes, and manifests before a sequence; return the number of files."""
    named = {entry.name for entry in newest.files}
    before_ms = now_ms - ORPHAN_AGE_MS
    gone = store.sweep_parts(folder, before_ms)
    for entry in store.entries(folder):
        name = entry.path.rsplit("/", 1)[-1]
        orphan = name.endswith(".parquet") and name not in named
        # Retired files go at once; an unnamed young one may belong to a commit that is being written.
        left_over = orphan and (name in newest.retired or entry.modified_ms < before_ms)
        outdated = _is_manifest(entry.path) and entry.path < manifest_path(folder, oldest_kept)
        if left_over or outdated:
            gone += store.remove(entry.path)
    return gone


def _is_manifest(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return name.startswith(_BEGINS) and name.endswith(_ENDS)


FORMAT = 1
"Version of this format; newer versions are refused."

_FIELDS = frozenset({"format", "kind", "sequence", "written_at_ms", "facts", "files", "retired", "mac"})
_ENTRY_FIELDS = frozenset({"name", "size", "sha256", "rows", "facts"})

LONGEST_NAME = 512
"Maximum length of a file's name, and"
LONGEST_PART = 255
"of one part of it."

Signature = Literal["none", "current", "previous", "foreign"]
"No signature, one of this installation's current or a previous key, or one of another key or place."

_OPENING = b'{"checksum":"'
_MIDDLE = b'","manifest":'
_MAC = b',"mac":"'
_MAC_LENGTH = len(_MAC) + 64 + len(b'"}')


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file that belongs to the set."""

    name: str
    "Relative to the manifest's folder."
    size: int
    sha256: str
    rows: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    unknown: Mapping[str, Any] = field(default_factory=dict)
    "Fields of a newer release, written back as they were read."


@dataclass(frozen=True, slots=True)
class Manifest:
    """The set: its files, and the facts that hold for all of them."""

    kind: str
    sequence: int
    "Incremented by every commit; 0 is the empty set before the first commit."
    written_at_ms: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[FileEntry, ...] = ()
    retired: tuple[str, ...] = ()
    "Files this commit replaced; any cleanup may remove them."
    unknown: Mapping[str, Any] = field(default_factory=dict)
    "Fields of a newer release, written back as they were read."

    def dump(self, signer: Signer | None = None, place: str = "") -> bytes:
        """Return the manifest as JSON with a checksum; with a signer also signed, for one path in the store."""
        inner = orjson.dumps(
            {
                **self.unknown,
                "format": FORMAT,
                "kind": self.kind,
                "sequence": self.sequence,
                "written_at_ms": self.written_at_ms,
                "facts": dict(self.facts),
                "files": [
                    {
                        **entry.unknown,
                        "name": entry.name,
                        "size": entry.size,
                        "sha256": entry.sha256,
                        "rows": entry.rows,
                        "facts": dict(entry.facts),
                    }
                    for entry in self.files
                ],
                "retired": list(self.retired),
            }
        )
        if signer is not None:
            # Put in before the closing brace: signed bytes are never serialised again.
            inner = inner[:-1] + _MAC + signer.sign(place, inner).encode() + b'"}'
        return _OPENING + checksum(inner).encode() + _MIDDLE + inner + b"}"

    @classmethod
    def parse(cls, data: bytes, *, kind: str, signer: Signer | None = None, place: str = "") -> Manifest:
        """Return the manifest from the bytes of `dump`; with a signer only if it signed them for this path.

        Errors:
            Fault: damaged, not signed by this installation, of another kind, of a newer format than this release
            supports, or it names files outside its folder
        """
        # Checksum and MAC before the JSON is parsed: damaged or foreign bytes never reach the parser.
        inner = _verify_checksum(data)
        if signer is not None:
            _check_mac(inner, signer, place)
        fields = orjson.loads(inner)
        if fields["format"] > FORMAT:
            raise Fault(f"manifest has format {fields['format']}, this release reads up to {FORMAT}")
        if fields["kind"] != kind:
            raise Fault(f"manifest is of kind {fields['kind']!r}, {kind!r} was asked for")
        # Also of a signed manifest: a path out of the folder could overwrite or remove other files.
        for name in (*(entry["name"] for entry in fields["files"]), *fields["retired"]):
            check_name(name)
        return cls(
            kind=kind,
            sequence=fields["sequence"],
            written_at_ms=fields["written_at_ms"],
            facts=fields["facts"],
            files=tuple(_parse_entry(entry) for entry in fields["files"]),
            retired=tuple(fields["retired"]),
            unknown={name: value for name, value in fields.items() if name not in _FIELDS},
        )


def _parse_entry(entry: Mapping[str, Any]) -> FileEntry:
    unknown = {name: value for name, value in entry.items() if name not in _ENTRY_FIELDS}
    return FileEntry(**{name: entry[name] for name in entry if name in _ENTRY_FIELDS}, unknown=unknown)


def check_name(name: object) -> None:
    """Refuse a file's name that leaves its manifest's folder, or that a file system may interpret differently.

    Errors:
        Fault: it is absolute, too long, or has an empty part, `.`, `..`, a backslash or a control character
    """
    parts = name.split("/") if isinstance(name, str) and len(name) <= LONGEST_NAME else [""]
    if any(part in ("", ".", "..") or len(part) > LONGEST_PART for part in parts) or not _is_plain(str(name)):
        raise Fault(f"manifest names a file outside its folder: {str(name)[:80]!r}")


def load_manifest(store: ArtifactStore, path: str, kind: str) -> Manifest:
    """Return the manifest at a path; if the store has a signer, only a signed one.

    Errors:
        NotFound: there is no manifest
    """
    return store.read_parsed(
        path, lambda data: Manifest.parse(data, kind=kind, signer=store.signer, place=path)
    )


def manifest_format(data: bytes) -> int:
    """Return the format of a manifest, which may be newer than this release reads."""
    return int(orjson.loads(_verify_checksum(data))["format"])


def manifest_kind(data: bytes) -> str:
    """Return the kind of a manifest."""
    return str(orjson.loads(_verify_checksum(data))["kind"])


def save_manifest(store: ArtifactStore, path: str, manifest: Manifest) -> None:
    """Write a manifest to its path, signed if the store has a signer.

    Errors:
        Conflict: there is a manifest already
    """
    # `new`: of two writers of one sequence, the later one gets `Conflict`.
    store.write(path, manifest.dump(store.signer, path), new=True)


def sign_manifest_bytes(data: bytes, signer: Signer, place: str) -> bytes | None:
    """Return a manifest's bytes signed for a path, replacing other signatures; None when already signed for it."""
    inner = _verify_checksum(data)
    plain, mac = _without_mac(inner)
    proof = signer.sign(place, plain)
    # Constant time, so that a MAC can't be guessed byte by byte.
    if mac is not None and hmac.compare_digest(mac, proof.encode()):
        return None
    inner = plain[:-1] + _MAC + proof.encode() + b'"}'
    return _OPENING + checksum(inner).encode() + _MIDDLE + inner + b"}"


def find_signature(data: bytes, signer: Signer, place: str) -> Signature:
    """Return whose signature a manifest has."""
    plain, mac = _without_mac(_verify_checksum(data))
    if mac is None:
        return "none"
    if hmac.compare_digest(mac, signer.sign(place, plain).encode()):
        return "current"
    return "previous" if signer.verify(place, plain, mac) else "foreign"


def _check_mac(inner: bytes, signer: Signer, place: str) -> None:
    plain, mac = _without_mac(inner)
    if mac is None:
        raise Fault(f"manifest is not signed; {_ADVICE}", path=place)
    if not signer.verify(place, plain, mac):
        raise Fault(f"manifest was not signed by this installation for this place; {_ADVICE}", path=place)


_ADVICE = "if you trust what stands there, sign it: kiosk artifacts sign"


def _without_mac(inner: bytes) -> tuple[bytes, bytes | None]:
    """Split the inner bytes from their MAC, which `dump` writes last."""
    at = len(inner) - _MAC_LENGTH
    if at < 0 or inner[at : at + len(_MAC)] != _MAC or inner[-2:] != b'"}':
        return inner, None
    return inner[:at] + b"}", inner[at + len(_MAC) : -2]


def _is_plain(name: str) -> bool:
    return "\\" not in name and name.isprintable()


def _verify_checksum(data: bytes) -> bytes:
    digest_at = len(_OPENING)
    inner_at = digest_at + 64 + len(_MIDDLE)
    inner = data[inner_at:-1]
    whole = (
        data[:digest_at] == _OPENING
        and data[digest_at + 64 : inner_at] == _MIDDLE
        and data[-1:] == b"}"
        and data[digest_at : digest_at + 64] == checksum(inner).encode()
    )
    if not whole:
        raise Fault("manifest is damaged: its checksum does not match")
    return inner
