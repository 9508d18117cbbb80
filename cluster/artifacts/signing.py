"""Signing the manifests that stand on a shelf: once for those of earlier releases, and on an administrator's word."""

from __future__ import annotations

from dataclasses import dataclass

from cluster.artifacts.artifact_store import ArtifactStore
from cluster.artifacts.manifest import is_signed, sign_manifest_bytes
from cluster.errors import Fault, NotFound


@dataclass(frozen=True, slots=True)
class SigningResult:
    """What was found on a shelf."""

    signed: tuple[str, ...]
    "Manifests that were signed, or with `dry_run` would be."
    valid: int
    "Manifests whose signature holds."
    damaged: tuple[str, ...]
    "Manifests that no signature can help."


def sign_manifests(store: ArtifactStore, *, foreign: bool, dry_run: bool = False) -> SigningResult:
    """Sign every whole manifest without a signature; with `foreign` also those that others signed.

    A file on the shelf is replaced whole, so a reader sees it signed or unsigned and an interrupted round is repeated.

    Cost:
        one read for each manifest; their files are not read
    """
    assert store.signer is not None
    done, valid, damaged = [], 0, []
    for entry in store.entries(""):
        if not _is_manifest(entry.path):
            continue
        try:
            data = store.read(entry.path)
            if is_signed(data) and not foreign:
                valid += 1
                continue
            after = sign_manifest_bytes(data, store.signer, entry.path)
        except NotFound:  # replaced by its writer since the listing
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


def _is_manifest(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return name.endswith(".json") and (name == "manifest.json" or name.startswith("manifest-"))
