"""Use cases of terms: what machines may do with the articles of an archive, and where machines read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field, ValidationError

from cluster.errors import Conflict, Invalid, NotFound
from cluster.records.apps import App, find_archive_app
from cluster.records.archive.archive_terms import (
    MOST_TERMS,
    ArchiveTerms,
    express_preferences,
    find_fault,
    name_terms,
)
from cluster.records.archive.named_archive import mcp_path
from cluster.records.archive.rsl_document import format_link, licence_path, render_robots
from deployments.operations.access.apps import app_admin
from deployments.operations.framework.operation import OfApp, operation
from deployments.operations.framework.result_table import ResultLines, ResultTable
from deployments.operations.framework.services import AdminServices

_ANY_HOST = "https://your.host"
"Stands for the origin of an installation that names none."


class OfTerms(OfApp):
    """The terms of an archive, or those of articles with one licence."""

    licence: str = Field(
        "",
        max_length=200,
        description="Only for articles with this licence; empty: for all that have no terms by their licence.",
    )


class SetTerms(OfTerms):
    """Terms for machines; an absent one stays as it is."""

    permits: list[str] | None = Field(
        None,
        description="Uses that are allowed, and no other: all, ai-all, ai-train, ai-input, ai-index, search.",
    )
    prohibits: list[str] | None = Field(None, description="Uses that are forbidden, in the same words.")
    users: list[str] | None = Field(
        None, description="Only for these: commercial, non-commercial, education, government, personal."
    )
    not_users: list[str] | None = Field(None, description="Not for these, in the same words.")
    countries: list[str] | None = Field(None, description="Only in these countries, as DE,FR.")
    not_countries: list[str] | None = Field(None, description="Not in these countries.")
    payment: str | None = Field(
        None,
        description="Price: free, attribution, contribution, purchase, subscription, training, crawl or use.",
    )
    amount: str | None = Field(None, description="Amount of the price, as 0.015.")
    currency: str | None = Field(None, description="Its currency, as EUR.")
    standard: str | None = Field(None, description="Address of a common licence that the terms follow.")
    custom: str | None = Field(None, description="Address where machines' operators get a licence from you.")
    server: str | None = Field(
        None, description="Address of a licence server; without a licence from it, nothing is allowed."
    )
    contact: str | None = Field(
        None, description="Whom to ask: a web address, or mailto:licences@example.com."
    )
    warranties: list[str] | None = Field(
        None, description="You warrant: ownership, authority, no-infringement, privacy-consent, no-malware."
    )
    disclaimers: list[str] | None = Field(
        None, description="You exclude: as-is, no-warranty, no-liability, no-indemnity."
    )
    attested: bool | None = Field(None, description="Whether you declare to have the rights.")
    holder: str | None = Field(None, description="Who has the rights.")
    holder_type: str | None = Field(None, description="What the holder is: organization or person.")
    terms_url: str | None = Field(None, description="Address of the terms for people.")
    paths: list[str] | None = Field(
        None, description="Paths of these articles on your site, as in robots.txt; at first: /."
    )
    valid_days: int | None = Field(
        None, description="Days for which machines may keep the terms; at first 30."
    )


@dataclass(frozen=True, slots=True)
class DescribedTerms:
    """The terms of an archive, and where machines read them."""

    app_id: str
    resource: str
    "Address of the archive; empty while agents do not read the app."
    terms: Mapping[str, ArchiveTerms]

    @property
    def robots_txt(self) -> str:
        """Return the lines for robots.txt; empty without terms, and while agents do not read the app."""
        return render_robots(self.terms, self.resource + licence_path()) if self.resource else ""

    def to_dict(self) -> dict[str, Any]:
        """Return terms, addresses and lines as JSON."""
        entries = [
            {
                "name": name,
                "license_url": self._address(name),
                "link": format_link(self._address(name)) if self.resource else "",
                "content_usage": express_preferences(terms),
                "terms": terms.model_dump(mode="json"),
            }
            for name, terms in sorted(self.terms.items())
        ]
        return {"app_id": self.app_id, "terms": entries, "robots_txt": self.robots_txt}

    def to_lines(self) -> ResultLines:
        """Return a table of the terms, and the lines for robots.txt."""
        rows = [
            (
                name or "*",
                " ".join(terms.permits),
                " ".join(terms.prohibits),
                " ".join(filter(None, (terms.payment, terms.amount, terms.currency))),
                self._address(name),
            )
            for name, terms in sorted(self.terms.items())
        ]
        table = ResultTable(
            ("licence", "permits", "prohibits", "payment", "file"),
            rows,
            f"{self.app_id} has no terms that machines read.",
        )
        robots = self.robots_txt.splitlines()
        return (table, "", "Lines for the robots.txt of your site:", "", *robots) if robots else (table,)

    def _address(self, name: str) -> str:
        return self.resource + licence_path(name) if self.resource else ""


async def _describe(services: AdminServices, app: App) -> DescribedTerms:
    apps = (await services.stores.access.read_all()).apps
    origin = services.config.public_url or _ANY_HOST
    resource = ""
    if find_archive_app(apps, services.config.archive_app) == app.app_id:
        resource = origin + mcp_path()
    elif app.archive is not None:
        resource = origin + mcp_path(app.app_id)
    return DescribedTerms(app.app_id, resource, app.terms)


async def _read_terms(services: AdminServices, given: OfTerms) -> dict[str, Any] | None:
    terms = (await app_admin(services).app(given.app_id)).terms.get(name_terms(given.licence))
    return None if terms is None else terms.model_dump(mode="json")


_PATH = "/apps/{app_id}/archive/terms"


@operation("archive.terms", "GET", _PATH)
async def show_terms(services: AdminServices, given: OfApp) -> DescribedTerms:
    """Show the terms that machines read, their addresses, and the lines to add to robots.txt.

    Errors:
        NotFound: no such app
    """
    return await _describe(services, await app_admin(services).app(given.app_id))


@operation("archive.set_terms", "PUT", _PATH, "owner", read_before=_read_terms)
async def set_terms(services: AdminServices, given: SetTerms) -> DescribedTerms:
    """Set what machines may do with the articles of an archive, or with those of one licence.

    An empty argument keeps its value. To begin anew, remove the terms first. API replicas follow within a second.

    Errors:
        NotFound: no such app
        Invalid: a word or an address is none of RSL 1.0, the terms contradict themselves, or say nothing
        Conflict: too many licences have terms
    """
    app = await app_admin(services).app(given.app_id)
    name = name_terms(given.licence)
    if given.licence.strip() and not name:
        raise Invalid("the licence has no letter and no digit")
    before = app.terms.get(name) or ArchiveTerms()
    change = given.model_dump(exclude={"app_id", "licence"}, exclude_none=True)
    try:
        terms = ArchiveTerms.model_validate({**before.model_dump(), **change})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise Invalid(f"{first['loc'][0]}: {first['msg'].lower()}") from None
    fault = find_fault(terms)
    if fault:
        raise Invalid(fault)
    if name not in app.terms and len(app.terms) >= MOST_TERMS:
        raise Conflict(f"{MOST_TERMS} licences of {app.app_id} have terms; remove those of one first")
    return await _describe(
        services, await app_admin(services).set_archive_terms(app.app_id, {**app.terms, name: terms})
    )


@operation("archive.remove_terms", "DELETE", _PATH, "owner", read_before=_read_terms)
async def remove_terms(services: AdminServices, given: OfTerms) -> DescribedTerms:
    """Remove the terms of an archive, or those of articles with one licence.

    Errors:
        NotFound: no such app, or it has no such terms
    """
    app = await app_admin(services).app(given.app_id)
    name = name_terms(given.licence)
    if name not in app.terms:
        raise NotFound(f"{app.app_id} has no such terms; it has: {', '.join(app.terms) or 'none'}")
    left = {each: terms for each, terms in app.terms.items() if each != name}
    return await _describe(services, await app_admin(services).set_archive_terms(app.app_id, left))
