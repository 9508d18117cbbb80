"""The overview of the installation."""

from __future__ import annotations

from starlette.responses import Response

from deployments.console.page import NavigationEntry, Page
from deployments.console.request import ConsoleRequest


async def show_overview(request: ConsoleRequest) -> Response:
    """Show how the installation is."""
    return request.page("overview/overview.html")


PAGES = (Page("/", show_overview, role=None),)
NAVIGATION = (NavigationEntry("overview.nav", "/", role=None, icon="gauge"),)
