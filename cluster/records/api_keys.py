"""API keys as the store has them, and the issue of a key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict

from cluster import crypto
from cluster.errors import Fault
from cluster.records.apps import App

KeyKind = Literal["secret", "publishable"]


class ApiKey(BaseModel):
    """A key as it rests in the store: recognisable, recoverable with the master key, useless without it."""

    model_config = ConfigDict(frozen=True)

    key_id: str
    "Short public name, safe in logs."
    app_id: str
    kind: KeyKind
    sha256: str
    "Hex digest the key is looked up by."
    ciphertext: str
    "The key under the master key (needed again for user_hash and HS256)."
    mac: str = ""
    """Proves that the creator of the record had the master key: over hash, kind, app and id
    (`cluster.records.api_keys`).
    Empty in records of releases before it."""
    hint: str
    "First characters and last four, for people."
    created_at: int


_PURPOSE: Final = "api key records"


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A fresh key. `text` is shown to people once and stored nowhere."""

    text: str
    record: ApiKey

    def __repr__(self) -> str:
        return f"IssuedKey({self.record.hint})"


def issue_key(vault: crypto.Vault, app: App, kind: KeyKind, *, now_ms: int) -> IssuedKey:
    """Create a key of an app and encrypt it for its record."""
    text = crypto.mint_key(kind, app.environment)
    sha256 = crypto.key_sha256(text)
    record = ApiKey(
        key_id=crypto.new_key_id(),
        app_id=app.app_id,
        kind=kind,
        sha256=sha256,
        ciphertext=vault.seal(text, sha256),
        hint=crypto.key_hint(text),
        created_at=now_ms,
    )
    return IssuedKey(text, sign_key(vault, record))


def sign_key(vault: crypto.Vault, record: ApiKey) -> ApiKey:
    """Bind a record's labels to its key: what kind it is, of which app, under which id."""
    vault.open(record.ciphertext, record.sha256)
    return record.model_copy(update={"mac": _signer(vault).sign(_PURPOSE, _labels(record))})


def is_signed(record: ApiKey) -> bool:
    """Return whether a record has any proof of its labels, valid or not."""
    return bool(record.mac)


def reveal_key(vault: crypto.Vault, record: ApiKey) -> str:
    """Return the text of a stored key.

    Errors:
        Fault: the record's labels are not those it was made with, or the key does not open under this master key
    """
    text = vault.open(record.ciphertext, record.sha256)
    if not record.mac:
        raise Fault("a key record is not signed; if you trust it, sign it: kiosk artifacts sign")
    if not _signer(vault).verify(_PURPOSE, _labels(record), record.mac.encode()):
        raise Fault("a key record was changed by somebody without the master key; rotate the app's keys")
    return text


def reseal_key(vault: crypto.Vault, record: ApiKey) -> ApiKey | None:
    """Return a record sealed and bound by the current master key; None if it is already.

    Errors:
        Fault: as `reveal_key`
    """
    try:
        reveal_key(vault.without_previous(), record)
        return None
    except Fault:
        text = reveal_key(vault, record)
    return sign_key(vault, record.model_copy(update={"ciphertext": vault.seal(text, record.sha256)}))


def _signer(vault: crypto.Vault) -> crypto.Signer:
    """Return what authenticates labels: a separate key, and a field beside the sealed text, so that earlier
    releases can read the record.
    """
    return crypto.Signer(vault.derive_all(_PURPOSE))


def _labels(record: ApiKey) -> bytes:
    # no field can contain a line break, so the text is unambiguous
    return "\n".join((record.sha256, record.kind, record.app_id, record.key_id)).encode()
