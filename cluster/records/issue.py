"""Issuing an API key: the text for its owner and the record for the store."""

from __future__ import annotations

from dataclasses import dataclass

from cluster import secrecy
from cluster.records.access import ApiKey, App, KeyKind


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A fresh key. `text` is shown to people once and stored nowhere."""

    text: str
    record: ApiKey

    def __repr__(self) -> str:
        return f"IssuedKey({self.record.hint})"


def issue_key(vault: secrecy.Vault, app: App, kind: KeyKind, *, now_ms: int) -> IssuedKey:
    """Mint a key of an app and seal it."""
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
    return IssuedKey(text, record)


def reveal_key(vault: secrecy.Vault, record: ApiKey) -> str:
    """Recover the text of a stored key."""
    return vault.open(record.ciphertext, record.sha256)
