"""Try the API: recommendations, searches, completions and questions, for one variant or two beside each other."""

from __future__ import annotations

import json
from typing import Any, Final

import orjson
from starlette.responses import Response

from cluster.errors import Invalid
from deployments.console.page import FormPage, NavigationEntry, Page
from deployments.console.request import ConsoleRequest, path_of

TRY = "/apps/{app_id}/try"
KINDS: Final = (
    "user_to_products",
    "product_to_products",
    "user_to_trending",
    "user_to_categories",
    "user_to_attributes",
    "user_to_history",
    "search",
    "complete",
    "ask",
)
_OPERATIONS: Final = {"search": "try.search", "complete": "try.complete", "ask": "try.ask"}
_SHOWN_FIELDS: Final = ["product_id", "title", "price"]


async def show_try(request: ConsoleRequest) -> Response:
    """Show the form."""
    return request.page("tryout/try.html", kinds=KINDS, address=path_of(TRY, app_id=request.app_id))


async def send_try(request: ConsoleRequest) -> Response:
    """Send the calls of the form and show the answers beside each other.

    Errors:
        Invalid: there is no such endpoint, or further parameters are no JSON object
    """
    form = request.form
    kind = form.get("kind", "user_to_products")
    if kind not in KINDS:
        raise Invalid("there is no such endpoint to try")
    sides = ("a", "b") if form.get("compare") == "on" else ("a",)
    arguments: dict[str, Any] = {"variants": [_body(kind, form, side) for side in sides]}
    if kind not in _OPERATIONS:
        arguments["kind"] = kind
        arguments["snapshots"] = [form.get(f"snapshot_{side}", "").strip() for side in sides]
    elif any(form.get(f"snapshot_{side}", "").strip() for side in sides):
        raise Invalid("a snapshot can be chosen for recommendations only")
    tried = await request.perform(_OPERATIONS.get(kind, "try.recommend"), **arguments)
    variants = [_describe(kind, variant) for variant in tried["variants"]]
    return request.fragment(
        "tryout/results.html",
        kind=kind,
        path=tried["path"],
        variants=variants,
        answer_address=path_of(TRY + "/answer", app_id=request.app_id),
    )


async def show_answer(request: ConsoleRequest) -> Response:
    """Show the present answer of a question; the page asks again until it is finished."""
    question_id = request.query.get("id", "")
    tried = await request.perform("try.answer", question_id=question_id)
    data = tried["answer"].get("data") or {}
    return request.fragment(
        "tryout/answer.html",
        answer=data,
        address=path_of(TRY + "/answer", app_id=request.app_id),
        question_id=question_id,
        is_open=data.get("finish_reason") == "not_finished",
    )


def _body(kind: str, form: dict[str, str], side: str) -> dict[str, Any]:
    """Return the body of one variant: the fields of the form, then its JSON, which wins."""
    body: dict[str, Any] = {}
    for name in ("user_id", "engine_id"):
        if value := form.get(f"{name}_{side}", "").strip():
            body[name] = value
    text = (form.get("q_b", "").strip() if side == "b" else "") or form.get("q", "").strip()
    if kind == "ask":
        body["question"] = text
        body.pop("engine_id", None)
    elif kind in ("search", "complete"):
        body["q"] = text or ("*" if kind == "search" else "")
    elif kind == "product_to_products":
        body["product_id"] = [part.strip() for part in text.split(",") if part.strip()]
    elif kind == "user_to_attributes":
        body["field"] = text or "brand"
    if kind not in ("ask", "complete"):
        body["fl"] = _SHOWN_FIELDS
        if form.get("fq", "").strip():
            body["fq"] = form["fq"].strip()
    if kind != "ask":
        rows = form.get("rows", "").strip()
        # "²" is a digit, but not in ASCII, and `int` refuses it.
        body["rows"] = int(rows) if rows.isascii() and rows.isdigit() else 10
    if kind == "search" and form.get("facets", "").strip():
        body["facets"] = [part.strip() for part in form["facets"].split(",") if part.strip()]
    return {**body, **_read_json(form.get(f"more_{side}", ""), side)}


def _read_json(text: str, side: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Invalid(f"further parameters of {side.upper()} are no JSON: {error.msg}") from None
    if not isinstance(value, dict):
        raise Invalid(f"further parameters of {side.upper()} must be a JSON object")
    return value


def _describe(kind: str, variant: dict[str, Any]) -> dict[str, Any]:
    """Return a variant with the parts of its answer that the page shows."""
    answer = variant["answer"] if isinstance(variant["answer"], dict) else {}
    data = answer.get("data") if isinstance(answer.get("data"), dict) else {}
    assert isinstance(data, dict)
    groups = [
        {
            "name": " > ".join(group["category"]) if "category" in group else str(group.get("value", "")),
            "total": group.get("total"),
            "products": group.get("recommended_products", []),
        }
        for group in data.get("categories") or data.get("attributes") or []
    ]
    facets = (data.get("facet_counts") or {}).get("facet_fields") or {}
    text = json.dumps(variant["answer"], ensure_ascii=False, indent=2)
    return {
        **variant,
        "text": text[:50_000],
        "groups": groups,
        "completions": data.get("completions") or {},
        "facets": facets,
        "total": data.get("total"),
        "question_id": data.get("question_id", "") if kind == "ask" else "",
    }


PAGES = (
    Page(TRY, show_try, role="analyst"),
    FormPage(TRY, send_try, role="analyst"),
    Page(TRY + "/answer", show_answer, role="analyst", example="-"),
)
NAVIGATION = (NavigationEntry("try.nav", TRY, role="analyst", icon="play"),)
