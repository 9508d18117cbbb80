"""Pages of the archive: which agents read what and for which skills, rules for clients, connected applications."""

from __future__ import annotations

import asyncio
from typing import Any, get_args

from starlette.responses import Response

from cluster.errors import Invalid, NotFound
from cluster.records.archive.archive_client import DEFAULT_CALLS_PER_MINUTE
from cluster.records.field_types.times import moment_ms
from deployments.console.argument_form import list_inputs, operation_page
from deployments.console.page import FormPage, NavigationEntry, Page
from deployments.console.renderer import file_response
from deployments.console.request import ConsoleRequest
from deployments.operations.access.archive_terms import SetTerms
from deployments.operations.access.archives import OpenArchive
from deployments.operations.framework.operation import Download
from deployments.operations.insight.archive.readership import MEDIA_TYPES, Breakdown
from deployments.operations.insight.archive.usage_report import ArchiveReport

ARCHIVE = "/apps/{app_id}/archive"
_IN_ADDRESS = frozenset({"app_id"})
SPANS = ("24h", "7d", "30d", "90d")
PARTS = ("agent", "skill", "tool", "article")
"Parts of the report that are tables of the page."
VERBS = {
    "allow": "archive.allow_done",
    "deny": "archive.deny_done",
    "rate": "archive.rate_done",
    "forget": "archive.forget_done",
}
"What may happen to a client -> text of the notice."


async def show_archive(request: ConsoleRequest) -> Response:
    """Show the archive's use, its clients and connected applications."""
    since = _read_span(request)
    clients, choice, terms, connections, named, report = await asyncio.gather(
        request.perform("clients.list"),
        request.perform("archive.app"),
        request.perform("archive.terms"),
        _load_or_none(request, "connections.list"),
        _load_or_none(request, "archive.show"),
        _load_report(request, since),
    )
    return request.page(
        "archive/archive.html",
        clients=clients,
        report=report,
        since=since,
        spans=SPANS,
        connections=connections,
        read_app=choice.app_id,
        named=named,
        parts=PARTS,
        named_inputs=list_inputs(OpenArchive, named and named.archive, exclude=_IN_ADDRESS),
        terms=terms,
        terms_inputs=list_inputs(SetTerms, terms.terms.get(""), exclude=_IN_ADDRESS),
        seen=clients.seen[:50],
        default_rate=DEFAULT_CALLS_PER_MINUTE,
        chart=None if report is None else _days_chart(request, report),
    )


async def download_report(request: ConsoleRequest) -> Response:
    """Return one part of the report as a file."""
    by = request.query.get("by", "")
    form = request.query.get("form", "")
    by = by if by in get_args(Breakdown) else "agent"
    form = form if form in MEDIA_TYPES else "csv"
    download: Download = await request.perform("archive.export", since=_read_span(request), by=by, form=form)
    body = b"".join([chunk async for chunk in download.chunks])
    return file_response(body, f"archive-{by}.{form}", MEDIA_TYPES[form])


async def change_client(request: ConsoleRequest) -> Response:
    """Allow, refuse, slow down or forget a client.

    Errors:
        Invalid: the form names no change, or no number
    """
    verb = request.form.get("verb", "")
    client = request.form.get("client", "").strip()
    if verb not in VERBS:
        raise Invalid("choose what is to happen to the client")
    more: dict[str, Any] = {}
    if verb == "rate":
        try:
            more["calls_per_minute"] = float(request.form.get("calls_per_minute", "").strip()[:40])
        except ValueError:
            raise Invalid("calls per minute have to be a number") from None
    await request.perform(f"clients.{verb}", client=client, **more)
    return request.redirect(ARCHIVE, VERBS[verb], client=client)


async def close_address(request: ConsoleRequest) -> Response:
    """Take the address of this app's archive away."""
    closed = await request.perform("archive.close")
    return request.redirect(ARCHIVE, "archive.closed", count=closed.facts["ended"])


async def disconnect(request: ConsoleRequest) -> Response:
    """Disconnect an application."""
    ended = await request.perform("connections.end", client_id=request.form.get("client_id", ""))
    return request.redirect(ARCHIVE, "archive.disconnected", count=ended.facts["ended"])


def _read_span(request: ConsoleRequest) -> str:
    since = request.query.get("since", "30d")
    return since if since in SPANS else "30d"


async def _load_report(request: ConsoleRequest, since: str) -> ArchiveReport | None:
    """Return the report; None for those who may not read questions."""
    if not request.may("analyst"):
        return None
    report: ArchiveReport = await request.perform("archive.report", since=since, top=20)
    return report


async def _load_or_none(request: ConsoleRequest, name: str) -> Any:
    """Return the result of an operation of the app; None if the app has no such archive."""
    try:
        return await request.perform(name)
    except NotFound:
        return None


def _days_chart(request: ConsoleRequest, report: ArchiveReport) -> dict[str, Any] | None:
    days = report.days[-60:]
    if not days:
        return None
    return {
        "label": request.services.text("archive.by_day"),
        "x": [moment_ms(f"{day}T00:00") // 1000 for day, _ in days],
        "series": [
            {
                "label": request.services.text("archive.calls"),
                "values": [calls for _, calls in days],
                "kind": "bars",
            }
        ],
        "time": True,
    }


PAGES = (
    Page(ARCHIVE, show_archive),
    Page(ARCHIVE + "/file", download_report, role="analyst", example="-"),
    FormPage(ARCHIVE + "/clients", change_client, role="owner", shown_on=ARCHIVE),
    operation_page(ARCHIVE + "/choose", "archive.choose", ARCHIVE, "archive.chosen", role="owner"),
    operation_page(ARCHIVE + "/open", "archive.open", ARCHIVE, "archive.opened", role="owner"),
    FormPage(ARCHIVE + "/close", close_address, role="owner", shown_on=ARCHIVE),
    operation_page(ARCHIVE + "/terms", "archive.set_terms", ARCHIVE, "archive.terms_saved", role="owner"),
    operation_page(
        ARCHIVE + "/remove-terms", "archive.remove_terms", ARCHIVE, "archive.terms_removed", role="owner"
    ),
    FormPage(ARCHIVE + "/disconnect", disconnect, role="owner", shown_on=ARCHIVE),
)
NAVIGATION = (NavigationEntry("archive.nav", ARCHIVE, icon="archive"),)
