"""All pages of the console, and its navigation in the order in which it is shown."""

from __future__ import annotations

from types import ModuleType

from deployments.console.page import NavigationEntry, Page
from deployments.console.pages import (
    apps,
    archive,
    audit,
    catalog,
    experiments,
    feeds,
    imports,
    installation_overview,
    interleaving,
    models,
    outcomes,
    question_experiments,
    rules,
    search,
    setup_checklist,
    trainings,
    tryout,
    users,
)
from deployments.console.pages.access import account, invitations, oidc_signin, people, signin, tokens

_AREAS: tuple[ModuleType, ...] = (
    signin,
    oidc_signin,
    installation_overview,
    setup_checklist,
    catalog,
    users,
    imports,
    feeds,
    tryout,
    models,
    trainings,
    experiments,
    interleaving,
    question_experiments,
    outcomes,
    rules,
    search,
    archive,
    apps,
    people,
    invitations,
    tokens,
    audit,
    account,
)
"One line an area: its module has `PAGES`, and `NAVIGATION` if it is in the navigation."

PAGES: tuple[Page, ...] = tuple(page for area in _AREAS for page in area.PAGES)
NAVIGATION: tuple[NavigationEntry, ...] = tuple(
    entry for area in _AREAS for entry in getattr(area, "NAVIGATION", ())
)
