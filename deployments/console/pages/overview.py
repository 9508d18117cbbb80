"""The overview of the installation, live by polling."""

from __future__ import annotations

from functools import partial
from typing import Any

from starlette.responses import Response

from deployments.console.page import NavigationEntry, Page
from deployments.console.request import ConsoleRequest

LIVE_S = 4.5
"Seconds for which all consoles get the same live part; they ask every five."
LEVELS = {"ok": "good", "warning": "warn", "bad": "bad"}


async def show_overview(request: ConsoleRequest) -> Response:
    """Show how the installation is."""
    return request.page("overview/overview.html", **await _read(request))


async def refresh_overview(request: ConsoleRequest) -> Response:
    """Return the live part of the page."""
    return await request.live_fragment("overview/live.html", partial(_read, request), LIVE_S)


async def _read(request: ConsoleRequest) -> dict[str, Any]:
    found = await request.perform("overview.get")
    figures, text = found.figures, request.services.text
    total = sum(figures.served.values())
    charts = [
        {"label": text("overview.rate_chart"), "x": figures.times_s, "series": [
            {"label": text("overview.requests"), "values": figures.rates}], "height": 170},
        {"label": text("overview.p99_chart"), "x": figures.times_s, "series": [
            {"label": text("overview.p99"), "values": figures.p99s_ms}], "height": 170, "unit": "ms"},
    ]  # fmt: skip
    return {
        "found": found, "figures": figures, "levels": LEVELS, "charts": charts,
        "served": [(name or "–", count, count / total) for name, count in figures.served.items()],
        "faults": [one for one in found.findings if one.level != "ok"], "now_ms": request.services.clock.now_ms(),
    }  # fmt: skip


PAGES = (
    Page("/", show_overview, role=None),
    Page("/live", refresh_overview, role=None, example="-"),
)
NAVIGATION = (NavigationEntry("overview.nav", "/", role=None, icon="gauge"),)
