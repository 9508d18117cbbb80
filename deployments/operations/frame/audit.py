"""The audit log: pages of it, a check of its chain, an export; and who the principal is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import orjson
from pydantic import Field

from cluster.records.administration import AuditRow
from cluster.store.administration.audit import AuditFilter
from cluster.store.administration.audit import AuditPage as StoredPage
from cluster.store.administration.audit_chain import AuditVerdict
from deployments.operations.frame.operation import Arguments, Download, Operation
from deployments.operations.frame.services import AdminServices


@dataclass(frozen=True, slots=True)
class AuditRows:
    """Rows of the audit log, the newest first, and the cursor of the older ones."""

    page: StoredPage

    def to_dict(self) -> dict[str, Any]:
        """Return the rows for JSON."""
        return {"rows": [row_to_dict(row) for row in self.page.rows], "next": self.page.next}


@dataclass(frozen=True, slots=True)
class Me:
    """Who the principal is and what that person may do."""

    facts: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the person for JSON."""
        return self.facts


class ReadAudit(Arguments):
    """Arguments of `audit.list`."""

    operation: str = Field("", max_length=100, description="An operation, or an area such as `keys`.")
    username: str = Field("", max_length=64, description="Who did it.")
    app: str = Field("", max_length=64, description="Only changes of this app.")
    since: int = Field(0, ge=0, description="From this time on, in milliseconds since 1970.")
    until: int = Field(0, ge=0, description="Up to this time.")
    cursor: str = Field("", pattern=r"^(\d{1,20}-\d{1,20})?$", description="The `next` of the page before.")
    limit: int = Field(100, ge=1, le=1000)


class VerifyAudit(Arguments):
    """Arguments of `audit.verify`."""

    since_chain: str = Field(
        "",
        pattern=r"^([0-9a-f]{64})?$",
        description="Chain of a row that was noted elsewhere; the log must have it.",
    )


class ReadAppAudit(ReadAudit):
    """Arguments of `audit.list_of_app`."""

    app_id: str


def row_to_dict(row: AuditRow) -> dict[str, Any]:
    """Return a row for JSON."""
    return row.model_dump(mode="json")


async def list_rows(services: AdminServices, given: ReadAudit) -> AuditRows:
    """Return rows of the audit log, the newest first."""
    return await _page(services, given, given.app)


async def list_rows_of_app(services: AdminServices, given: ReadAppAudit) -> AuditRows:
    """Return rows of one app, the newest first."""
    return await _page(services, given, given.app_id)


async def verify_audit(services: AdminServices, given: VerifyAudit) -> AuditVerdict:
    """Check the chain and the proofs of all rows. Cost: about 10 s for 1,000,000 rows."""
    await _add_begun(services)
    verdict = await services.stores.audit.verify(given.since_chain)
    if verdict.is_whole and not verdict.rows and await services.stores.accounts.all():
        return replace(verdict, broken_at="0-0", reason="there are accounts, but the log has no row")
    return verdict


async def export_audit(services: AdminServices, _: Arguments) -> Download:
    """Return all rows, the oldest first, as they are read."""
    await _add_begun(services)
    return Download(_lines(services), "audit.jsonl")


async def read_me(services: AdminServices, _: Arguments) -> Me:
    """Return the name, the way and the roles of the principal."""
    principal = services.principal
    return Me(
        {
            "username": principal.username,
            "user_id": principal.user_id,
            "way": principal.way,
            "administrator": principal.may("owner", ""),
            "roles": {app_id: principal.role_in(app_id) for app_id in principal.app_ids or ()},
            "ceiling": principal.ceiling,
            "apps": list(principal.apps),
            "expires_at": principal.expires_at,
        }
    )


async def _page(services: AdminServices, given: ReadAudit, app_id: str) -> AuditRows:
    await _add_begun(services)
    audit_filter = AuditFilter(app_id, given.operation, given.username.lower(), given.since, given.until)
    return AuditRows(await services.stores.audit.page(audit_filter, before=given.cursor, limit=given.limit))


async def _add_begun(services: AdminServices) -> None:
    """Give a row to each change that was begun long ago and has no end."""
    audit, before_ms = services.stores.audit, services.now_ms() - MOST_TAKEN_MS
    for begun_id, row in await audit.begun():
        if row.at < before_ms:
            await audit.append(row, begun_id=begun_id, only_begun=True)


_CHUNK_BYTES = 64_000
MOST_TAKEN_MS = 600_000
"Age of a change without an end from which on the log shows it; a longer one gets a second row at its end."


async def _lines(services: AdminServices) -> AsyncIterator[bytes]:
    chunk = bytearray()
    async for row in services.stores.audit.rows():
        chunk += orjson.dumps(row_to_dict(row)) + b"\n"
        if len(chunk) > _CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
    yield bytes(chunk)


_ROW = {
    "row_id": "1760000000000-0", "at": 1_760_000_000_000, "user_id": "usr-1f0c5d2a9b3e4d5f", "username": "ada",
    "way": "console", "address": "192.0.2.1", "operation": "keys.rotate", "app_id": "bookshop", "outcome": "done",
    "reason": "", "arguments": {"app_id": "bookshop", "kind": "secret"}, "before": None,
    "after": {"app_id": "bookshop", "secret_key": "***"}, "chain": "9f2b...", "proof": "04c1...",
}  # fmt: skip

OPERATIONS = (
    Operation(
        "audit.list", "List the changes by administrators and all other people, the newest first.", "owner", "GET",
        "/audit", ReadAudit, list_rows, scope="installation", example={"operation": "keys", "limit": 100},
        example_result={"rows": [_ROW], "next": ""},
    ),
    Operation(
        "audit.list_of_app", "List the changes of one app, the newest first.", "owner", "GET", "/apps/{app_id}/audit",
        ReadAppAudit, list_rows_of_app, example={"app_id": "bookshop", "limit": 100},
        example_result={"rows": [_ROW], "next": ""},
    ),
    Operation(
        "audit.verify", "Check that no row of the audit log was changed, removed or inserted.", "owner", "GET",
        "/audit/verify", VerifyAudit, verify_audit, scope="installation",
        example_result={
            "whole": True, "rows": 1204, "first_id": "1750000000000-0", "last_id": "1760000000000-0",
            "chain": "9f2b...", "broken_at": "", "reason": "", "proven_from": "1750000000000-0", "since_rows": 0,
            "faults": "",
        },
    ),
    Operation(
        "audit.export", "Export the audit log as JSON Lines, the oldest row first.", "owner", "GET", "/audit/export",
        Arguments, export_audit, scope="installation", media_type="application/x-ndjson", recorded=True,
    ),
    Operation(
        "me.get", "Show who you are here and what you may do.", "viewer", "GET", "/me", Arguments, read_me,
        scope="person",
        example_result={
            "username": "ada", "user_id": "usr-1f0c5d2a9b3e4d5f", "way": "token", "administrator": False,
            "roles": {"bookshop": "editor"}, "ceiling": "owner", "apps": [], "expires_at": 1_767_776_000_000,
        },
    ),
)  # fmt: skip
