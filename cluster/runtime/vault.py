"""The vault of an installation: its master key from the environment or from the file beside the data."""

from __future__ import annotations

from cluster.runtime.places import Places
from cluster.secrecy import Vault, create_master_key, parse_master_key, read_master_key
from cluster.settings import Settings


def vault_of(settings: Settings) -> Vault:
    """Open the vault.

    Errors:
        Fault: there is no master key, or it is damaged
    """
    if settings.master_key is not None:
        return Vault(parse_master_key(settings.master_key.get_secret_value()))
    return Vault(read_master_key(Places.of(settings.data_dir).master_key))


def ensure_master_key(settings: Settings) -> None:
    """Make the master key of a fresh installation; one from the environment is only checked.

    Errors:
        Fault: the key that is there is damaged
    """
    if settings.master_key is not None:
        parse_master_key(settings.master_key.get_secret_value())
        return
    create_master_key(Places.of(settings.data_dir).master_key)
