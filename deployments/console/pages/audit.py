"""The audit log: rows with filters, and the export."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response, StreamingResponse

from deployments.console.page import NavigationEntry, Page
from deployments.console.renderer import PAGE_HEADERS
from deployments.console.request import ConsoleRequest, path_of

PER_PAGE = 50
LONGEST_SHOWN = 4_000
DAY_MS = 86_400_000
FILTERS = ("operation", "username", "app", "since", "until")


async def show_audit(request: ConsoleRequest) -> Response:
    """List rows of the whole installation."""
    return await _show(request, "audit.list", "/audit")


async def show_audit_of_app(request: ConsoleRequest) -> Response:
    """List rows of one app."""
    return await _show(request, "audit.list_of_app", "/apps/{app_id}/audit")


async def export_audit(request: ConsoleRequest) -> Response:
    """Send all rows as JSON Lines."""
    export = await request.perform("audit.export")
    headers = {**PAGE_HEADERS, "content-disposition": f'attachment; filename="{export.filename}"'}
    return StreamingResponse(export.chunks, headers=headers, media_type="application/x-ndjson")


async def _show(request: ConsoleRequest, operation: str, pattern: str) -> Response:
    filters = {name: request.query.get(name, "").strip() for name in FILTERS}
    arguments: dict[str, Any] = {
        "operation": filters["operation"],
        "username": filters["username"],
        "limit": PER_PAGE,
        "cursor": request.query.get("cursor", ""),
        "since": day_ms(filters["since"]),
        "until": day_ms(filters["until"], end=True),
    }
    arguments |= {"app_id": request.app_id} if request.app_id else {"app": filters["app"]}
    rows = (await request.perform(operation, **arguments)).to_dict()
    address = path_of(pattern, app_id=request.app_id)
    kept = {name: value for name, value in filters.items() if value}
    older = f"{address}?{urlencode({**kept, 'cursor': rows['next']})}" if rows["next"] else ""
    first = f"{address}?{urlencode(kept)}" if request.query.get("cursor") else ""
    return request.page(
        "access/audit.html",
        rows=[_readable(row) for row in rows["rows"]],
        audit_filter=filters,
        address=address,
        older=older,
        first=first,
    )


def day_ms(text: str, *, end: bool = False) -> int:
    """Return the begin or the end of a day in milliseconds since 1970; 0 for an empty or wrong text."""
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=timezone.utc)
        at = int(day.timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0
    return max(at + (DAY_MS - 1 if end else 0), 0)


def _readable(row: dict[str, Any]) -> dict[str, Any]:
    details = {
        name: row[name] for name in ("arguments", "before", "after") if row[name] not in (None, {}, [])
    }
    shown = {
        name: json.dumps(value, ensure_ascii=False, indent=1)[:LONGEST_SHOWN]
        for name, value in details.items()
    }
    return {**row, "details": shown}


PAGES = (
    Page("/audit", show_audit, role="owner"),
    Page("/audit/export", export_audit, role="owner", example="-"),
    Page("/apps/{app_id}/audit", show_audit_of_app, role="owner"),
)
NAVIGATION = (
    NavigationEntry("audit.nav", "/audit", role="owner", icon="list"),
    NavigationEntry("audit.app_nav", "/apps/{app_id}/audit", role="owner", icon="list"),
)
