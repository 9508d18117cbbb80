"""Issuing an API key: the text for its owner and the record for the store."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from typing import Final

from cluster import secrecy
from cluster.errors import Fault
from cluster.records.access import ApiKey, App, KeyKind

_PURPOSE: Final = "api key records"


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A fresh key. `text` is shown to people once and stored nowhere."""

    text: str
    record: ApiKey

    def __repr__(self) -> str:
        return f"IssuedKey({self.record.hint})"


def issue_key(vault: secrecy.Vault, app: App, kind: KeyKind, *, now_ms: int) -> IssuedKey:
    """Create a key of an app and encrypt it for its record."""
    text = secrecy.mint_key(kind, app.environment)
    sha256 = secrecy.key_sha256(text)
    record = ApiKey(
        key_id=secrecy.new_key_id(),
        app_id=app.app_id,
        kind=kind,
        sha256=sha256,
        ciphertext=vault.seal(text, sha256),
        hint=secrecy.key_hint(text),
        created_at=now_ms,
    )
    return IssuedKey(text, bind_key(vault, record))


def bind_key(vault: secrecy.Vault, record: ApiKey) -> ApiKey:
    """Bind a record's labels to its key: what kind it is, of which app, under which id.

    Errors:
        Fault: the key does not open under this master key
    """
    vault.open(record.ciphertext, record.sha256)
    return record.model_copy(update={"mac": _mac(vault, record)})


def is_bound(record: ApiKey) -> bool:
    """Return whether a record has any proof of its labels, valid or not."""
    return bool(record.mac)


def reveal_key(vault: secrecy.Vault, record: ApiKey) -> str:
    """Return the text of a stored key.

    Errors:
        Fault: the record's labels are not those it was made with, or the key does not open under this master key
    """
    text = vault.open(record.ciphertext, record.sha256)
    if not record.mac:
        raise Fault("a key record is not signed; if you trust it, sign it: kiosk artifacts sign")
    if not hmac.compare_digest(record.mac.encode(), _mac(vault, record).encode()):
        raise Fault("a key record was changed by somebody without the master key; rotate the app's keys")
    return text


def _mac(vault: secrecy.Vault, record: ApiKey) -> str:
    """Authenticate the labels under a key of its own; beside the sealed text, so that releases before it read on."""
    # no field can hold a line break: the text says one thing only
    labels = "\n".join((record.sha256, record.kind, record.app_id, record.key_id))
    return secrecy.Signer(vault.derive(_PURPOSE)).sign(_PURPOSE, labels.encode())
