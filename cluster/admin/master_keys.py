"""The master key of an installation, and the keys derived from it for processes that must not have it.

Each place may hold several keys, with white space between them: the current one, then previous ones.

    KIOSK_MASTER_KEY             in the environment of the first process only, which moves it to a file (`handover`)
    KIOSK_MASTER_KEY_FILE        a file of the operator, such as a mounted secret of Kubernetes
    <run_dir>/secrets/           the secrets that the first process moved
    <data_dir>/master.key        created by the first start without a given key

Trainers open the artifact store with the derived manifest key; this module never reads the master key for them.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from cluster.crypto import Signer, Vault, create_master_key, key_text, parse_master_keys, read_master_keys
from cluster.errors import Fault
from cluster.paths import InstallationPaths, read_private, write_private
from cluster.settings import Settings

MASTER_KEY = "master.key"
MANIFEST_KEY = "manifest.key"
"Names of files below `InstallationPaths.secrets_dir`."

_MANIFESTS = "artifact manifests"
_FINGERPRINT = "fingerprint of the master key"


def open_vault(settings: Settings) -> Vault:
    """Open the vault."""
    current, *previous = find_external_master_keys(settings) or read_master_keys(
        InstallationPaths.from_data_dir(settings.data_dir).master_key
    )
    return Vault(current, previous=previous)


def find_external_master_keys(settings: Settings) -> tuple[bytes, ...]:
    """Return the master keys from outside, the current one first; empty if the installation created its own."""
    if settings.master_key is not None:
        return parse_master_keys(settings.master_key.get_secret_value())
    if settings.master_key_file is not None:
        return read_master_keys(settings.master_key_file)
    handed = read_private(InstallationPaths.from_data_dir(settings.data_dir).secrets_dir / MASTER_KEY)
    return () if handed is None else parse_master_keys(handed)


def ensure_master_key(settings: Settings) -> None:
    """Create the master key of a new installation; one given from outside is only checked.

    Errors:
        Fault: the existing key is damaged, or the key of earlier starts is missing
    """
    if find_external_master_keys(settings):
        return
    paths = InstallationPaths.from_data_dir(settings.data_dir)
    # With a new key, everything that was sealed with the earlier one could not be read any more.
    if paths.signing_marker.exists() and not paths.master_key.exists():
        raise Fault(
            "this installation was started with a master key from outside; give it again (KIOSK_MASTER_KEY_FILE), or "
            f"put back {paths.master_key} from your backup"
        )
    create_master_key(paths.master_key)


def master_key_fingerprints(settings: Settings) -> tuple[str, ...]:
    """Return 16 hex digits for each master key, the current one first; empty without a key.

    They distinguish master keys and reveal nothing about them.
    """
    keys = find_external_master_keys(settings)
    if not keys:
        path = InstallationPaths.from_data_dir(settings.data_dir).master_key
        if not path.exists():
            return ()
        keys = read_master_keys(path)
    return tuple(key.hex()[:16] for key in Vault(keys[0], previous=keys[1:]).derive_all(_FINGERPRINT))


def manifest_signer(settings: Settings) -> Signer:
    """Return the signer of manifests; it reads its keys with the first manifest."""
    return Signer(partial(manifest_keys, settings))


def derive_manifest_keys(vault: Vault) -> tuple[bytes, ...]:
    """Return the keys of manifests, whatever this machine has saved; the current one first."""
    return vault.derive_all(_MANIFESTS)


def manifest_keys(settings: Settings) -> tuple[bytes, ...]:
    """Return the saved keys of manifests, or derive them from the master keys; the current one first."""
    path = InstallationPaths.from_data_dir(settings.data_dir).secrets_dir / MANIFEST_KEY
    text = _read_text(settings.manifest_key_file) if settings.manifest_key_file else read_private(path)
    return derive_manifest_keys(open_vault(settings)) if text is None else parse_master_keys(text)


def save_manifest_key(settings: Settings) -> None:
    """Save the derived keys for the processes of this machine, so that trainers need no master key."""
    paths = InstallationPaths.from_data_dir(settings.data_dir)
    paths.secrets_dir.mkdir(exist_ok=True, mode=0o700)
    write_private(paths.secrets_dir / MANIFEST_KEY, manifest_key_text(settings) + "\n")


def manifest_key_text(settings: Settings) -> str:
    """Return the key of manifests as text, for the secret store of a cluster whose trainers have no master key.

    It has one line for each master key, the current one first.
    """
    return "\n".join(map(key_text, derive_manifest_keys(open_vault(settings))))


def _read_text(path: Path) -> str:
    try:
        return path.read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise Fault(f"the key of manifests can't be read: {path.name}") from error
