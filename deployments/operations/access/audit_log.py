"""The audit log: pages of it, a check of its chain, and an export."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any

import orjson
from pydantic import Field

from cluster.clock import iso_ms
from cluster.records.administration import AuditRow
from cluster.store.administration.audit import AuditFilter
from cluster.store.administration.audit import AuditPage as StoredPage
from cluster.store.administration.audit_chain import AuditVerdict
from deployments.operations.framework.operation import Arguments, Download, operation
from deployments.operations.framework.result_table import ResultLines, ResultTable
from deployments.operations.framework.services import AdminServices


@dataclass(frozen=True, slots=True)
class AuditRows:
    """Rows of the audit log, the newest first, and the cursor of the older ones."""

    page: StoredPage

    def to_dict(self) -> dict[str, Any]:
        return {"rows": [row_to_dict(row) for row in self.page.rows], "next": self.page.next}

    def to_lines(self) -> ResultLines:
        """Return a table of the rows, and how to get older ones."""
        rows = [
            (
                iso_ms(row.at)[:19],
                row.username,
                row.way,
                row.operation,
                row.app_id,
                f"{row.outcome}: {row.reason}" if row.reason else row.outcome,
            )
            for row in self.page.rows
        ]
        table = ResultTable(
            ("when", "who", "way", "operation", "app", "outcome"),
            rows,
            "There are no such changes.",
            droppable=("way",),
        )
        return (table, f"Older ones: --cursor {self.page.next}") if self.page.next else (table,)


class ReadAudit(Arguments):
    """Arguments of `audit.list`."""

    operation: str = Field("", max_length=100, description="An operation, or an area such as `keys`.")
    username: str = Field("", max_length=64, description="Who did it.")
    app: str = Field("", max_length=64, description="Only changes of this app.")
    since: int = Field(0, ge=0, description="From this time on, in milliseconds since 1970.")
    until: int = Field(0, ge=0, description="Up to this time.")
    cursor: str = Field("", pattern=r"^(\d{1,19}-\d{1,19})?$", description="The `next` of the page before.")
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


@operation("audit.list", "GET", "/audit", "owner", scope="installation")
async def list_rows(services: AdminServices, given: ReadAudit) -> AuditRows:
    """List the changes by administrators and all other people, the newest first."""
    return await _page(services, given, given.app)


@operation("audit.list_of_app", "GET", "/apps/{app_id}/audit", "owner")
async def list_rows_of_app(services: AdminServices, given: ReadAppAudit) -> AuditRows:
    """List the changes of one app, the newest first."""
    return await _page(services, given, given.app_id)


@operation("audit.verify", "GET", "/audit/verify", "owner", scope="installation")
async def verify_audit(services: AdminServices, given: VerifyAudit) -> AuditVerdict:
    """Check that no row of the audit log was changed, removed or inserted.

    Cost: about 10 s for 1,000,000 rows.
    """
    await _add_begun(services)
    verdict = await services.stores.audit.verify(given.since_chain)
    # An empty chain has no break, so a log that was deleted as a whole would pass.
    if verdict.is_whole and not verdict.rows and await services.stores.accounts.all():
        return replace(verdict, broken_at="0-0", reason="there are accounts, but the log has no row")
    return verdict


@operation(
    "audit.export",
    "GET",
    "/audit/export",
    "owner",
    scope="installation",
    media_type="application/x-ndjson",
    recorded=True,
)
async def export_audit(services: AdminServices, _: Arguments) -> Download:
    """Export the audit log as JSON Lines, the oldest row first."""
    await _add_begun(services)
    return Download(_lines(services), "audit.jsonl")


async def _page(services: AdminServices, given: ReadAudit, app_id: str) -> AuditRows:
    await _add_begun(services)
    audit_filter = AuditFilter(app_id, given.operation, given.username.lower(), given.since, given.until)
    return AuditRows(await services.stores.audit.page(audit_filter, before=given.cursor, limit=given.limit))


async def _add_begun(services: AdminServices) -> None:
    """Give a row to each change that was begun long ago and has no end, and to each that needs no end.

    A process without the key of the log notes what it did as begun, and the next reader proves the row.
    """
    audit = services.stores.audit
    before_ms = services.now_ms() - MOST_TAKEN_MS
    for begun_id, row in await audit.begun():
        if row.at < before_ms or row.outcome != "begun":
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
