"""The catalog of an app: search and browse, and one product from all sides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from math import isfinite
from typing import Any
from urllib.parse import urlencode

from starlette.responses import Response

from cluster.errors import Invalid, KioskError
from deployments.console.page import FormPage, NavigationEntry, Page
from deployments.console.request import ConsoleRequest, path_of

CATALOG = "/apps/{app_id}/catalog"
PRODUCT = CATALOG + "/product"
ROWS = 25
_PRICES = ("price", "sale_price")
_EDITED = (
    "title",
    *_PRICES,
    "availability",
    "type",
    "brand",
    "url",
    "cover_image",
    "description",
    "corrected_at",
    "correction_note",
)
"Fields of a product that the form has inputs for."
DAYS = 30
WEEK = 7


async def show_catalog(request: ConsoleRequest) -> Response:
    """Show products: those that a search finds, else all by id."""
    q = request.query.get("q", "").strip()
    fq = request.query.get("fq", "").strip()
    if q or fq:
        return await _search(request, q, fq)
    after = request.query.get("after", "")
    page = await request.perform(
        "catalog.list", prefix=request.query.get("prefix", ""), after=after, limit=ROWS
    )
    older = _address(request, after=page["next"], prefix=request.query.get("prefix", ""))
    return request.page(
        "catalog/catalog.html",
        products=page["products"],
        total=page["total"],
        older=older if page["next"] else "",
        newer=_address(request) if after else "",
        warnings=[],
        refused="",
    )


async def _search(request: ConsoleRequest, q: str, fq: str) -> Response:
    offset = _number(request.query.get("offset", ""))
    refused = ""
    page = dict[str, Any](products=[], total=0, warnings=[])
    try:
        page = await request.perform("catalog.search", q=q or "*", fq=fq, limit=ROWS, offset=offset)
    except KioskError as error:
        refused = error.message
    more = offset + ROWS < page["total"]
    return request.page(
        "catalog/catalog.html",
        products=page["products"],
        total=page["total"],
        refused=refused,
        older=_address(request, q=q, fq=fq, offset=offset + ROWS) if more else "",
        newer=_address(request, q=q, fq=fq, offset=max(0, offset - ROWS)) if offset else "",
        warnings=[warning.get("message", "") for warning in page.get("warnings") or ()],
    )


async def show_product(request: ConsoleRequest) -> Response:
    """Show one product: its record and the words under which search finds it."""
    product_id = request.query.get("id", "") or request.form.get("product_id", "")
    view = await request.perform("catalog.get", product_id=product_id)
    parts = urlencode({"id": product_id})
    return request.page(
        "catalog/product.html",
        product=view.product,
        product_id=product_id,
        words=view.words,
        languages=view.languages,
        record=json.dumps(view.product, ensure_ascii=False, indent=2),
        parts=parts,
        address=path_of(PRODUCT, app_id=request.app_id),
    )


async def show_new_product(request: ConsoleRequest) -> Response:
    """Show the form of a new product."""
    return request.page("catalog/new.html", product={"title": request.query.get("title", "")[:10_000]})


async def save_product(request: ConsoleRequest) -> Response:
    """Change the fields of a product that the form has, or add a product."""
    product_id = request.form.get("product_id", "").strip()
    is_new = request.raw.url.path.endswith("/new")
    await request.perform(
        "catalog.edit", product_id=product_id, fields=product_fields(request.form), is_new=is_new
    )
    address = CATALOG if is_new else PRODUCT + "?" + urlencode({"id": product_id})
    return request.redirect(address, "catalog.saved", product_id=product_id)


def product_fields(form: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a product that a form sent; None removes one.

    Errors:
        Invalid: a price can't be read
    """
    texts = {name: form[name].strip() for name in _EDITED if name in form}
    fields: dict[str, Any] = {name: text or None for name, text in texts.items()}
    for name in _PRICES:
        if fields.get(name) is not None:
            fields[name] = _read_price(fields[name], name)
    return fields


def _read_price(text: str, name: str) -> float:
    try:
        price = float(text[:40])
    except ValueError:
        price = float("nan")
    if not isfinite(price):
        raise Invalid(f"{name}: {text[:40]!r} is no number")
    return int(price) if price.is_integer() else price


async def show_related(request: ConsoleRequest) -> Response:
    """Show what goes with a product, with reasons, and questions it answers."""
    related = await request.perform("catalog.relate", product_id=request.query.get("id", ""), limit=8)
    return request.fragment("catalog/related.html", related=related)


async def show_outcomes(request: ConsoleRequest) -> Response:
    """Show what happened to a product day by day."""
    outcomes = await request.perform("catalog.outcomes", product_id=request.query.get("id", ""), days=DAYS)
    kinds = list(outcomes["by_type"])[:5]
    spec = {
        "label": request.services.text("catalog.outcomes_chart", days=DAYS),
        "x": [_seconds(day["day"]) for day in outcomes["days"]],
        "series": [
            {"label": kind, "values": [day["counts"].get(kind, 0) for day in outcomes["days"]]}
            for kind in kinds
        ],
        "time": True,
    }
    return request.fragment(
        "catalog/outcomes.html",
        outcomes=outcomes,
        spec=spec if kinds else None,
        weeks=_compare_weeks(outcomes),
    )


def _compare_weeks(outcomes: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    """Return each type of interaction with its counts of the last seven days and of the seven days before."""
    days = [day["counts"] for day in outcomes["days"][-2 * WEEK :]]
    return [
        (
            kind,
            sum(counts.get(kind, 0) for counts in days[-WEEK:]),
            sum(counts.get(kind, 0) for counts in days[:-WEEK]),
        )
        for kind in outcomes["by_type"]
    ]


def _address(request: ConsoleRequest, **query: Any) -> str:
    given = {name: value for name, value in query.items() if value not in ("", None)}
    return path_of(CATALOG, app_id=request.app_id) + (f"?{urlencode(given)}" if given else "")


def _number(text: str) -> int:
    return min(int(text), 100_000) if text.isascii() and text.isdigit() else 0


def _seconds(day: str) -> int:
    return int(datetime.fromisoformat(day).replace(tzinfo=timezone.utc).timestamp())


PAGES = (
    Page(CATALOG, show_catalog),
    Page(PRODUCT, show_product, example="-"),
    FormPage(PRODUCT, save_product, role="editor"),
    Page(CATALOG + "/new", show_new_product, role="editor"),
    FormPage(CATALOG + "/new", save_product, role="editor"),
    Page(PRODUCT + "/related", show_related, example="-"),
    Page(PRODUCT + "/outcomes", show_outcomes, example="-"),
)
NAVIGATION = (NavigationEntry("catalog.nav", CATALOG, icon="box"),)
