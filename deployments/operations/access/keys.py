"""API keys: list, reveal, rotate and revoke them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import Field

from cluster.admin.app_key_admin import KINDS, KeyEntry
from cluster.clock import iso_ms
from cluster.errors import Invalid, NotFound
from cluster.records.api_keys import KeyKind
from deployments.operations.access.apps import NewKeys, app_admin
from deployments.operations.framework.operation import Arguments, OfApp, operation
from deployments.operations.framework.result_table import PlainResult, ResultLines, ResultTable
from deployments.operations.framework.services import AdminServices


@dataclass(frozen=True, slots=True)
class KeyList:
    """Keys in use, app by app."""

    entries: list[KeyEntry]

    def to_dict(self) -> dict[str, Any]:
        return {"keys": [entry.to_dict() for entry in self.entries]}

    def to_lines(self) -> ResultLines:
        """Return a table of the keys."""
        rows = [
            (
                entry.key.app_id,
                entry.key.kind,
                entry.key.key_id,
                entry.text or entry.key.hint,
                iso_ms(entry.key.created_at)[:19],
            )
            for entry in self.entries
        ]
        empty = "There are no keys yet; `kiosk up` makes the first ones."
        return (ResultTable(("app", "kind", "key id", "key", "made"), rows, empty),)


class RotateKeys(OfApp):
    """Arguments of `keys.rotate`."""

    kind: str = Field("both", description="secret, publishable or both.")


class RevokeKey(OfApp):
    """Arguments of `keys.revoke`."""

    key_id: str


class RevokeAnyKey(Arguments):
    """Arguments of `keys.revoke_any`."""

    key: str = Field(max_length=200, description="Key id (best), hint, or the key itself.")


@operation("keys.list", "GET", "/apps/{app_id}/keys", "owner")
async def list_keys(services: AdminServices, given: OfApp) -> KeyList:
    """List the keys of an app, without their texts.

    Errors:
        NotFound: no such app
    """
    return KeyList(await app_admin(services).keys(app_id=given.app_id))


@operation("keys.list_all", "GET", "/keys", "owner", scope="installation")
async def list_all_keys(services: AdminServices, _: Arguments) -> KeyList:
    """List the keys of all apps, without their texts."""
    return KeyList(await app_admin(services).keys())


@operation("keys.reveal", "POST", "/apps/{app_id}/keys/reveal", "owner", secret_results={"key", "token_key"})
async def reveal_keys(services: AdminServices, given: OfApp) -> KeyList:
    """Show the keys of an app; the audit log records it.

    Errors:
        NotFound: no such app
        Fault: a key does not open under the master key
    """
    return KeyList(await app_admin(services).keys(app_id=given.app_id, reveal=True))


@operation(
    "keys.reveal_all",
    "POST",
    "/keys/reveal",
    "owner",
    scope="installation",
    secret_results={"key", "token_key"},
)
async def reveal_all_keys(services: AdminServices, _: Arguments) -> KeyList:
    """Show the keys of all apps; the audit log records it.

    Errors:
        Fault: a key does not open under the master key
    """
    return KeyList(await app_admin(services).keys(reveal=True))


@operation(
    "keys.rotate",
    "POST",
    "/apps/{app_id}/keys/rotate",
    "owner",
    secret_results={"publishable_key", "secret_key"},
)
async def rotate_keys(services: AdminServices, given: RotateKeys) -> NewKeys:
    """Replace keys of an app; the new ones are shown once, the old ones are refused within a second.

    Errors:
        NotFound: no such app
        Invalid: no such kind of key
    """
    kinds = _kinds(given.kind)
    return NewKeys(given.app_id, "", await app_admin(services).rotate(given.app_id, kinds, services.now_ms()))


@operation("keys.revoke", "DELETE", "/apps/{app_id}/keys/{key_id}", "owner")
async def revoke_key(services: AdminServices, given: RevokeKey) -> PlainResult:
    """Revoke one key of an app for good.

    Errors:
        NotFound: the app has no such key
    """
    admin = app_admin(services)
    # `revoke` also takes hints and texts, of keys of any app; an owner may revoke those of this app only.
    if all(entry.key.key_id != given.key_id for entry in await admin.keys(app_id=given.app_id)):
        raise NotFound(f"{given.app_id} has no key {given.key_id}")
    return _describe_revoked(await admin.revoke(given.key_id))


@operation("keys.revoke_any", "POST", "/keys/revoke", "owner", scope="installation", secret_fields={"key"})
async def revoke_any_key(services: AdminServices, given: RevokeAnyKey) -> PlainResult:
    """Revoke a key that leaked, given by its id, its hint or its text.

    Errors:
        NotFound: no key in use matches
        Invalid: several keys match
    """
    return _describe_revoked(await app_admin(services).revoke(given.key))


def _describe_revoked(entry: KeyEntry) -> PlainResult:
    key = entry.key
    line = (
        f"The {key.kind} key {key.hint} of {key.app_id} is revoked. "
        f"`kiosk keys rotate {key.app_id} --kind {key.kind}` makes a new one."
    )
    return PlainResult({"revoked": True, **entry.to_dict()}, (line,))


def _kinds(text: str) -> tuple[KeyKind, ...]:
    if text == "both":
        return KINDS
    for kind in KINDS:
        if text == kind:
            return (kind,)
    raise Invalid(f"there is no kind of key called {text!r}; choose secret, publishable or both")
