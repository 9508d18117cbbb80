"""The overview of the installation, live by polling."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from starlette.responses import Response

from deployments.console.page import NavigationEntry, Page
from deployments.console.pages.setup_checklist import START
from deployments.console.request import ConsoleRequest
from deployments.console.texts.console_texts import ConsoleTexts
from deployments.operations.insight.installation_checks import Finding

LIVE_S = 4.5
"Seconds for which all consoles get the same live part; they ask every five."
LEVEL_ORDER = ("ok", "warning", "bad")
LEVELS = {"ok": "good", "warning": "warn", "bad": "bad"}


async def show_overview(request: ConsoleRequest) -> Response:
    """Show how the installation is; people of a single app go on to that app."""
    roles = request.principal.roles
    if not request.principal.is_administrator and len(roles) == 1:
        (app_id,) = roles
        return request.redirect(START, app_id=app_id)
    return request.page("overview/overview.html", **await _read(request))


async def refresh_overview(request: ConsoleRequest) -> Response:
    """Return the live part of the page."""
    return await request.live_fragment("overview/live.html", partial(_read, request), LIVE_S)


def describe_findings(findings: Sequence[Finding], text: ConsoleTexts) -> list[dict[str, str]]:
    """Return what the checks found in the words of people who run a business, the worst first.

    Leases, schemas and files of the store are named only where something is wrong with them.
    """
    rows = []
    for finding in findings:
        area, _, name = finding.check.partition(" ")
        key = f"overview.component.{name}" if area == "lease" else f"overview.component.{finding.check}"
        label = text.texts.get(key.replace(" ", "_"), finding.check)
        plain = text.texts.get(
            f"overview.good.{'lease' if area == 'lease' else finding.check.replace(' ', '_')}"
        )
        words = (
            plain if plain and finding.level == "ok" else f"{finding.words}. {finding.advice}".rstrip(". ")
        )
        if area == "lease" and finding.level != "ok":
            words = text("overview.missing.lease")
        rows.append({"label": label, "level": finding.level, "words": words})
    return sorted(rows, key=lambda row: -LEVEL_ORDER.index(row["level"]))


async def _read(request: ConsoleRequest) -> dict[str, Any]:
    overview = await request.perform("overview.get")
    figures = overview.figures
    text = request.services.text
    total = sum(figures.served.values())
    charts = [
        {
            "label": text("overview.rate_chart"),
            "x": figures.times_s,
            "series": [{"label": text("overview.requests"), "values": figures.rates}],
            "height": 170,
        },
        {
            "label": text("overview.p99_chart"),
            "x": figures.times_s,
            "series": [{"label": text("overview.p99"), "values": figures.p99s_ms}],
            "height": 170,
            "unit": "ms",
        },
    ]
    return {
        "overview": overview,
        "figures": figures,
        "levels": LEVELS,
        "charts": charts,
        "served": [(name or "–", count, count / total) for name, count in figures.served.items()],
        "checks": describe_findings(overview.findings, text),
        "faults": [finding for finding in overview.findings if finding.level != "ok"],
        "now_ms": request.services.clock.now_ms(),
    }


PAGES = (
    Page("/", show_overview, role=None),
    Page("/live", refresh_overview, role=None, example="-"),
)
NAVIGATION = (NavigationEntry("overview.nav", "/", role=None, icon="gauge"),)
