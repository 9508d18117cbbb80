"""Signing the manifests in an artifact store: once after an upgrade, and on an administrator's request."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.artifacts.artifact_store import ArtifactStore
from cluster.artifacts.manifest import is_signed, sign_manifest_bytes
from cluster.errors import Fault, NotFound


@dataclass(frozen=True, slots=True)
class SigningResult:
    """Counts of the manifests in an artifact store."""

    signed: tuple[str, ...]
    "Manifests that were signed, or with `dry_run` would be."
    valid: int
    "Manifests whose signature is valid."
    damaged: tuple[str, ...]
    "Damaged manifests, which can't be signed."


def sign_manifests(store: ArtifactStore, *, foreign: bool, dry_run: bool = False) -> SigningResult:
    """Sign every undamaged manifest without a signature; with `foreign` also those with other signatures.

    A file is replaced atomically, so a read sees it signed or unsigned, and an interrupted call can be repeated.

    Cost:
        one read for each manifest; their files are not read
    """
    assert store.signer is not None
    done, valid, damaged = [], 0, []
    for entry in store.entries(""):
        if not is_manifest(entry.path):
            continue
        try:
            data = store.read(entry.path)
            if is_signed(data) and not foreign:
                valid += 1
                continue
            after = sign_manifest_bytes(data, store.signer, entry.path)
        except NotFound:  # a writer replaced it since the listing
            continue
        except Fault:
            damaged.append(entry.path)
            continue
        if after is None:
            valid += 1
            continue
        if not dry_run:
            store.write(entry.path, after)
        done.append(entry.path)
    return SigningResult(tuple(done), valid, tuple(damaged))


def is_manifest(path: str) -> bool:
    """Return whether a path in the store is one of a manifest."""
    name = path.rsplit("/", 1)[-1]
    return name.endswith(".json") and (name == "manifest.json" or name.startswith("manifest-"))
