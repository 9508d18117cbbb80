"""Use cases to try the API: the same call for one or two variants side by side, with reasons and text to copy."""

from __future__ import annotations

import asyncio
import json
import pprint
import shlex
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, Literal
from urllib.parse import quote

from pydantic import Field

from actors.serving.client import PREVIEW, Preview
from cluster.ids import DEFAULT_ENGINE
from deployments.operations.content.catalog import explained_products
from deployments.operations.framework.operation import OfApp, operation
from deployments.operations.framework.rest_client import error_from_answer
from deployments.operations.framework.services import AdminServices
from deployments.operations.insight.explanations import describe_missing, describe_rules
from deployments.operations.models.engines import find_engine
from deployments.operations.models.snapshot_bounds import SnapshotName
from deployments.operations.models.snapshot_comparison import reserve_snapshots
from deployments.operations.models.snapshots import find_version

ADDRESS = "http://localhost:8080"
KEY = "YOUR_SECRET_KEY"


def render_snippets(
    method: str, path: str, body: Mapping[str, Any] | None, *, address: str = ADDRESS, edge: str = ""
) -> dict[str, str]:
    """Return language -> program that sends the call. Any text of the body stays data in all three.

    `edge` is the address for browsers; empty: `address`.
    """
    url = address.rstrip("/") + path
    return {
        "curl": _render_curl(method, url, body),
        "python": _render_python(method, url, body),
        "javascript": _render_javascript(method, (edge or address).rstrip("/") + path, body),
    }


def _render_curl(method: str, url: str, body: Mapping[str, Any] | None) -> str:
    lines = [f"curl -X {method} {shlex.quote(url)}", f"-H {shlex.quote('X-API-KEY: ' + KEY)}"]
    if body is not None:
        text = json.dumps(body, ensure_ascii=False, indent=2)
        lines += [f"-H {shlex.quote('Content-Type: application/json')}", f"-d {shlex.quote(text)}"]
    return " \\\n  ".join(lines)


def _render_python(method: str, url: str, body: Mapping[str, Any] | None) -> str:
    more = (
        ""
        if body is None
        else f",\n    json={_indent(pprint.pformat(dict(body), width=76, sort_dicts=False))}"
    )
    return (
        "import httpx\n\n"
        f"answer = httpx.request(\n    {method!r},\n    {url!r},\n"
        f"    headers={{'X-API-KEY': {KEY!r}}}{more},\n)\nprint(answer.json())"
    )


def _indent(text: str) -> str:
    return text.replace("\n", "\n    ")


def _render_javascript(method: str, url: str, body: Mapping[str, Any] | None) -> str:
    # `</` would end a script element if somebody put the program into a page.
    text = "" if body is None else json.dumps(body, ensure_ascii=False, indent=2).replace("</", "<\\/")
    more = "" if body is None else f",\n  body: JSON.stringify({text.replace(chr(10), chr(10) + '  ')})"
    return (
        f"const answer = await fetch({json.dumps(url)}, {{\n  method: {json.dumps(method)},\n"
        f'  headers: {{"X-API-KEY": {json.dumps(KEY)}, "Content-Type": "application/json"}}{more},\n'
        "});\nconsole.log(await answer.json());"
    )


MOST_VARIANTS = 2
RecommendationKind = Literal[
    "user_to_products",
    "user_to_trending",
    "user_to_categories",
    "user_to_attributes",
    "user_to_history",
    "product_to_products",
]
Body = dict[str, Any]
_Version = Annotated[str, Field(max_length=64)]


class TryCall(OfApp):
    """One or two bodies, as the public API takes them."""

    variants: Annotated[list[Body], Field(min_length=1, max_length=MOST_VARIANTS)]


class TryRecommendation(TryCall):
    """A recommendation endpoint and its bodies."""

    kind: RecommendationKind = Field("user_to_products", description="The endpoint.")
    snapshots: Annotated[list[_Version], Field(max_length=MOST_VARIANTS)] = Field(
        default_factory=list,
        description="Version, or its start, that answers each variant; empty: what serves, without experiments.",
    )


class TryAnswer(OfApp):
    """A question that was asked."""

    question_id: str = Field(min_length=1, max_length=64)


@dataclass(frozen=True, slots=True)
class TriedCall:
    """What one variant became."""

    status: int
    took_ms: float
    "Milliseconds inside this process, without the network."
    answer: Any
    error: str = ""
    products: tuple[dict[str, Any], ...] = ()
    "Products of the answer with `why` in place of `_explain`."
    served_by: str = ""
    snapshot: str = ""
    "The version that answered, if one was chosen."
    rules: tuple[str, ...] = ()
    missing: tuple[dict[str, Any], ...] = ()
    "Products that the body asked about, with sentences."
    snippets: dict[str, str] = field(default_factory=dict)
    "Language -> the same call as a program; the key is a placeholder."


@operation("try.recommend", "POST", "/apps/{app_id}/try/recommend", "analyst", is_query=True)
async def try_recommendation(services: AdminServices, given: TryRecommendation) -> dict[str, Any]:
    """Try a recommendation for one or two variants.

    Errors:
        NotFound, Conflict: no version of the engine begins with the text, or several do
        TooMany, Unavailable: too many snapshots are loaded beside those that serve, or memory is short
    """
    path = f"/v1/recommendation/{given.kind}"
    bodies = [{"explain": True, **body} for body in given.variants]
    if not any(given.snapshots):
        return await _try_all(services, given.app_id, path, bodies)
    starts = [*given.snapshots, *[""] * len(bodies)]
    chosen = [
        await _choose_snapshot(services, given.app_id, body, start)
        for body, start in zip(bodies, starts, strict=False)
    ]
    await reserve_snapshots(services, {variant for variant in chosen if variant[2]})
    tried = await asyncio.gather(
        *(
            _try_version(services, given.app_id, path, {**body, "explain": True}, version)
            for body, (_, _, version) in zip(bodies, chosen, strict=True)
        )
    )
    return {"path": path, "variants": [asdict(variant) for variant in tried]}


async def _choose_snapshot(services: AdminServices, app_id: str, body: Body, start: str) -> SnapshotName:
    """Return the version that answers a body; an empty one is what serves."""
    engine_id = str(body.get("engine_id") or DEFAULT_ENGINE)
    if not start:
        return app_id, engine_id, ""
    serving = (await find_engine(services.stores, app_id, engine_id)).snapshot
    version = await asyncio.to_thread(find_version, services.artifacts, app_id, engine_id, start)
    return app_id, engine_id, "" if version == serving else version


async def _try_version(
    services: AdminServices, app_id: str, path: str, body: Body, version: str
) -> TriedCall:
    """Send a query that a version answers. Await it in a task of its own."""
    token = PREVIEW.set(Preview(snapshot=version))
    try:
        tried = await _try_one(services, app_id, "POST", path, body)
    finally:
        PREVIEW.reset(token)
    if version and tried.status < 400 and tried.snapshot != version:
        # The engine answers from what serves if it refuses a version.
        return replace(tried, error=f"snapshot {version} can't be used; `kiosk doctor` says why", products=())
    return tried


@operation("try.search", "POST", "/apps/{app_id}/try/search", "analyst", is_query=True)
async def try_search(services: AdminServices, given: TryCall) -> dict[str, Any]:
    """Try a search for one or two variants."""
    return await _try_all(services, given.app_id, "/v1/search/search", given.variants)


@operation("try.complete", "POST", "/apps/{app_id}/try/complete", "analyst", is_query=True)
async def try_completion(services: AdminServices, given: TryCall) -> dict[str, Any]:
    """Try completions for one or two variants."""
    return await _try_all(services, given.app_id, "/v1/search/autocomplete", given.variants)


@operation("try.ask", "POST", "/apps/{app_id}/try/ask", "analyst", is_query=True)
async def try_question(services: AdminServices, given: TryCall) -> dict[str, Any]:
    """Ask a question for one or two variants.

    `try.answer` shows how their answers grow.
    """
    bodies = [{"log_user_history": False, **body} for body in given.variants]
    return await _try_all(services, given.app_id, "/v1/ask/questions", bodies)


@operation("try.answer", "GET", "/apps/{app_id}/try/answers/{question_id}", "analyst")
async def try_answer(services: AdminServices, given: TryAnswer) -> dict[str, Any]:
    """Show the present answer of a question that was tried."""
    path = f"/v1/ask/questions/{quote(given.question_id, safe='')}/answer"
    tried = await _try_one(services, given.app_id, "GET", path, None)
    if tried.status >= 400:
        raise error_from_answer(tried.status, tried.answer)
    return asdict(tried)


async def _try_all(services: AdminServices, app_id: str, path: str, bodies: list[Body]) -> dict[str, Any]:
    tried = await asyncio.gather(*(_try_one(services, app_id, "POST", path, body) for body in bodies))
    return {"path": path, "variants": [asdict(variant) for variant in tried]}


async def _try_one(
    services: AdminServices, app_id: str, method: str, path: str, body: Mapping[str, Any] | None
) -> TriedCall:
    begun_s = time.perf_counter()
    status, answer = await services.api.call(app_id, method, path, body)
    took_ms = round((time.perf_counter() - begun_s) * 1000, 1)
    snippets = render_snippets(
        method,
        path,
        body,
        address=services.config.public_url or ADDRESS,
        edge=services.config.edge_url,
    )
    if status >= 400:
        message = error_from_answer(status, answer).message
        return TriedCall(status, took_ms, answer, error=message, snippets=snippets)
    data = answer.get("data") if isinstance(answer, dict) else None
    explanation: Mapping[str, Any] = data.get("explanation") or {} if isinstance(data, dict) else {}
    products = data.get("products") or [] if isinstance(data, dict) else []
    return TriedCall(
        status,
        took_ms,
        answer,
        products=tuple(explained_products(products)) if isinstance(products, list) else (),
        served_by=str(explanation.get("served_by", "")),
        snapshot=str(explanation.get("snapshot", "")),
        rules=tuple(describe_rules(explanation.get("rules", ()))),
        missing=tuple(
            {"product_id": absence["product_id"], "sentences": describe_missing(absence["reasons"])}
            for absence in explanation.get("missing", ())
        ),
        snippets=snippets,
    )
