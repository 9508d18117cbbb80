"""Signing the manifests in an artifact store: after an upgrade, on an administrator's request, for a new master key."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cluster.artifacts.manifest import Signature, find_signature, sign_manifest_bytes
from cluster.artifacts.storage.artifact_store import ArtifactStore
from cluster.crypto import Signer
from cluster.errors import Fault, NotFound

Report = Callable[[int], None]
"Is called with the number of manifests read."


@dataclass(frozen=True, slots=True)
class SigningResult:
    """Counts of the manifests in an artifact store."""

    signed: tuple[str, ...]
    "Manifests that were signed, or with `dry_run` would be."
    valid: int
    "Manifests that were left as they are."
    damaged: tuple[str, ...]
    "Damaged manifests, which can't be signed."


def sign_manifests(store: ArtifactStore, *, foreign: bool, dry_run: bool = False) -> SigningResult:
    """Sign every undamaged manifest without a signature; with `foreign` also those with other signatures.

    A file is replaced atomically, so a read sees it signed or unsigned, and an interrupted call can be repeated.

    Cost:
        one read for each manifest; their files are not read
    """
    assert store.signer is not None
    signatures: tuple[Signature, ...] = ("none", "foreign") if foreign else ("none",)
    return _sign(store, store.signer, signatures, dry_run, lambda done: None)


def resign_manifests(
    store: ArtifactStore, signer: Signer, *, dry_run: bool = False, report: Report = lambda done: None
) -> SigningResult:
    """Sign the manifests that a previous key signed with the current one, and no others.

    Cost:
        one read for each manifest; their files are not read
    """
    return _sign(store, signer, ("previous",), dry_run, report)


def _sign(
    store: ArtifactStore, signer: Signer, signatures: tuple[Signature, ...], dry_run: bool, report: Report
) -> SigningResult:
    done = []
    valid = 0
    damaged = []
    for number, path in enumerate(entry.path for entry in store.entries("") if is_manifest(entry.path)):
        report(number + 1)
        try:
            data = store.read(path)
            if find_signature(data, signer, path) not in signatures:
                valid += 1
                continue
            after = sign_manifest_bytes(data, signer, path)
        except NotFound:  # a writer replaced it since the listing
            continue
        except Fault:
            damaged.append(path)
            continue
        if after is not None and not dry_run:
            # a cleanup may remove the set just now; the next cleanup then removes the manifest
            if store.size(path) is None:
                continue
            store.write(path, after)
        done.append(path)
    return SigningResult(tuple(done), valid, tuple(damaged))


def is_manifest(path: str) -> bool:
    """Return whether a path in the store is one of a manifest."""
    name = path.rsplit("/", 1)[-1]
    return name.endswith(".json") and (name == "manifest.json" or name.startswith("manifest-"))
